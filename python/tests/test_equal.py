"""Every function gives the digits of the command line, whether requests are read from a file or are in memory."""

import warnings

import pytest

import lodestore
from conftest import SMALL


def both(path):
    """The same requests from the file and from memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lodestore.LodestoreWarning)
        return [path, lodestore.read_trace(path)]


def without_inputs(report):
    """What memory cannot know: path and format."""
    return {key: value for key, value in report.items() if key not in ("inputs", "warnings", "notes")}


pytestmark = pytest.mark.filterwarnings("ignore::lodestore.LodestoreWarning")


@pytest.mark.parametrize(
    "metric, policy, sample, more",
    [
        ("trd", None, None, {}),
        ("urd", None, None, {}),
        ("pod", "ro", None, {}),
        ("pod", "wbwo", None, {}),
        ("pod", "wb", None, {}),
        ("trd", None, 0.1, {}),
        ("pod", "ro", 1024, {}),
        ("trd", None, "aet", {}),
        ("trd", None, "counter-stacks", {}),
        ("trd", None, None, {"interval": 500, "points": 50}),
        ("urd", None, None, {"block": "16KiB", "vm_by": "file", "threads": 1}),
    ],
)
def test_curve(lode, any_trace, metric, policy, sample, more):
    words = ["--metric", metric, "--policy", policy] if policy else ["--metric", metric]
    if isinstance(sample, float):
        words += ["--sample", f"rate={sample}"]
    elif sample:
        words += ["--sample", f"size={sample}" if isinstance(sample, int) else sample]
    for key, value in more.items():
        words += [f"--{key.replace('_', '-')}", value]
    expected = lode("curve", any_trace, *words, "--json")
    file, memory = both(any_trace)
    assert lodestore.curve(file, metric, policy, sample, **more).to_dict() == expected
    if more.get("vm_by") != "file":
        found = lodestore.curve(memory, metric, policy, sample, **more).to_dict()
        assert without_inputs(found) == without_inputs(expected)


def test_curve_of_a_scheme(lode, small_trace):
    expected = lode("curve", small_trace, "--scheme", "arc", "--sizes", "1MiB,4MiB,64MiB", "--json")
    for data in both(small_trace):
        found = lodestore.curve(data, scheme="arc", sizes=["1MiB", 4 << 20, "64MiB"])
        assert without_inputs(found.to_dict()) == without_inputs(expected)
    # The rows of the table are those of the CSV.
    text = lode("curve", small_trace, "--metric", "urd", "--csv")
    assert len(text.splitlines()) == 1 + len(lodestore.curve(small_trace, "urd").rows())


@pytest.mark.parametrize(
    "scheme, levels, settings",
    [
        ("lru", {"ssd": "16MiB"}, {}),
        ("arc", {"ssd": "16MiB"}, {"write_policy": "wt"}),
        ("lru", {"ssd": "16MiB"}, {"assoc": 0}),
        ("etica", {"dram": "1MiB", "ssd": "16MiB"}, {"mode": "npe"}),
        ("tica-adaptive", {"dram": "1MiB", "ssd": "16MiB", "read-ssd": "16MiB"}, {}),
        ("belady", {"ssd": "4MiB"}, {}),
    ],
)
def test_replay(lode, any_trace, scheme, levels, settings):
    words = [word for level, size in levels.items() for word in (f"--{level}", size)]
    words += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    expected = lode("replay", any_trace, "--scheme", scheme, *words, "--json")
    sizes = {level.replace("-", "_"): size for level, size in levels.items()}
    file, memory = both(any_trace)
    report = lodestore.replay(file, scheme, settings=settings, **sizes)
    assert report.to_dict() == expected
    assert without_inputs(lodestore.replay(memory, scheme, settings=settings, **sizes).to_dict()) == without_inputs(expected)


def csv_of(text):
    lines = [line.split(",") for line in text.splitlines()]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def same_as_csv(rows, text):
    """Rows as numbers and text are those of the CSV."""
    shown = csv_of(text)
    assert len(rows) == len(shown)
    for row, line in zip(rows, shown):
        for key, cell in line.items():
            value = row[key]
            assert cell == "" if value is None else cell == str(value) or float(cell) == value, key


def test_rows_are_those_of_the_csv(lode, small_trace):
    words = ["--scheme", "lru", "--ssd", "16MiB", "--csv"]
    same_as_csv(lodestore.replay(small_trace, "lru", ssd="16MiB").rows(), lode("replay", small_trace, *words))
    words = ["--schemes", "lru,arc", "--ssd", "1MiB,16MiB", "--baseline", "lru", "--csv"]
    found = lodestore.compare(small_trace, ["lru", "arc"], ssd=["1MiB", "16MiB"], baseline="lru")
    same_as_csv(found.rows(), lode("compare", small_trace, *words))
    same_as_csv(lodestore.curve(small_trace).rows(), lode("curve", small_trace, "--csv"))


def test_several_traces(lode):
    words = ["--align", "start", "--scheme", "lru", "--ssd", "16MiB", "--devices", "nvme-hdd", "--json"]
    expected = lode("replay", *SMALL, *words)
    found = lodestore.replay(SMALL, "lru", ssd="16MiB", align="start", devices="nvme-hdd")
    assert found.to_dict() == expected


def test_compare(lode, small_trace):
    words = ["--schemes", "etica,lru,belady", "--dram", "1MiB", "--ssd", "5%,10%", "--baseline", "lru", "--json"]
    expected = lode("compare", small_trace, *words)
    for data in both(small_trace):
        found = lodestore.compare(data, ["etica", "lru", "belady"], dram="1MiB", ssd=["5%", "10%"], baseline="lru")
        assert without_inputs(found.to_dict()) == without_inputs(expected)


@pytest.mark.parametrize(
    "words, given",
    [
        (["--dram", "1MiB", "--ssd", "16MiB"], {"dram": "1MiB", "ssd": "16MiB"}),
        (["--budget", "1usd", "--devices", "nvme-hdd"], {"budget": 1, "devices": "nvme-hdd"}),
        (["--ssd", "4MiB", "--objective", "hits", "--no-replay"], {"ssd": "4MiB", "objective": "hits", "replay": False}),
        (
            ["--ssd", "4MiB", "--objective", "ppc-total", "--floor", "0.5", "--vm", "*:weight=2,min-ssd=64KiB", "--scheme", "arc"],
            {"ssd": "4MiB", "objective": "ppc-total", "floor": 0.5, "vms": {"*": {"weight": 2, "min_ssd": "64KiB"}}, "scheme": "arc"},
        ),
    ],
)
def test_size(lode, small_trace, words, given):
    expected = lode("size", small_trace, *words, "--json")
    for data in both(small_trace):
        found = without_inputs(lodestore.size(data, **given).to_dict())
        # The command line also says how to go on with itself.
        for report in (found, expected):
            if report.get("one_level"):
                report["one_level"]["command"] = None
        assert found == without_inputs(expected)


def test_size_of_curves_grants_what_fits_and_divides_what_does_not():
    curves = [lodestore.curve(path, "pod", "ro") for path in SMALL]
    needed = [curve.needed_bytes for one in curves for curve in one]
    all_of_it = lodestore.size(curves, ssd=sum(needed))
    assert all_of_it.to_dict()["method"] == "granted" and list(all_of_it.shares.values()) == needed
    half = lodestore.size(curves, ssd=sum(needed) // 2)
    assert sum(half.shares.values()) <= sum(needed) // 2
    assert 0 < half.hit_ratio < all_of_it.hit_ratio
    # No other cut of that is better by hits, in steps of a tenth.
    one, other = (curve for found in curves for curve in found)
    total = sum(needed) // 2
    for tenth in range(11):
        share = total * tenth // 10
        hits = one.hit_ratio(share) * one.accesses + other.hit_ratio(total - share) * other.accesses
        assert hits <= half.hit_ratio * (one.accesses + other.accesses) * 1.0001


def test_size_of_curves_keeps_the_rules_and_tells_equal_names_apart():
    curves = lodestore.curve(SMALL[0], "pod", "ro")
    name, needed = curves[0].name, curves[0].needed_bytes
    half = needed // 8192 * 4096
    limited = lodestore.size([curves, curves], ssd=2 * needed, vms={f"{name}*": {"max_ssd": half}})
    assert limited.shares == {name: half, f"{name}#2": half}
    one = lodestore.size([curves, curves], ssd=2 * needed, vms={f"{name}#2": {"max_ssd": half}})
    assert one.shares == {name: needed, f"{name}#2": half}
    kept = lodestore.size([curves, curves], ssd=needed, vms={name: {"min_ssd": needed}})
    assert kept.shares[name] == needed and kept.shares[f"{name}#2"] == 0


def test_the_page_of_a_plan_says_how_it_came_about(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    page = tmp_path / "plan.html"
    lodestore.size(SMALL[0], dram="1MiB", ssd="8MiB", html=page)
    text = page.read_text()
    assert f"1970-01-02, Lodestore {lodestore.__version__}: lodestore.size(data=[" in text and "dram=&#39;1MiB&#39;, ssd=&#39;8MiB&#39;" in text
    assert [path.name for path in tmp_path.iterdir()] == ["plan.html"]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        lodestore.size(SMALL[0], dram="1MiB", ssd="8MiB", html=tmp_path / "nowhere" / "plan.html")


def test_drives_are_bought_whole(lode, tmp_path):
    path = SMALL[1]
    profile = tmp_path / "my.toml"
    profile.write_text(lode("devices", "nvme-960-1dwpd"))
    for drive in ("nvme-960-1dwpd", profile):
        expected = lode("replay", path, "--scheme", "lru", "--ssd", "16MiB", "--drive", drive, "--json")
        found = lodestore.replay(path, "lru", ssd="16MiB", drive=drive).to_dict()
        assert found["devices"]["drives"]["count"] == 1 and without_inputs(found) == without_inputs(expected)
    plan = lodestore.size(path, dram="1MiB", ssd="16MiB", drive="nvme-960-1dwpd").to_dict()
    told = lode("size", path, "--dram", "1MiB", "--ssd", "16MiB", "--drive", "nvme-960-1dwpd", "--json")
    assert plan["recommended"] == told["recommended"] and plan["drive"] == told["drive"]
    with pytest.raises(ValueError, match="ends in .toml"):
        lodestore.replay(path, "lru", ssd="16MiB", drive="x")


def test_numbers_of_numpy_are_numbers():
    numpy = pytest.importorskip("numpy")
    path = SMALL[1]
    assert lodestore.curve(path, sample=numpy.float64(0.5)).to_dict() == lodestore.curve(path, sample=0.5).to_dict()
    assert lodestore.curve(path, sample=numpy.int32(1024)).to_dict() == lodestore.curve(path, sample=1024).to_dict()
    sizes = numpy.array([1, 2]) << 20
    assert lodestore.compare(path, ["lru"], ssd=sizes[0]).rows() == lodestore.compare(path, ["lru"], ssd="1MiB").rows()
    assert lodestore.compare(path, ["lru"], ssd=sizes).rows() == lodestore.compare(path, ["lru"], ssd=["1MiB", "2MiB"]).rows()


def test_synth_and_fit(lode, tmp_path):
    file = tmp_path / "made.lode"
    lode("trace", "synth", "prxy_0", "-o", file, "--requests", 20000, "--seed", 7, "--scale", "0.5")
    made = lodestore.synth("prxy_0", requests=20000, seed=7, scale=0.5)
    own = tmp_path / "own.lode"
    assert made.write(own) == 20000
    assert own.read_bytes() == file.read_bytes()
    lode("trace", "fit", file, "-o", tmp_path / "made.toml")
    profile = lodestore.fit(file)
    assert profile == (tmp_path / "made.toml").read_text()
    again = lodestore.synth(profile, requests=100)
    assert len(again) == 100 and len(lodestore.synth(tmp_path / "made.toml", requests=100)) == 100


def test_schemes(lode):
    assert lodestore.schemes() == lode("schemes", "--json")


@pytest.mark.parametrize("sample, word", [("exact", "exact"), (1024, "size=1024")])
def test_profiler_of_parts(lode, sorted_trace, sample, word):
    expected = lode("curve", sorted_trace, "--metric", "urd", "--sample", word, "--json")
    trace = both(sorted_trace)[1]
    assert trace.is_sorted, "parts of a stream are needed by time"
    profiler = lodestore.CurveProfiler("urd", sample=sample)
    table = trace.to_arrow().unify_dictionaries()
    for start in range(0, len(table), 7777):
        profiler.partial_fit(table.slice(start, 7777))
    names = ("intervals", "first_interval")
    found, wanted = profiler.curves().to_dict()["vms"], expected["vms"]
    drop = lambda vms: [{key: value for key, value in vm.items() if key not in names} for vm in vms]
    assert drop(found) == drop(wanted)
