"""Results: the reports of the command line, digit by digit, with what one does with them in Python."""

from __future__ import annotations

import bisect
import copy
import json
import warnings
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _extras
from ._traces import LodestoreWarning
from ._units import show_size

Row = Dict[str, Any]


class _Result:
    """A report that was made with the names that docs/reports.md explains."""

    def __init__(self, report: Mapping[str, Any]) -> None:
        self._report = report

    def to_dict(self) -> Dict[str, Any]:
        """The report as `lode ... --json` writes it; docs/reports.md says what its names mean."""
        return copy.deepcopy(dict(self._report))

    def rows(self) -> List[Row]:
        """The table of the report, as `lode ... --csv` has it."""
        raise NotImplementedError

    def to_arrow(self) -> Any:
        """`rows()` as a `pyarrow.Table`."""
        return _extras.needed("pyarrow", "An Arrow table").Table.from_pylist(self.rows())

    def to_pandas(self) -> Any:
        """`rows()` as a `pandas.DataFrame`."""
        return _extras.needed("pandas", "A pandas frame").DataFrame(self.rows())

    def to_polars(self) -> Any:
        """`rows()` as a `polars.DataFrame`."""
        return _extras.needed("polars", "A Polars frame").DataFrame(self.rows())


def understood(text: str, stacklevel: int = 4) -> Dict[str, Any]:
    """A report out of the compiled functions; warns of what the command line warns of."""
    report: Dict[str, Any] = json.loads(text)
    said = list(report.get("warnings", []))
    for trace in report.get("inputs", []):
        said += _of_input(trace)
    if report.get("shrinks", 0) > 0:
        said.append("Not all blocks were followed, to keep within memory=; each VM's rate says which part was")
    if report.get("not_replayed"):
        said.append(report["not_replayed"])
    for one in said:
        warnings.warn(one, LodestoreWarning, stacklevel=stacklevel)
    return report


def _of_input(trace: Mapping[str, Any]) -> Iterator[str]:
    path = trace["path"]
    if trace["backwards"]:
        yield (
            f"{path}: {trace['backwards']} requests are earlier than the one before; to put them in order: "
            f"read_trace(...).sort()"
        )
    for records in trace["bad_records"]:
        yield f"{path}: {records['count']} records skipped: {records['kind'].replace('_', ' ')}"
    if trace["also_fits"]:
        yield f"{path}: taken for {trace['format']}; {' and '.join(trace['also_fits'])} would fit, too; format= says otherwise"
    if trace["implausible_bytes"]:
        yield f"{path}: implausible: half of the first requests are of {trace['implausible_bytes']} bytes or more"


class Curve:
    """Hits of one VM by cache size."""

    def __init__(self, vm: Mapping[str, Any], block_bytes: int) -> None:
        self._vm = vm
        self.name: str = vm["name"]
        #: Bytes of a block.
        self.block_bytes = block_bytes
        #: Cache sizes in blocks, ascending, at which hits change.
        self.blocks: List[int] = [point[0] for point in vm["curve"]]
        #: Hits for each access (0 to 1) of caches of these sizes.
        self.hit_ratios: List[float] = [point[1] for point in vm["curve"]]
        #: Block accesses.
        self.accesses: int = vm["accesses"]
        #: Share of the blocks that were followed; 1 is all of them.
        self.rate: float = vm["rate"]

    @property
    def needed_bytes(self) -> Optional[int]:
        """Bytes of the smallest cache that has all hits there are to have; none where only some sizes were simulated."""
        blocks = self._vm["blocks"]
        return None if blocks is None else blocks * self.block_bytes

    def hit_ratio(self, size: Union[int, str]) -> float:
        """Hits for each access (0 to 1) of a cache of this size: bytes, or text such as `'64MiB'`."""
        from ._units import size_bytes

        at = bisect.bisect_right(self.blocks, size_bytes(size) // self.block_bytes)
        return self.hit_ratios[at - 1] if at > 0 else 0.0

    def to_dict(self) -> Dict[str, Any]:
        """This VM's part of the report."""
        return copy.deepcopy(dict(self._vm))

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draws it into `ax` (else the current axes of matplotlib): hits in per cent over GiB. Gives the axes."""
        if ax is None:
            ax = _extras.needed("matplotlib.pyplot", "A picture").gca()
        sizes = [blocks * self.block_bytes / 2**30 for blocks in self.blocks]
        style.setdefault("label", self.name)
        ax.step(sizes, [100 * ratio for ratio in self.hit_ratios], where="post", **style)
        ax.set_xlabel("cache size, GiB")
        ax.set_ylabel("hits, % of accesses")
        return ax

    def __repr__(self) -> str:
        most = self.hit_ratios[-1] if self.hit_ratios else 0.0
        needed = "" if self.needed_bytes is None else f" with {show_size(self.needed_bytes)}"
        return f"<lodestore.Curve {self.name!r}: at most {100 * most:.1f} % hits{needed}>"


class Curves(_Result, Sequence[Curve]):
    """Curves of all VMs: by place (`curves[0]`) and by name (`curves['web']`)."""

    def __init__(self, report: Mapping[str, Any]) -> None:
        super().__init__(report)
        self._curves = [Curve(vm, report["block_bytes"]) for vm in report["vms"]]

    def __len__(self) -> int:
        return len(self._curves)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self._curves[key]
        for curve in self._curves:
            if curve.name == key:
                return curve
        names = ", ".join(curve.name for curve in self._curves[:8])
        raise KeyError(f"No VM is called {key!r}; there are {names}")

    def __repr__(self) -> str:
        return f"<lodestore.Curves: {self._report['metric']} of {len(self)} VM{'s' * (len(self) != 1)}>"

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draws all of them into `ax`, see `Curve.plot`."""
        for curve in self._curves:
            ax = curve.plot(ax, **style)
        if ax is not None and len(self) > 1:
            ax.legend()
        return ax

    def rows(self) -> List[Row]:
        """A row for each point of each VM's curve: `name`, `blocks`, `bytes`, `hit_ratio`, `standard_error` (or none)."""
        made = []
        for vm in self._report["vms"]:
            errors, writes = vm["standard_error"], vm["ssd_writes_per_access"]
            for at, (blocks, hit_ratio) in enumerate(vm["curve"]):
                made.append(
                    {
                        "name": vm["name"],
                        "blocks": blocks,
                        "bytes": blocks * self._report["block_bytes"],
                        "hit_ratio": hit_ratio,
                        "standard_error": errors[at] if errors else None,
                        "ssd_writes_per_access": writes[at] if writes else None,
                    }
                )
        return made


class Report(_Result):
    """What a replay counted."""

    @property
    def hit_ratio(self) -> Optional[float]:
        """Share of the blocks read that came from the cache (0 to 1); none without reads."""
        reads = self._report["total"]["block_reads"]
        return _hits(self._report["total"]) / reads if reads else None

    @property
    def mean_latency_us(self) -> Optional[float]:
        """Mean latency of a request in microseconds, by the model of the devices; none without requests."""
        value: Optional[float] = self._report["total"]["mean_latency_us"]
        return value

    @property
    def ssd_writes(self) -> int:
        """Blocks written to the cache SSD."""
        return int(self._report["total"]["ssd_writes"]["total"])

    def rows(self) -> List[Row]:
        """A row for each VM, as `lode replay --csv` has it."""
        made = []
        for vm in self._report["vms"]:
            row = {key: vm[key] for key in ("name", "requests", "read_requests", "read_request_hits", "block_reads", "block_writes")}
            for level in ("dram", "ssd", "read_ssd"):
                row[f"{level}_read_hits"] = vm["read_hits"][level]
            row["read_misses"] = vm["read_misses"]
            row["ssd_write_hits"] = vm["write_hits"]["ssd"]
            row["ssd_writes"] = vm["ssd_writes"]["total"]
            for key in ("read_ssd_writes", "backing_reads", "backing_writes", "mean_latency_us", "cwf"):
                row[key] = vm[key]
            made.append(row)
        return made

    def __repr__(self) -> str:
        hits = "no reads" if self.hit_ratio is None else f"{100 * self.hit_ratio:.1f} % of the blocks read hit"
        return f"<lodestore.Report of {self._report['scheme']}: {hits}, {self.ssd_writes} SSD writes>"


def _hits(counts: Mapping[str, Any]) -> int:
    return sum(counts["read_hits"][level] for level in ("dram", "ssd", "read_ssd"))


class Comparison(_Result):
    """Schemes side by side."""

    def rows(self) -> List[Row]:
        """A row for each scheme at each size, as `lode compare --csv` has it."""
        schemes = self._report["schemes"]
        made = []
        for cell in self._report["cells"]:
            against = cell.get("against") or {}
            row = {"scheme": schemes[cell["scheme"]]["label"]}
            row.update({f"{level}_bytes": cell["levels"].get(f"{level}_bytes", 0) for level in ("dram", "ssd", "read_ssd")})
            for key in (
                "cost_usd",
                "hit_ratio",
                "read_hit_ratio",
                "mean_latency_us",
                "ssd_written_bytes",
                "read_ssd_written_bytes",
                "ssd_life_years",
                "read_ssd_life_years",
                "energy_j",
                "dirty_loss_per_year",
                "cwf",
            ):
                row[key] = cell.get(key, 0 if key == "read_ssd_written_bytes" else None)
            row["miss_ratio_reduction"] = against.get("miss_ratio_reduction")
            row["latency_reduction"] = against.get("latency_reduction")
            made.append(row)
        return made

    def __repr__(self) -> str:
        labels = ", ".join(scheme["label"] for scheme in self._report["schemes"])
        return f"<lodestore.Comparison of {labels}>"


class Plan(_Result):
    """How much of each level every VM should get."""

    @property
    def shares(self) -> Dict[str, Tuple[int, int]]:
        """Bytes of DRAM and of SSD, by VM."""
        block_bytes = self._report["block_bytes"]
        return {
            vm["name"]: (vm["share"]["dram_blocks"] * block_bytes, vm["share"]["ssd_blocks"] * block_bytes)
            for vm in self._report["vms"]
        }

    def rows(self) -> List[Row]:
        """A row for each VM: `name`, `dram_bytes`, `ssd_bytes`."""
        return [{"name": name, "dram_bytes": dram, "ssd_bytes": ssd} for name, (dram, ssd) in self.shares.items()]

    def __repr__(self) -> str:
        return f"<lodestore.Plan for {len(self._report['vms'])} VM{'s' * (len(self._report['vms']) != 1)}>"


class Division(_Result):
    """One cache level divided between curves."""

    @property
    def shares(self) -> Dict[str, int]:
        """Bytes, by VM."""
        return {row["name"]: row["bytes"] for row in self._report["vms"]}

    @property
    def hit_ratio(self) -> Optional[float]:
        """Hits for each access of all VMs together (0 to 1); none without accesses."""
        value: Optional[float] = self._report["hit_ratio"]
        return value

    def rows(self) -> List[Row]:
        """A row for each VM: `name`, `bytes`, `hit_ratio`, `accesses`."""
        return [dict(row) for row in self._report["vms"]]

    def __repr__(self) -> str:
        return f"<lodestore.Division of {show_size(self._report['size_bytes'])} between {len(self._report['vms'])} VMs>"
