"""Schemes written in Python, for trying ideas: one SSD level of whole blocks, far slower than the built-in ones.

What is counted is what the built-in schemes of one level count with write policy wb and no sets, so that the two can be
compared; there are no latencies.
"""

from __future__ import annotations

import abc
import copy
from collections import OrderedDict
from typing import Any, Dict, Hashable, Iterable, List, Optional

from . import _extras

Block = Hashable


class PythonScheme(abc.ABC):
    """What one VM's cache of `capacity` blocks keeps. Each volume gets a copy of its own of what is given to `replay`.

    >>> import lodestore
    >>> class Fifo(lodestore.PythonScheme):
    ...     def start(self, capacity):
    ...         self.kept, self.capacity = {}, capacity
    ...     def contains(self, block):
    ...         return block in self.kept
    ...     def miss(self, block, is_write):
    ...         if len(self.kept) == self.capacity:
    ...             del self.kept[next(iter(self.kept))]
    ...         self.kept[block] = True
    ...         return True
    >>> trace = lodestore.synth("hm_1", requests=2000, seed=1)
    >>> report = lodestore.replay(trace, Fifo(), ssd="1MiB")
    >>> built_in = lodestore.replay(trace, "fifo", ssd="1MiB", settings={"assoc": 0})
    >>> report.hit_ratio == built_in.hit_ratio
    True
    """

    @abc.abstractmethod
    def start(self, capacity: int) -> None:
        """Begins with nothing; there is room for so many blocks, at least one."""

    @abc.abstractmethod
    def contains(self, block: int) -> bool:
        """Whether the block is cached."""

    def hit(self, block: int, is_write: bool) -> None:
        """A cached block is read or written."""

    @abc.abstractmethod
    def miss(self, block: int, is_write: bool) -> bool:
        """A block that is not cached is read or written: make room and take it in (true), or pass it by (false)."""

    def discard(self, block: int) -> None:
        """A cached block is trimmed: forget it. Schemes that do not care may go on with it."""


class LruScheme(PythonScheme):
    """LRU, as an example: the same hits as `replay(..., "lru", settings={"assoc": 0})`."""

    def start(self, capacity: int) -> None:
        self._capacity = capacity
        self._blocks: "OrderedDict[int, None]" = OrderedDict()

    def contains(self, block: int) -> bool:
        return block in self._blocks

    def hit(self, block: int, is_write: bool) -> None:
        self._blocks.move_to_end(block)

    def miss(self, block: int, is_write: bool) -> bool:
        if len(self._blocks) == self._capacity:
            self._blocks.popitem(last=False)
        self._blocks[block] = None
        return True

    def discard(self, block: int) -> None:
        self._blocks.pop(block, None)


class PythonReport:
    """What a replay with a scheme written in Python counted, in blocks."""

    def __init__(self, scheme: str, vms: List[Dict[str, Any]]) -> None:
        self._scheme = scheme
        self._vms = vms

    @property
    def hit_ratio(self) -> Optional[float]:
        """Share of the blocks read that came from the cache (0 to 1); none without reads."""
        reads = sum(vm["block_reads"] for vm in self._vms)
        return sum(vm["ssd_read_hits"] for vm in self._vms) / reads if reads else None

    @property
    def ssd_writes(self) -> int:
        """Blocks written to the level: those taken in, and writes of those that are cached."""
        return sum(vm["ssd_writes"] for vm in self._vms)

    def rows(self) -> List[Dict[str, Any]]:
        """A row for each VM."""
        return [dict(vm) for vm in self._vms]

    def to_dict(self) -> Dict[str, Any]:
        """Scheme and VMs."""
        return {"scheme": self._scheme, "vms": copy.deepcopy(self._vms)}

    def to_arrow(self) -> Any:
        """`rows()` as a `pyarrow.Table`."""
        return _extras.needed("pyarrow", "An Arrow table").Table.from_pylist(self.rows())

    def __repr__(self) -> str:
        hits = "no reads" if self.hit_ratio is None else f"{100 * self.hit_ratio:.1f} % of the blocks read hit"
        return f"<lodestore.PythonReport of {self._scheme}: {hits}>"


class _Vm:
    def __init__(self, name: str, scheme: PythonScheme, block_bytes: int) -> None:
        self.scheme, self.block_bytes = scheme, block_bytes
        self.counts: Dict[str, Any] = {"name": name}
        for key in ("requests", "block_reads", "block_writes", "ssd_read_hits", "read_misses", "ssd_write_hits", "ssd_writes"):
            self.counts[key] = 0

    def request(self, op: str, offset: int, length: int) -> None:
        counts, scheme = self.counts, self.scheme
        counts["requests"] += 1
        if op == "flush":
            return
        if op == "trim":
            # Only blocks that are trimmed whole are forgotten.
            whole = range(-(-offset // self.block_bytes), (offset + length) // self.block_bytes)
            for block in whole:
                if scheme.contains(block):
                    scheme.discard(block)
            return
        is_write = op == "write"
        for block in range(offset // self.block_bytes, (offset + length - 1) // self.block_bytes + 1):
            counts["block_writes" if is_write else "block_reads"] += 1
            if scheme.contains(block):
                scheme.hit(block, is_write)
                counts["ssd_write_hits" if is_write else "ssd_read_hits"] += 1
                counts["ssd_writes"] += is_write
            else:
                counts["read_misses"] += not is_write
                counts["ssd_writes"] += bool(scheme.miss(block, is_write))


def replay_python(tables: Iterable[Any], scheme: PythonScheme, level_bytes: int, block_bytes: int, tell: Any) -> PythonReport:
    """Replays traces one after the other; the VMs have equal parts of the level."""
    pyarrow = _extras.needed("pyarrow", "A scheme written in Python")
    tables = [table.to_arrow().unify_dictionaries() for table in tables]
    names = [(at, name) for at, table in enumerate(tables) for name in _volumes(table)]
    capacity = level_bytes // block_bytes // max(1, len(names))
    if names and capacity == 0:
        raise ValueError(f"The level of {level_bytes} bytes has not one block for each of {len(names)} VMs; make it larger")
    vms = {}
    for at, name in names:
        own = copy.deepcopy(scheme)
        own.start(capacity)
        vms[at, name] = _Vm(name, own, block_bytes)
    done, total = 0, sum(len(table) for table in tables)
    for at, table in enumerate(tables):
        for batch in table.select(["volume", "op", "offset_bytes", "length_bytes"]).to_batches(max_chunksize=8192):
            volumes, ops = (column.cast(pyarrow.string()).to_pylist() for column in batch.columns[:2])
            for volume, op, offset, length in zip(volumes, ops, batch.column(2).to_pylist(), batch.column(3).to_pylist()):
                vms[at, volume].request(op, offset, length)
            done += len(batch)
            if tell is not None:
                tell(done, total)
    return PythonReport(type(scheme).__name__, [vm.counts for vm in vms.values()])


def _volumes(table: Any) -> List[str]:
    return list(dict.fromkeys(table["volume"].unique().to_pylist()))
