"""What is wrong is said with what to do about it."""

import io

import polars
import pyarrow
import pytest

import lodestore

GOOD = {"time_ns": [1, 2, 3], "offset_bytes": [0, 0, 4096], "length_bytes": [512, 512, 512], "op": ["R", "W", "read"]}


def frame(**changes):
    return polars.DataFrame({**GOOD, **changes})


@pytest.mark.parametrize(
    "table, words",
    [
        (frame().rename({"offset_bytes": "ofset_bytes"}), ["No column 'offset_bytes'", "nearest is 'ofset_bytes'", "Expected: time_ns"]),
        (frame().drop("length_bytes"), ["No column 'length_bytes' among time_ns", "Expected"]),
        (frame(offset_bytes=["a", "b", "c"]), ["Row 0", "'offset_bytes' is of type", "cast it"]),
        (frame(offset_bytes=[0.5, 1.0, 2.0]), ["whole numbers", "cast it"]),
        (frame(offset_bytes=[0, -1, 0]), ["Row 1", "from 0 on"]),
        (frame(length_bytes=[1, None, 1]), ["Row 1", "is null"]),
        (frame(length_bytes=[1, 0, 1]), ["Row 1", "is 0, and only a flush"]),
        (frame(length_bytes=[1, 1 << 33, 1]), ["Row 1", "below 4 GiB"]),
        (frame(op=["R", "x", "W"]), ["Row 1", "op is 'x'", "read, write, trim"]),
        (frame(volume=["a", "", "b"]), ["Row 1", "volume name of 1 to 512 bytes"]),
        (frame(volume=["a\n", "b", "b"]), ["Row 0", "without control characters"]),
        (frame(volume=["a", "b" * 600, "b"]), ["Row 1", "1 to 512 bytes"]),
        (frame(time_ns=[3, 1, 2]), ["Row 1 is earlier", "maintain_order=True", "on_unsorted='sort'"]),
        (frame(offset_bytes=pyarrow.array([0, 2**64 - 1, 0], pyarrow.uint64())), ["Row 1", "beyond 2^64"]),
    ],
)
def test_tables(table, words):
    with pytest.raises(lodestore.TraceError) as error:
        lodestore.curve(table)
    for word in words:
        assert word in str(error.value), str(error.value)


def test_names_that_nobody_knows():
    with pytest.raises(lodestore.TraceError, match="did you mean 'offset_bytes'"):
        lodestore.read_trace(frame(), columns={"offset_byte": "x"})
    with pytest.raises(lodestore.TraceError, match="No column 'there'"):
        lodestore.read_trace(frame(), columns={"offset_bytes": "there"})


def test_unsorted_tables_can_be_sorted_or_kept():
    table = frame(time_ns=[3, 1, 2])
    assert lodestore.read_trace(table, on_unsorted="sort").to_polars()["time_ns"].to_list() == [1, 2, 3]
    kept = lodestore.read_trace(table, on_unsorted="keep")
    assert not kept.is_sorted and kept.sort().is_sorted
    with pytest.raises(ValueError, match="on_unsorted"):
        lodestore.read_trace(table, on_unsorted="maybe")
    profiler = lodestore.CurveProfiler()
    with pytest.raises(lodestore.TraceError, match="table: row 1 is earlier.*sort"):
        profiler.partial_fit(table)


def test_sorting_keeps_requests_of_the_same_time_in_order():
    table = frame(time_ns=[2, 1, 1], offset_bytes=[0, 8192, 4096])
    assert lodestore.read_trace(table, on_unsorted="sort").to_polars()["offset_bytes"].to_list() == [8192, 4096, 0]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: lodestore.curve(42), TypeError, "path, an open binary file, or a table"),
        (lambda: lodestore.curve(frame().lazy()), TypeError, "collected first"),
        (lambda: lodestore.scan_trace(42), TypeError, "read_trace"),
        (lambda: lodestore.scan_trace("/nowhere/*.lode"), FileNotFoundError, "No file is like"),
        (lambda: lodestore.scan_trace("/nowhere/x.lode").read(), lodestore.TraceError, "check its path and rights"),
        (lambda: lodestore.read_trace(io.StringIO("text")), lodestore.TraceError, "binary mode"),
        (lambda: lodestore.read_trace(io.BytesIO(b"nonsense\n")), lodestore.TraceError, "no known format"),
        (lambda: lodestore.curve(frame(), metric="pod"), ValueError, "policy='ro'"),
        (lambda: lodestore.curve(frame(), metric="x"), ValueError, "'trd', 'urd' or 'pod'"),
        (lambda: lodestore.curve(frame(), sample="rate=2"), ValueError, "at most 1"),
        (lambda: lodestore.curve(frame(), block="5KiB"), ValueError, "block"),
        (lambda: lodestore.curve(frame(), points=1), ValueError, "points is 1"),
        (lambda: lodestore.curve(frame(), threads=9999), ValueError, "threads"),
        (lambda: lodestore.curve(frame(), vm_by="x"), ValueError, "'volume' or 'file'"),
        (lambda: lodestore.replay(frame(), "lruu", ssd="1MiB"), ValueError, "'lru'"),
        (lambda: lodestore.replay(frame(), "lru"), ValueError, "ssd='64MiB'"),
        (lambda: lodestore.replay(frame(), "lru", ssd=-1), ValueError, "from 0 on"),
        (lambda: lodestore.replay(frame(), "lru", ssd=1.5), TypeError, "whole number of bytes"),
        (lambda: lodestore.replay(frame(), "lru", ssd="1MiB", settings={"asoc": 0}), ValueError, "assoc"),
        (lambda: lodestore.replay(frame(), "lru", ssd="1MiB", devices="x"), ValueError, ".toml"),
        (lambda: lodestore.compare(frame(), ["lru", "lru"], ssd="1MiB"), ValueError, "twice"),
        (lambda: lodestore.compare(frame(), ["lru"], ssd="1MiB", baseline="arc"), ValueError, "add it to schemes"),
        (lambda: lodestore.compare(frame(), ["lru"]), ValueError, "dram= and ssd="),
        (lambda: lodestore.size(frame()), ValueError, "dram, ssd or budget"),
        (lambda: lodestore.size(frame(), ssd=1), ValueError, "ssd is less than a block of 4 KiB"),
        (lambda: lodestore.size(frame(), ssd="1MiB", budget="5usd"), ValueError, "Give either budget, or dram and ssd"),
        (lambda: lodestore.size(frame(), ssd="1MiB", floor=0.5), ValueError, "floor means nothing to this objective"),
        (lambda: lodestore.size(frame(), ssd="1MiB", floor=2.0, objective="ppc-total"), ValueError, "from 0 to 1"),
        (lambda: lodestore.size(frame(), ssd="1MiB", objective="x"), ValueError, "objective is 'x'; it is latency"),
        (lambda: lodestore.size(frame(), ssd="1MiB", solver="x"), ValueError, "solver is 'x'"),
        (lambda: lodestore.compare(frame(), ["lru"], ssd=["1MiB", "1MiB"]), ValueError, "The sizes in places 1 and 2 are the same"),
        (lambda: lodestore.compare(frame(), ["etica"], dram=[4096, 8192], ssd=[1, 2, 3]), ValueError, "dram= has 2 sizes and ssd= 3"),
        (lambda: lodestore.size(lodestore.curve(frame())), ValueError, "ssd="),
        (lambda: lodestore.size(frame(), ssd="1MiB", vms={"a": {"min": 1}}), ValueError, "min_ssd"),
        (lambda: lodestore.size(lodestore.curve(frame()), ssd="1MiB", vms={"x*": {"weight": 2}}), ValueError, "there are table"),
        (lambda: lodestore.size(lodestore.curve(frame()), ssd="1MiB", vms={"*": {"min_dram": 2}}), ValueError, "of curves the keys are"),
        (lambda: lodestore.size(lodestore.curve(frame()), ssd="1MiB", html="x.html"), ValueError, "html means nothing to curves"),
        (lambda: lodestore.size(lodestore.curve(frame()), ssd="1MiB", solver="talus"), ValueError, "solver means nothing"),
        (lambda: lodestore.synth("nothing"), ValueError, "hm_1"),
        (lambda: lodestore.synth("hm_1", requests=0), ValueError, "requests is 0"),
        (lambda: lodestore.curve(frame())["x"], KeyError, "No VM is called"),
    ],
)
def test_calls(call, error, words):
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value), str(raised.value)


def test_parquet_is_given_as_a_table(tmp_path):
    frame().write_parquet(tmp_path / "x.parquet")
    with pytest.raises(lodestore.TraceError, match="polars.read_parquet"):
        lodestore.curve(tmp_path / "x.parquet")
    assert lodestore.curve(polars.read_parquet(tmp_path / "x.parquet"))[0].accesses == 3


def test_memory_that_does_not_suffice():
    trace = lodestore.synth("prxy_0", requests=20000)
    with pytest.raises(MemoryError, match="memory="):
        lodestore.replay(trace, "belady", ssd="1MiB", memory="64KiB")


def test_messages_name_arguments_and_not_options(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("time_ns,volume,op,offset_bytes,length_bytes\n2,a,R,0,512\n1,a,X,0,512\n")
    with pytest.raises(lodestore.TraceError, match="line 3.*") as error:
        lodestore.read_trace(path)
    assert "on_error='skip'" in str(error.value) and "--" not in str(error.value)
    with pytest.warns(lodestore.LodestoreWarning, match="1 records skipped"):
        lodestore.curve(lodestore.scan_trace(path, on_error="skip"))


def test_files_that_go_back_are_warned_of(tmp_path):
    path = tmp_path / "back.csv"
    path.write_text("time_ns,volume,op,offset_bytes,length_bytes\n2,a,R,0,512\n1,a,R,0,512\n")
    with pytest.warns(lodestore.LodestoreWarning, match="trace.sort"):
        trace = lodestore.read_trace(path)
    with pytest.warns(lodestore.LodestoreWarning, match="earlier than the one before"):
        lodestore.curve(path)
    assert trace.sort().is_sorted
