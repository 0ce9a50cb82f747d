"""Lodestore: hit curves, cache sizes and replays of block traces of virtual machines.

Every function gives the same digits as the command line `lode`. Sizes are bytes or text such as `'64MiB'` (powers of 1024),
times are nanoseconds on the trace's own clock, ratios are from 0 to 1.

Long calls work without Python's lock, end at Ctrl-C, and show how far they are: on standard error where that is a terminal;
`progress=False` hides it, and `progress=f` calls `f(done, total)` about ten times a second, `total` being `None` where it is not
known.

>>> import lodestore
>>> trace = lodestore.synth("hm_1", requests=5000, seed=1)
>>> curves = lodestore.curve(trace)
>>> report = lodestore.replay(trace, "lru", ssd="64MiB")
"""

from ._lodestore import __version__
from ._profiler import CurveProfiler
from ._questions import compare, curve, fit, profiles, replay, schemes, size, synth
from ._results import Comparison, Curve, Curves, Division, Plan, Report
from ._scheme import LruScheme, PythonReport, PythonScheme
from ._traces import LodestoreWarning, Scan, Trace, TraceError, formats, read_trace, scan_trace

__all__ = [
    "Comparison",
    "Curve",
    "CurveProfiler",
    "Curves",
    "Division",
    "LodestoreWarning",
    "LruScheme",
    "Plan",
    "PythonReport",
    "PythonScheme",
    "Report",
    "Scan",
    "Trace",
    "TraceError",
    "__version__",
    "compare",
    "curve",
    "fit",
    "formats",
    "profiles",
    "read_trace",
    "replay",
    "scan_trace",
    "schemes",
    "size",
    "synth",
]
