"""The compiled half of the package; what users call is in the Python files beside it."""

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

Progress = Optional[Callable[[int, Optional[int]], object]]

__version__: str

class TraceError(ValueError):
    """A trace cannot be read or is not what it should be."""

class Source:
    """One trace: a file that is read when it is needed, or requests in memory."""

    @staticmethod
    def file(path: str, format: Optional[str] = None, unit: Optional[int] = None, on_error: str = "stop") -> Source: ...
    @staticmethod
    def python_file(
        object: Any,
        name: str,
        format: Optional[str] = None,
        unit: Optional[int] = None,
        on_error: str = "stop",
        progress: Progress = None,
    ) -> Source: ...
    @staticmethod
    def arrow(object: Any, name: str, columns: Mapping[str, str], progress: Progress = None) -> Optional[Source]: ...
    def load(self, progress: Progress = None) -> Source: ...
    def sorted(self) -> Source: ...
    def has_times(self) -> bool: ...
    def stream(self) -> Any: ...
    def schema(self) -> Any: ...
    def write(self, path: str, progress: Progress = None) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def in_memory(self) -> bool: ...
    @property
    def rows(self) -> Optional[int]: ...
    @property
    def volumes(self) -> Optional[List[str]]: ...
    @property
    def backwards(self) -> Optional[Tuple[int, Optional[int]]]: ...

class CurveState:
    """Profilers of the volumes of a stream that comes in parts."""

    def __init__(
        self, metric: str, policy: Optional[str], sample: Optional[str], block: str, memory: str, salt: int
    ) -> None: ...
    def fit(self, sources: Sequence[Source]) -> None: ...
    def memory_bytes(self) -> int: ...
    def facts(self) -> List[Tuple[str, int, int, Optional[int], Optional[int]]]: ...
    def report(self, points: int) -> str: ...

def schemes() -> str: ...
def formats() -> List[Tuple[str, str]]: ...
def fields() -> List[Tuple[str, List[Tuple[str, int]]]]: ...
def fleet_page(
    curves: Sequence[Mapping[str, Any]],
    sizes: Sequence[Mapping[str, Any]],
    replays: Sequence[Mapping[str, Any]],
    title: str,
    devices: Mapping[str, Optional[str]],
    made: Tuple[str, str],
) -> str: ...
def size_bytes(text: str) -> int: ...
def show_size(bytes: int) -> str: ...
def curve(
    sources: Sequence[Source],
    common: Mapping[str, Any],
    metric: str,
    policy: Optional[str],
    sample: Optional[str],
    interval: Optional[str],
    points: int,
    progress: Progress,
) -> str: ...
def curve_of_scheme(
    sources: Sequence[Source],
    common: Mapping[str, Any],
    scheme: str,
    sizes: Sequence[str],
    dram_share: float,
    sample: Optional[str],
    progress: Progress,
) -> str: ...
def replay(
    sources: Sequence[Source],
    common: Mapping[str, Any],
    scheme: str,
    set: Sequence[str],
    sizes: Mapping[str, Optional[str]],
    devices: Mapping[str, Optional[str]],
    progress: Progress,
) -> str: ...
def compare(
    sources: Sequence[Source],
    common: Mapping[str, Any],
    schemes: Sequence[str],
    dram: Sequence[str],
    ssd: Sequence[str],
    read_ssd: Sequence[str],
    baseline: Optional[str],
    devices: Mapping[str, Optional[str]],
    progress: Progress,
) -> str: ...
def size(
    sources: Sequence[Source],
    common: Mapping[str, Any],
    division: Mapping[str, Any],
    devices: Mapping[str, Optional[str]],
    made: Optional[Tuple[str, str]],
    progress: Progress,
) -> Tuple[str, Optional[str]]: ...
def divide_curves(
    demands: Sequence[Dict[str, Any]], rules: Sequence[str], block_bytes: int, capacity_blocks: int, objective: str
) -> Tuple[List[int], str, float]: ...
def profiles() -> List[Tuple[str, str]]: ...
def synth(
    name: str,
    text: Optional[str],
    requests: Optional[int],
    seed: Optional[int],
    scale: Optional[float],
    progress: Progress,
) -> Source: ...
def fit(source: Source, progress: Progress) -> str: ...
