"""Traces: files that are read when needed (`Scan`), requests in memory (`Trace`), and everything that can become one."""

from __future__ import annotations

import glob as globbing
import os
import warnings
from typing import Any, Dict, Iterable, List, Mapping, Optional

from . import _extras, _lodestore
from ._files import completed
from ._progress import shown

TraceError = _lodestore.TraceError


class LodestoreWarning(UserWarning):
    """Something about the traces or the result that one should know of."""


class _Table:
    """What `Scan` and `Trace` have in common: tables for others."""

    _sources: List[Any]

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._one("A table").stream()

    def __arrow_c_schema__(self) -> Any:
        return self._one("A schema").schema()

    def _one(self, what: str) -> Any:
        if len(self._sources) != 1:
            names = ", ".join(source.name for source in self._sources[:3])
            raise ValueError(
                f"{what} is of one trace, and these are {len(self._sources)} ({names}); take one, as in scan[0], or each in turn"
            )
        return self._sources[0]

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with `time_ns` (ns), `volume`, `op`, `offset_bytes` and `length_bytes` (bytes)."""
        return _extras.needed("pyarrow", "An Arrow table").table(self)

    def to_polars(self) -> Any:
        """The same as a `polars.DataFrame`."""
        return _extras.needed("polars", "A Polars frame").DataFrame(self)

    def to_pandas(self) -> Any:
        """The same as a `pandas.DataFrame`; `volume` and `op` are categories."""
        _extras.needed("pandas", "A pandas frame")
        # Categories of several batches are brought together first.
        return self.to_arrow().unify_dictionaries().to_pandas()

    def to_duckdb(self, connection: Any = None) -> Any:
        """The same as a DuckDB relation, of `connection` or the default one."""
        duckdb = _extras.needed("duckdb", "A DuckDB relation")
        return (connection or duckdb).from_arrow(self.to_arrow())

    def write(self, path: Any, *, progress: Any = None) -> int:
        """Writes it in the compact format (`NAME.lode`, or `NAME.lode.zst` to be compressed); says how many requests."""
        path = os.fspath(path)
        if not path.endswith((".lode", ".lode.zst")):
            raise ValueError(f"The compact format is written to NAME.lode or NAME.lode.zst, and this is {path!r}")
        ending = ".lode.zst" if path.endswith(".zst") else ".lode"
        with completed(path, ending) as unfinished, shown("Writing", progress) as tell:
            return int(self._one("A file").write(unfinished, tell))


class Trace(_Table):
    """Requests in memory, 25 bytes each; made by `read_trace` and `synth`.

    It is a table for everything that knows the Arrow PyCapsule interface (`pyarrow.table(trace)`, `polars.DataFrame(trace)`,
    `duckdb.from_arrow`), which shares its memory.
    """

    def __init__(self, source: Any) -> None:
        self._sources = [source]

    def __len__(self) -> int:
        return int(self._sources[0].rows)

    def __repr__(self) -> str:
        volumes = self.volumes
        return f"<lodestore.Trace {self.name!r}: {len(self)} requests of {len(volumes)} volume{'s' * (len(volumes) != 1)}>"

    @property
    def name(self) -> str:
        """What stands for it in reports, where a file has its path."""
        return str(self._sources[0].name)

    @property
    def volumes(self) -> List[str]:
        """Names of its volumes, in order of appearance."""
        return list(self._sources[0].volumes)

    @property
    def is_sorted(self) -> bool:
        """Whether no request is earlier than the one before it."""
        return int(self._sources[0].backwards[0]) == 0

    def sort(self) -> "Trace":
        """The same by time; requests of the same time keep their order."""
        return Trace(self._sources[0].sorted())


class Scan(_Table):
    """Traces in files, read anew whenever somebody asks for what is in them; made by `scan_trace`."""

    def __init__(self, sources: List[Any]) -> None:
        self._sources = sources

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, index: int) -> "Scan":
        return Scan([self._sources[index]])

    def __repr__(self) -> str:
        return f"<lodestore.Scan of {', '.join(self.paths[:3])}{', ...' if len(self) > 3 else ''}>"

    @property
    def paths(self) -> List[str]:
        """The files."""
        return [source.name for source in self._sources]

    def read(self, *, progress: Any = None) -> Trace:
        """All of its one trace in memory."""
        with shown("Reading", progress) as tell:
            return _checked(Trace(self._one("A Trace").load(tell)))


def scan_trace(
    source: Any, *, format: Optional[str] = None, unit: Optional[int] = None, on_error: str = "stop"
) -> Scan:
    """Traces in files that are read only when they are needed.

    Args:
        source: a path, a pattern such as `'traces/*.lode'`, or several of them. All formats of `lodestore.formats()`,
            compressed (gzip, xz, zstd) or not.
        format: the format's name, instead of finding it out.
        unit: bytes that a block number counts, in traces of bare block numbers.
        on_error: `'stop'` makes a bad record an error that names the place, `'skip'` counts it and goes on.

    >>> import lodestore, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "small.lode")
    >>> lodestore.synth("hm_1", requests=1000).write(path)
    1000
    >>> len(lodestore.scan_trace(path))
    1
    """
    paths = list(_paths(source))
    return Scan([_lodestore.Source.file(path, format, unit, on_error) for path in paths])


def read_trace(
    source: Any,
    *,
    format: Optional[str] = None,
    unit: Optional[int] = None,
    on_error: str = "stop",
    columns: Optional[Mapping[str, str]] = None,
    name: str = "table",
    on_unsorted: str = "error",
    progress: Any = None,
) -> Trace:
    """One trace in memory: of a file, of an open binary file, or of a table.

    Args:
        source: a path; an object with `read`, opened in binary mode; or a table with the Arrow PyCapsule interface: Arrow,
            Polars, pandas, DuckDB, or anything else that has it. A table's numbers that are whole ns and bytes in 64 bits
            (lengths: 32) are shared and not copied.
        format, unit, on_error: as of `scan_trace`.
        columns: how a table calls its columns, by the names that are expected, such as `{'time_us': 'ts'}`.
        name: what a table is called in reports, and its volume where it has no such column.
        on_unsorted: what to do with a table that is not by time: `'error'`, `'sort'`, or `'keep'` to take it as it is.

    >>> import lodestore
    >>> trace = lodestore.synth("hm_1", requests=1000)
    >>> again = lodestore.read_trace(trace)
    >>> len(again), again.is_sorted
    (1000, True)
    """
    if on_unsorted not in ("error", "sort", "keep"):
        raise ValueError(f"on_unsorted is {on_unsorted!r}; it is 'error', 'sort' or 'keep'")
    if isinstance(source, Trace):
        return source
    if isinstance(source, Scan):
        return source.read(progress=progress)
    if isinstance(source, (str, os.PathLike)):
        return scan_trace(source, format=format, unit=unit, on_error=on_error).read(progress=progress)
    with shown("Reading", progress) as tell:
        try:
            table = _lodestore.Source.arrow(source, name, dict(columns or {}), tell)
        except ImportError as error:
            # pandas and DuckDB have the interface, and need pyarrow for it.
            if "pyarrow" in str(error):
                raise ImportError(_extras.message("pyarrow", f"A table of {type(source).__module__.split('.')[0]}")) from error
            raise
        if table is None and hasattr(source, "read"):
            name = str(getattr(source, "name", name))
            return _checked(Trace(_lodestore.Source.python_file(source, name, format, unit, on_error, tell)))
    if table is None:
        todo = ", which has to be collected first: .collect()" if hasattr(source, "collect") else ""
        raise TypeError(
            f"A trace is a path, an open binary file, or a table (Arrow, Polars, pandas, DuckDB), and this is "
            f"{type(source).__module__}.{type(source).__name__}{todo}"
        )
    trace = Trace(table)
    if trace.is_sorted or on_unsorted == "keep":
        return trace
    if on_unsorted == "sort":
        return trace.sort()
    count, first = table.backwards or (0, None)
    raise TraceError(
        f"Row {first} is earlier than the row before it, as are {count} in all; requests are needed by time, those of all volumes "
        f"together. Sort the table (Polars: .sort('time_ns', maintain_order=True), pandas: .sort_values('time_ns', kind='stable'), "
        f"SQL: ORDER BY time_ns), or give on_unsorted='sort', or 'keep' to take it as it is"
    )


def _checked(trace: Trace) -> Trace:
    count, _ = trace._sources[0].backwards
    if count:
        warnings.warn(
            f"{trace.name}: {count} requests are earlier than the one before; to put them in order: trace.sort()",
            LodestoreWarning,
            stacklevel=3,
        )
    return trace


def _paths(source: Any) -> Iterable[str]:
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if os.path.exists(path) or not globbing.has_magic(path):
            yield path
            return
        found = sorted(globbing.glob(path, recursive=True))
        if not found:
            raise FileNotFoundError(f"No file is like {path!r}; check the pattern and the folder it is in")
        yield from found
        return
    if isinstance(source, (list, tuple)):
        for one in source:
            yield from _paths(one)
        return
    raise TypeError(f"A path or a pattern is needed, and this is {type(source).__name__}; tables and open files go to read_trace")


def sources_of(data: Any, progress: Any = None) -> List[Any]:
    """What the compiled functions take, of anything that is traces."""
    if isinstance(data, (Trace, Scan)):
        return list(data._sources)
    if isinstance(data, (list, tuple)) and data:
        return [source for one in data for source in sources_of(one, progress)]
    if isinstance(data, (str, os.PathLike)):
        return list(scan_trace(data)._sources)
    return list(read_trace(data, progress=progress)._sources)


def formats() -> Dict[str, str]:
    """Names of the trace formats that can be read, and what they are."""
    return dict(_lodestore.formats())
