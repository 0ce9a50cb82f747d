"""Curves of a stream that comes in parts."""

from __future__ import annotations

from typing import Any, Optional

from . import _lodestore
from ._questions import _sample
from ._results import Curves, understood
from ._traces import read_trace, sources_of
from ._units import Size, size_text


class CurveProfiler:
    """Measures curves of requests that come part by part, each volume a VM.

    With the parts of a trace in their order the curves are those that `curve` measures of the whole trace, but for the memory
    limit, which is met by following a part of the blocks at another moment. With `sample=8192` a volume takes about 1 MB,
    however long its stream.

    Args:
        metric, policy, sample, block, memory: as of `curve`.
        salt: which blocks a sample follows; the n-th volume has `salt` + n, from 0.

    >>> import lodestore
    >>> profiler = lodestore.CurveProfiler(metric="urd")
    >>> trace = lodestore.synth("hm_1", requests=5000, seed=1)
    >>> table = trace.to_arrow()
    >>> for start in range(0, len(table), 1000):
    ...     _ = profiler.partial_fit(table.slice(start, 1000))
    >>> profiler.curves().to_dict()["vms"][0]["curve"] == lodestore.curve(trace, metric="urd").to_dict()["vms"][0]["curve"]
    True
    """

    def __init__(
        self,
        metric: str = "trd",
        policy: Optional[str] = None,
        sample: Any = None,
        *,
        block: Size = "4KiB",
        memory: Size = "2GiB",
        salt: int = 0,
    ) -> None:
        self._state = _lodestore.CurveState(metric, policy, _sample(sample), size_text(block), size_text(memory), salt)

    def partial_fit(self, data: Any, y: None = None) -> "CurveProfiler":
        """Takes in the requests that come next: traces or tables, as of `curve`; each volume's by time."""
        if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
            # A table's volumes may follow each other; the order within each is looked at.
            sources = list(read_trace(data, on_unsorted="keep")._sources)
        else:
            sources = sources_of(data)
        self._state.fit(sources)
        return self

    @property
    def memory_bytes(self) -> int:
        """Bytes that the tables take."""
        return int(self._state.memory_bytes())

    def curves(self, points: int = 1000) -> Curves:
        """The curves so far, of at most so many points.

        With `sample=N` a volume's sample shrinks when it is full, and also when its curve is asked for: what comes later is then
        measured with the smaller sample, so that curves which are looked at on the way may differ a little from those that are not.
        """
        return Curves(understood(self._state.report(points), 3))
