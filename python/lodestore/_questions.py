"""The questions: curves, sizes, replays, comparisons, synthetic traces. Every answer has the digits of the command line."""

from __future__ import annotations

import json
import numbers
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _lodestore
from ._files import made, write_text
from ._progress import shown
from ._results import Comparison, Curve, Curves, Division, Plan, Report, understood
from ._scheme import PythonReport, PythonScheme, replay_python
from ._traces import Scan, Trace, sources_of
from ._units import Size, size_bytes, size_text

Settings = Optional[Mapping[str, Any]]


def _common(block: Size, threads: int, memory: Size, vm_by: str, align: str) -> Dict[str, Any]:
    return {
        "block": size_text(block),
        "threads": threads,
        "memory": size_text(memory),
        "vm_by": vm_by,
        "align": align,
    }


def _devices(devices: Any, drive: Any) -> Dict[str, Optional[str]]:
    """Names of the devices and of the drives, and the texts of the profile files where they are some."""
    name, profile = _profile(devices)
    drive_name, drive_profile = (None, None) if drive is None else _profile(drive)
    return {"name": name, "profile": profile, "drive": drive_name, "drive_profile": drive_profile}


def _profile(named: Any) -> Tuple[str, Optional[str]]:
    name = str(os.fspath(named))
    if not name.endswith(".toml"):
        return name, None
    with open(name, encoding="utf-8") as file:
        return name, file.read()


def _sample(sample: Any) -> Optional[str]:
    """`0.01` is a rate, `8192` a number of blocks."""
    if sample is None or isinstance(sample, str):
        return sample
    # Of NumPy's numbers, too.
    if isinstance(sample, numbers.Integral):
        return f"size={int(sample)}"
    return f"rate={float(sample)!r}"


def schemes() -> List[Dict[str, Any]]:
    """The caching schemes: name, levels, settings with defaults, source; as `lode schemes --json`.

    >>> import lodestore
    >>> "lru" in [scheme["name"] for scheme in lodestore.schemes()]
    True
    """
    known: List[Dict[str, Any]] = json.loads(_lodestore.schemes())
    return known


def curve(
    data: Any,
    metric: str = "trd",
    policy: Optional[str] = None,
    sample: Any = None,
    *,
    scheme: Optional[str] = None,
    sizes: Sequence[Size] = (),
    dram_share: float = 0.1,
    interval: Union[None, int, str] = None,
    points: int = 1000,
    block: Size = "4KiB",
    threads: int = 0,
    memory: Size = "2GiB",
    vm_by: str = "volume",
    align: str = "absolute",
    progress: Any = None,
) -> Curves:
    """For each VM, the hits of caches of every size: `lode curve`.

    Args:
        data: traces: paths, patterns, a `Scan`, a `Trace`, a table, or a list of them.
        metric: `'trd'` counts hits of reads and writes of an LRU cache, `'urd'` those of its reads, `'pod'` those of the reads
            that a cache with the write policy `policy` could serve.
        policy: for `'pod'`: `'ro'`, `'wbwo'` or `'wb'`.
        sample: how the curve is obtained: `'exact'`, a rate (`0.01`), a number of blocks (`8192`), `'aet'`,
            `'counter-stacks'`.
        scheme: instead of a metric, simulate this scheme in miniature, at `sizes` of all levels together (bytes), of which
            `dram_share` (0 to 1) is DRAM.
        interval: also look at intervals of so many requests, or so much time such as `'10min'`.
        points: most points of a curve.
        block: bytes of a cache block, a power of two from 4 KiB to 64 KiB.
        threads: threads to work with; 0 is one for each processor. Results do not depend on it.
        memory: bytes that tables may take; where they need more, a part of the blocks is followed, which is said.
        vm_by: `'volume'` or `'file'`: what becomes a VM.
        align: `'absolute'` or `'start'`: how the clocks of several traces are brought together.
        progress: see `lodestore`.

    >>> import lodestore
    >>> trace = lodestore.synth("hm_1", requests=5000, seed=1)
    >>> curves = lodestore.curve(trace, metric="pod", policy="ro")
    >>> 0 < curves[0].hit_ratio("1GiB") < 1
    True
    """
    common = _common(block, threads, memory, vm_by, align)
    with shown("Measuring", progress) as tell:
        sources = sources_of(data, tell)
        if scheme is not None:
            texts = [size_text(size) for size in sizes]
            text = _lodestore.curve_of_scheme(sources, common, scheme, texts, dram_share, _sample(sample), tell)
        else:
            length = None if interval is None else str(interval)
            text = _lodestore.curve(sources, common, metric, policy, _sample(sample), length, points, tell)
    return Curves(understood(text, 3))


def replay(
    data: Any,
    scheme: Union[str, PythonScheme],
    *,
    dram: Optional[Size] = None,
    ssd: Optional[Size] = None,
    read_ssd: Optional[Size] = None,
    settings: Settings = None,
    devices: Any = "default",
    drive: Any = None,
    block: Size = "4KiB",
    memory: Size = "2GiB",
    vm_by: str = "volume",
    align: str = "absolute",
    progress: Any = None,
) -> Union[Report, PythonReport]:
    """Traces through a caching scheme, and what follows: `lode replay`.

    Args:
        data: as of `curve`.
        scheme: a name of `schemes()`, perhaps with settings as in `'lru:write_policy=wt'`; or a `PythonScheme`, which takes
            far longer.
        dram, ssd, read_ssd: sizes of the levels in bytes, or text such as `'64MiB'`; the VMs divide them.
        settings: settings of the scheme.
        devices: a host that `lode devices` lists, or the path of a profile that ends in `.toml`.
        drive: what the SSD is bought as, in whole ones: a drive that `lode devices` lists, or the path of a profile; without it an
            SSD has any size.
        block, memory, vm_by, align, progress: as of `curve`; memory is for schemes that need to know what comes next.

    >>> import lodestore
    >>> trace = lodestore.synth("hm_1", requests=5000, seed=1)
    >>> report = lodestore.replay(trace, "lru", ssd="64MiB")
    >>> report.to_dict()["scheme"], 0 <= report.hit_ratio <= 1
    ('lru', True)
    """
    if isinstance(scheme, PythonScheme):
        if dram or read_ssd or settings:
            raise ValueError("A scheme written in Python has one level: give ssd= alone, and settings to the scheme itself")
        if ssd is None:
            raise ValueError("Give the size of the scheme's level with ssd=, such as ssd='64MiB'")
        if vm_by != "volume":
            raise ValueError("A scheme written in Python takes each volume for a VM; leave vm_by out")
        with shown("Replaying", progress) as tell:
            sources = sources_of(data, tell)
            return replay_python([Scan([source]) for source in sources], scheme, size_bytes(ssd), size_bytes(block), tell)
    common = _common(block, 1, memory, vm_by, align)
    pairs = [f"{key}={_setting(value)}" for key, value in (settings or {}).items()]
    sizes = {"dram": size_text(dram), "ssd": size_text(ssd), "read_ssd": size_text(read_ssd)}
    host = _devices(devices, drive)
    with shown("Replaying", progress) as tell:
        text = _lodestore.replay(sources_of(data, tell), common, scheme, pairs, sizes, host, tell)
    return Report(understood(text, 3))


def _setting(value: Any) -> str:
    # True and False, of NumPy, too.
    text = str(value)
    return text.lower() if text in ("True", "False") else text


def _sizes(sizes: Union[None, Size, Sequence[Size]]) -> List[str]:
    if sizes is None:
        return []
    if isinstance(sizes, (str, int)):
        return [size_text(sizes)]
    # A number of NumPy's is no sequence either.
    one = isinstance(sizes, numbers.Integral)
    return [size_text(int(sizes))] if one else [size_text(size) for size in sizes]  # type: ignore[call-overload]


def compare(
    data: Any,
    schemes: Sequence[str],
    *,
    dram: Union[None, Size, Sequence[Size]] = None,
    ssd: Union[None, Size, Sequence[Size]] = None,
    read_ssd: Union[None, Size, Sequence[Size]] = None,
    baseline: Optional[str] = None,
    devices: Any = "default",
    drive: Any = None,
    block: Size = "4KiB",
    threads: int = 0,
    memory: Size = "2GiB",
    vm_by: str = "volume",
    align: str = "absolute",
    progress: Any = None,
) -> Comparison:
    """Several schemes over several sizes, side by side: `lode compare`.

    Args:
        schemes: names, perhaps with settings as in `'etica:mode=npe'`.
        dram, ssd, read_ssd: sizes of the levels: bytes, `'64MiB'`, or `'5%'` of what the traces touch; one or several of them.
            Where levels have several, the first of one goes with the first of the others.
        baseline: which of the schemes the others are measured against.
        Others: as of `replay` and `curve`.

    >>> import lodestore
    >>> trace = lodestore.synth("hm_1", requests=5000, seed=1)
    >>> [row["scheme"] for row in lodestore.compare(trace, ["lru", "arc"], ssd="16MiB").rows()]
    ['lru', 'arc']
    """
    if isinstance(schemes, str):
        schemes = schemes.split(",")
    if len(set(schemes)) < len(schemes):
        raise ValueError("schemes has one of them twice; name each scheme once")
    common = _common(block, threads, memory, vm_by, align)
    host = _devices(devices, drive)
    levels = (_sizes(dram), _sizes(ssd), _sizes(read_ssd))
    with shown("Replaying", progress) as tell:
        sources = sources_of(data, tell)
        text = _lodestore.compare(sources, common, list(schemes), *levels, baseline, host, tell)
    return Comparison(understood(text, 3))


def size(
    data: Any,
    *,
    dram: Optional[Size] = None,
    ssd: Optional[Size] = None,
    budget: Union[None, str, int, float] = None,
    objective: Optional[str] = None,
    scheme: str = "best",
    floor: Optional[float] = None,
    least: Optional[Size] = None,
    solver: str = "auto",
    vms: Optional[Mapping[str, Mapping[str, Any]]] = None,
    sample: Any = None,
    replay: bool = True,
    devices: Any = "default",
    drive: Any = None,
    html: Any = None,
    block: Size = "4KiB",
    threads: int = 0,
    memory: Size = "2GiB",
    vm_by: str = "volume",
    align: str = "absolute",
    progress: Any = None,
) -> Union[Plan, Division]:
    """How much of each level every VM should get.

    Of traces this is `lode size`, a `Plan`. Of `Curves` (or a list of them) it divides one level, whose size is `ssd`, by what
    each curve gains, a `Division`: nothing is measured again, and nothing replayed.

    Args:
        data: traces, as of `curve`; or `Curves`.
        dram, ssd: what there is to divide, in bytes or as text; or instead
        budget: US dollars for both levels.
        objective: of traces `'latency'` (without more), `'sum-hit-ratio'`, `'hits'`, `'ppc-total'` (with `floor`, 0 to 1),
            `'ppc-literal'` (with `least`, bytes), `'maxmin'`; of curves `'hits'` (without more), `'sum-hit-ratio'`, `'maxmin'`.
        scheme: what the plan is for: `'auto'`, `'etica'`, a scheme with one SSD level, or `'best'`: auto, unless etica or one
            level of lru or auto is better.
        vms: what VMs may have, by name or pattern: `{'db*': {'weight': 2, 'min_ssd': '10GiB'}}` with the keys `weight`,
            `min_dram`, `max_dram`, `min_ssd`, `max_ssd`.
        sample: `'exact'`, a rate or a number of blocks.
        replay: whether the plan is replayed, which tells its wear.
        html: also write the plan's page to this file.
        Others: as of `replay` and `curve`.

    >>> import lodestore
    >>> trace = lodestore.synth("hm_1", requests=5000, seed=1)
    >>> plan = lodestore.size(trace, dram="1MiB", ssd="16MiB")
    >>> curves = lodestore.curve(trace)
    >>> division = lodestore.size(curves, ssd="16MiB")
    >>> sum(division.shares.values()) <= 16 << 20
    True
    """
    listed = isinstance(data, (list, tuple)) and bool(data)
    if isinstance(data, Curves) or (listed and all(isinstance(one, (Curve, Curves)) for one in data)):
        if dram is not None or budget is not None or ssd is None:
            raise ValueError("Of curves one level is divided: give its size with ssd=, and neither dram= nor budget=")
        of_traces = {"floor": floor, "least": least, "sample": sample, "html": html}
        for argument, value in {**of_traces, "scheme": scheme != "best" or None, "solver": solver != "auto" or None}.items():
            if value is not None:
                raise ValueError(f"{argument} means nothing to curves, of which one level is divided; leave it out, or give traces")
        return _divide(data, size_bytes(ssd), objective or "hits", vms or {})
    rules = [_rule(name, rule) for name, rule in (vms or {}).items()]
    division = {
        "dram": size_text(dram),
        "ssd": size_text(ssd),
        "budget": None if budget is None else str(budget),
        "objective": objective or "latency",
        "scheme": scheme,
        "floor": floor,
        "least": size_text(least),
        "solver": solver,
        "rules": rules,
        "sample": _sample(sample),
        "replay": replay,
    }
    common = _common(block, threads, memory, vm_by, align)
    host = _devices(devices, drive)
    with shown("Measuring", progress) as tell:
        sources = sources_of(data, tell)
        asked = {"dram": dram, "ssd": ssd, "budget": budget, "objective": objective, "scheme": scheme, "devices": host["name"], "drive": host["drive"]}
        head = None if html is None else made("lodestore.size", {"data": [source.name for source in sources], **asked})
        text, page = _lodestore.size(sources, common, division, host, head, tell)
    if page is not None:
        write_text(html, page)
    return Plan(understood(text, 3))


def _rule(name: str, rule: Mapping[str, Any], of: str = "", without: Tuple[str, ...] = ()) -> str:
    known = [key for key in ("weight", "min_dram", "max_dram", "min_ssd", "max_ssd") if key not in without]
    for key in rule:
        if key not in known:
            raise ValueError(f"vms[{name!r}] has {key!r}; {of}the keys are {', '.join(known)}")
    pairs = (f"{key.replace('_', '-')}={value}" for key, value in rule.items())
    return f"{name}:{','.join(pairs)}"


def _divide(data: Any, size: int, objective: str, vms: Mapping[str, Mapping[str, Any]]) -> Division:
    curves: List[Curve] = [curve for one in ([data] if isinstance(data, Curves) else data) for curve in _each(one)]
    blocks = {curve.block_bytes for curve in curves}
    if len(blocks) > 1:
        raise ValueError(f"The curves are of blocks of {', '.join(map(str, sorted(blocks)))} bytes; measure all with one block=")
    block_bytes = blocks.pop() if blocks else 4096
    rules = [_rule(name, rule, "of curves ", ("min_dram", "max_dram")) for name, rule in vms.items()]
    names = _told_apart([curve.name for curve in curves])
    demands = [_demand(name, curve) for name, curve in zip(names, curves)]
    shares, method, value = _lodestore.divide_curves(demands, rules, block_bytes, size // block_bytes, objective)
    rows: List[Dict[str, Any]] = []
    for name, curve, share in zip(names, curves, shares):
        ratio = curve.hit_ratio(share * block_bytes)
        rows.append({"name": name, "bytes": share * block_bytes, "hit_ratio": ratio, "accesses": curve.accesses})
    accesses = sum(row["accesses"] for row in rows)
    hits = sum(row["hit_ratio"] * row["accesses"] for row in rows)
    return Division(
        {
            "size_bytes": size,
            "block_bytes": block_bytes,
            "objective": objective,
            "method": method,
            "value": value,
            "hit_ratio": hits / accesses if accesses else None,
            "vms": rows,
        }
    )


def _each(one: Union[Curve, Curves]) -> List[Curve]:
    return [one] if isinstance(one, Curve) else list(one)


def _told_apart(names: List[str]) -> List[str]:
    """Names of several traces' volumes may be the same; the second of `web` is `web#2`, as the command line has it."""
    seen: Dict[str, int] = {}
    told = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return told


def _demand(name: str, curve: Curve) -> Dict[str, Any]:
    # The curve of a cache of no block has no hits, and need not be told.
    points = [(blocks, round(ratio * curve.accesses)) for blocks, ratio in zip(curve.blocks, curve.hit_ratios) if blocks > 0]
    return {"name": name, "points": points, "accesses": curve.accesses}


def profiles() -> Dict[str, str]:
    """Names of the profiles that `synth` knows, and the workloads they are of."""
    return dict(_lodestore.profiles())


def synth(
    profile: Any,
    *,
    requests: Optional[int] = None,
    seed: Optional[int] = None,
    scale: Optional[float] = None,
    progress: Any = None,
) -> Trace:
    """A synthetic trace of a profile: `lode trace synth`.

    Args:
        profile: a name of `profiles()`, the path of a TOML file, or TOML text as `fit` gives it.
        requests: how many, instead of the profile's own number.
        seed: where chance starts, instead of the profile's own.
        scale: makes requests, footprint and distances so many times as large.

    >>> import lodestore
    >>> lodestore.synth("hm_1", requests=100)
    <lodestore.Trace 'synthetic:hm_1': 100 requests of 1 volume>
    """
    text: Optional[str] = None
    if isinstance(profile, str) and "\n" in profile:
        name, text = "profile.toml", profile
    else:
        name = os.fspath(profile)
        # A name with a dot or a slash is a file's.
        if "." in name or "/" in name:
            with open(name, encoding="utf-8") as file:
                text = file.read()
    with shown("Making", progress) as tell:
        return Trace(_lodestore.synth(name, text, requests, seed, scale, tell))


def fit(data: Any, *, progress: Any = None) -> str:
    """The profile of a trace as TOML text, for synthetic traces like it: `lode trace fit`."""
    with shown("Fitting", progress) as tell:
        sources = sources_of(data, tell)
        if len(sources) != 1:
            raise ValueError(f"A profile is of one trace, and these are {len(sources)}; fit each in turn")
        text: str = _lodestore.fit(sources[0], tell)
        return text
