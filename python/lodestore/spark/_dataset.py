"""Datasets of requests: Parquet files by bucket of volumes, in each sorted by trace, volume, time and number.

A (trace, volume) is in one bucket, and there in the runs of its trace, which follow each other in time. What a task writes has
a name that follows from its input alone and appears when it is complete, so that a task that is run again writes the same
bytes to the same place; what belongs to the dataset is what its manifest lists.
"""

import heapq
import itertools
import json
import os
import urllib.parse
import zlib
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy
import pyarrow
import pyarrow.fs
import pyarrow.parquet

import lodestore

MANIFEST = "_lodestore.json"
VERSION = 1

#: Windows file times count from 1601. Times that do not fit 63 bits are of that clock, and are written as since 1970.
_FILETIME_ORIGIN_NS = 11_644_473_600 * 10**9
_MAX_TIME_NS = 2**63 - 1

_NAMES = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
SCHEMA = pyarrow.schema(
    [
        ("trace", _NAMES),
        ("volume", _NAMES),
        ("time_ns", pyarrow.int64()),
        ("seq", pyarrow.int64()),
        ("op", pyarrow.dictionary(pyarrow.int8(), pyarrow.string())),
        ("offset_bytes", pyarrow.int64()),
        ("length_bytes", pyarrow.int64()),
    ]
)
#: What Spark calls it.
DDL = "trace string, volume string, time_ns long, seq long, op string, offset_bytes long, length_bytes long"
_WRITTEN = "file string, bucket int, trace string, run int, rows long"
_ROW_GROUP = 1 << 18
_BATCH = 1 << 16


def bucket_of(trace: str, volume: str, buckets: int) -> int:
    """The bucket of a volume, the same wherever it is asked for."""
    return zlib.crc32(f"{trace}\0{volume}".encode()) % buckets


def filesystem(path: str) -> Tuple[pyarrow.fs.FileSystem, str]:
    """Where a path or URI (`s3://`, `hdfs://`, `file://`) is, and its path there."""
    if "://" in path:
        found: Tuple[pyarrow.fs.FileSystem, str] = pyarrow.fs.FileSystem.from_uri(path)
        return found
    return pyarrow.fs.LocalFileSystem(), os.path.abspath(path)


class Dataset:
    """A dataset that was written; every session that sees its folder can use it."""

    def __init__(self, path: str) -> None:
        self.path = path
        files, folder = filesystem(path)
        try:
            with files.open_input_stream(f"{folder}/{MANIFEST}") as stream:
                manifest = json.loads(stream.read())
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{path} has no {MANIFEST}: it is no dataset, or was never completed; use write_dataset") from error
        if manifest["version"] != VERSION:
            raise ValueError(f"{path} is a dataset of version {manifest['version']}, and this is for {VERSION}; write it anew")
        #: How many buckets there are.
        self.buckets: int = manifest["buckets"]
        #: Its files: `file` under the folder, `bucket`, `trace`, `run`, `rows`.
        self.files: List[Dict[str, Any]] = manifest["files"]

    @property
    def rows(self) -> int:
        """How many requests."""
        return sum(file["rows"] for file in self.files)

    def frame(self, spark: Any) -> Any:
        """A Spark DataFrame with `trace`, `volume`, `time_ns`, `seq`, `op`, `offset_bytes`, `length_bytes`."""
        paths = [f"{self.path.rstrip('/')}/{file['file']}" for file in self.files]
        if not paths:
            return spark.createDataFrame([], DDL)
        return spark.read.schema(DDL).parquet(*paths)

    def __repr__(self) -> str:
        return f"<lodestore.spark.Dataset {self.path!r}: {self.rows} requests in {len(self.files)} files>"


def trace_names(sources: Any) -> Dict[str, str]:
    """Files by the names of their traces: the file's name without endings, unless a mapping says otherwise."""
    if isinstance(sources, Mapping):
        return {str(name): os.fspath(path) for name, path in sources.items()}
    names: Dict[str, str] = {}
    for path in lodestore._traces._paths(sources):
        name = os.path.basename(path).split(".")[0]
        if name in names:
            raise ValueError(f"{names[name]} and {path} are both called {name}; give a mapping of names to files")
        names[name] = os.path.abspath(path)
    return names


def write_files(
    spark: Any, sources: Any, path: str, buckets: int, run_rows: int, read: Dict[str, Any], overwrite: bool
) -> Dataset:
    """Every trace is a task; nothing is shuffled."""
    traces = sorted(trace_names(sources).items())
    replaced = _begin(path, overwrite)

    def write(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                trace, source = traces[number]
                try:
                    yield _written(_write_trace(trace, source, path, buckets, run_rows, read))
                except Exception as error:
                    raise RuntimeError(f"Trace {trace} ({source}): {error}") from error

    tasks = spark.range(0, len(traces), 1, max(1, len(traces)))
    return _complete(path, buckets, tasks.mapInArrow(write, _WRITTEN).collect(), replaced)


def write_frame(frame: Any, path: str, buckets: int, overwrite: bool) -> Dataset:
    """Requests of a DataFrame of the columns of `DDL`; Spark shuffles and sorts them."""
    from pyspark.sql import functions

    if any(_is_below(file, path) for file in frame.inputFiles()):
        raise ValueError(f"The frame is read from {path}, and cannot be written over what it is read from; write to another folder")
    replaced = _begin(path, overwrite)

    key = functions.concat_ws("\0", "trace", "volume")
    bucketed = frame.withColumn("bucket", (functions.crc32(key) % buckets).cast("int"))
    ordered = bucketed.repartition(buckets, "bucket").sortWithinPartitions("bucket", "trace", "volume", "time_ns", "seq")

    def write(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        rows = (part for batch in batches for part in _split(batch, ["bucket"]))
        for bucket, parts in itertools.groupby(rows, lambda part: part[0][0]):
            name = f"bucket={bucket:05}/rows.parquet"
            count = _write_parquet(path, name, (_shaped(batch) for _, batch in parts))
            yield _written([(name, bucket, "", 0, count)])

    return _complete(path, buckets, ordered.mapInArrow(write, _WRITTEN).collect(), replaced)


def _is_below(file: str, path: str) -> bool:
    """Whether a file that Spark reads is in a folder that is to be written."""
    below, folder = filesystem(urllib.parse.unquote(file)), filesystem(path)
    return below[0] == folder[0] and below[1].startswith(folder[1].rstrip("/") + "/")


def _begin(path: str, overwrite: bool) -> List[str]:
    """Makes what is there no dataset any more, until another is complete; names the files of what is replaced."""
    files, folder = filesystem(path)
    if files.get_file_info(f"{folder}/{MANIFEST}").type == pyarrow.fs.FileType.NotFound:
        return []
    if not overwrite:
        raise FileExistsError(f"{path} is a dataset already; write to another folder, or give overwrite=True to replace it")
    with files.open_input_stream(f"{folder}/{MANIFEST}") as stream:
        replaced = [str(file["file"]) for file in json.loads(stream.read())["files"]]
    files.delete_file(f"{folder}/{MANIFEST}")
    return replaced


def _written(rows: List[Tuple[str, int, str, int, int]]) -> pyarrow.RecordBatch:
    columns: List[Any] = list(zip(*rows)) if rows else [[]] * 5
    types = (pyarrow.string(), pyarrow.int32(), pyarrow.string(), pyarrow.int32(), pyarrow.int64())
    arrays = [pyarrow.array(list(column), kind) for column, kind in zip(columns, types)]
    return pyarrow.RecordBatch.from_arrays(arrays, ["file", "bucket", "trace", "run", "rows"])


def _complete(path: str, buckets: int, rows: List[Any], replaced: List[str]) -> Dataset:
    files, folder = filesystem(path)
    listed = sorted((row.asDict() for row in rows if row["rows"] > 0), key=lambda row: str(row["file"]))
    manifest = {"version": VERSION, "buckets": buckets, "files": listed}
    files.create_dir(folder, recursive=True)
    # Attempts that were killed have left what they had written, beside what counts.
    for found in files.get_file_info(pyarrow.fs.FileSelector(folder, recursive=True)):
        if found.is_file and found.path.endswith(".part"):
            files.delete_file(found.path)
    written = {row["file"] for row in rows}
    for name in replaced:
        if name not in written and files.get_file_info(f"{folder}/{name}").is_file:
            files.delete_file(f"{folder}/{name}")
    _publish(files, f"{folder}/{MANIFEST}", (json.dumps(manifest, indent=1) + "\n").encode())
    return Dataset(path)


def _publish(files: pyarrow.fs.FileSystem, path: str, content: bytes) -> None:
    with files.open_output_stream(f"{path}.part") as stream:
        stream.write(content)
    files.move(f"{path}.part", path)


def _write_parquet(path: str, name: str, batches: Iterator[pyarrow.RecordBatch]) -> int:
    files, folder = filesystem(path)
    final = f"{folder}/{name}"
    files.create_dir(os.path.dirname(final), recursive=True)
    # Another attempt at the same task writes beside it, and the same bytes.
    part = f"{final}.{os.getpid()}.{zlib.crc32(os.urandom(8)):08x}.part"
    rows = 0
    try:
        with files.open_output_stream(part) as stream:
            encodings = {name: "DELTA_BINARY_PACKED" for name in ("time_ns", "seq")}
            names = ["trace", "volume", "op", "length_bytes"]
            with pyarrow.parquet.ParquetWriter(
                stream, SCHEMA, compression="zstd", compression_level=1, use_dictionary=names, column_encoding=encodings
            ) as writer:
                for table in _row_groups(batches):
                    writer.write_table(table, row_group_size=_ROW_GROUP)
                    rows += len(table)
        files.move(part, final)
    except BaseException:
        files.delete_file(part)
        raise
    return rows


def _row_groups(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.Table]:
    """The same rows in pieces whose bounds do not depend on those of the batches."""
    waiting: List[pyarrow.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        while rows >= _ROW_GROUP:
            table = pyarrow.Table.from_batches(waiting, SCHEMA)
            yield table.slice(0, _ROW_GROUP).unify_dictionaries().combine_chunks()
            waiting, rows = table.slice(_ROW_GROUP).to_batches(), rows - _ROW_GROUP
    if rows > 0:
        yield pyarrow.Table.from_batches(waiting, SCHEMA).unify_dictionaries().combine_chunks()


def _shaped(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    columns = []
    for field in SCHEMA:
        column = batch.column(field.name)
        if pyarrow.types.is_dictionary(field.type) and not pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        columns.append(column.cast(field.type))
    return pyarrow.RecordBatch.from_arrays(columns, schema=SCHEMA)


class _GoesBack(Exception):
    """A run begins earlier than one before it ended."""


def _write_trace(
    trace: str, source: str, path: str, buckets: int, run_rows: int, read: Dict[str, Any]
) -> List[Tuple[str, int, str, int, int]]:
    try:
        return list(_write_runs(trace, source, path, buckets, run_rows, read))
    except _GoesBack:
        # Then it is sorted as a whole, in memory.
        return list(_write_runs(trace, source, path, buckets, 2**62, read))


def _write_runs(
    trace: str, source: str, path: str, buckets: int, run_rows: int, read: Dict[str, Any]
) -> Iterator[Tuple[str, int, str, int, int]]:
    batches = iter(pyarrow.RecordBatchReader.from_stream(lodestore.scan_trace(source, **read)))
    quoted = urllib.parse.quote(trace, safe="")
    seq, last_ns, origin_ns = 0, 0, None
    for run in itertools.count():
        taken, rows = [], 0
        for batch in batches:
            taken.append(batch)
            rows += len(batch)
            if rows >= run_rows:
                break
        if not taken:
            return
        table = pyarrow.Table.from_batches(taken).unify_dictionaries().combine_chunks()
        times = table["time_ns"].to_numpy()
        if origin_ns is None:
            origin_ns = _FILETIME_ORIGIN_NS if int(times.max()) > _MAX_TIME_NS else 0
        if int(times.min()) < origin_ns or int(times.max()) - origin_ns > _MAX_TIME_NS:
            raise ValueError("its times go from below to above 2^63 ns; cut it in two")
        times = (times - numpy.uint64(origin_ns)).view(numpy.int64)
        if run > 0 and int(times.min()) < last_ns:
            raise _GoesBack
        last_ns = int(times.max())
        for bucket, part in _sorted_parts(trace, table, times, seq, buckets):
            name = f"bucket={bucket:05}/{quoted}.{run:05}.parquet"
            yield name, bucket, trace, run, _write_parquet(path, name, iter(part))
        seq += rows


def _sorted_parts(
    trace: str, table: pyarrow.Table, times: numpy.ndarray, seq: int, buckets: int
) -> Iterator[Tuple[int, List[pyarrow.RecordBatch]]]:
    """The rows by bucket, in each by volume, time and number."""
    volumes = table["volume"].chunk(0)
    names = volumes.dictionary.to_pylist()
    codes = volumes.indices.to_numpy()
    place = sorted(range(len(names)), key=lambda code: (bucket_of(trace, names[code], buckets), names[code]))
    rank = numpy.empty(len(names), numpy.uint16 if len(names) <= 1 << 16 else numpy.int64)
    rank[place] = numpy.arange(len(names), dtype=rank.dtype)
    ranks = rank[codes]
    numbers = numpy.arange(seq, seq + len(times), dtype=numpy.int64)
    offsets = table["offset_bytes"].cast(pyarrow.int64()).to_numpy()
    lengths, ops = table["length_bytes"].to_numpy(), table["op"].chunk(0)
    op_codes = ops.indices.to_numpy()
    in_order = bool((times[1:] >= times[:-1]).all())
    if len(names) > 1 or not in_order:
        order = numpy.argsort(ranks, kind="stable") if in_order else numpy.lexsort((times, ranks))
        columns = (ranks, times, numbers, op_codes, offsets, lengths)
        ranks, times, numbers, op_codes, offsets, lengths = (column[order] for column in columns)
    names_by_rank = pyarrow.array([names[code] for code in place], pyarrow.string())
    trace_name = pyarrow.array([trace], pyarrow.string())
    buckets_by_rank = numpy.array([bucket_of(trace, names[code], buckets) for code in place])
    starts = numpy.flatnonzero(numpy.diff(buckets_by_rank, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(names)]):
        first, last = numpy.searchsorted(ranks, [start, end]) if end <= numpy.iinfo(ranks.dtype).max else (
            int(numpy.searchsorted(ranks, start)),
            len(ranks),
        )
        if first == last:
            continue
        rows = slice(int(first), int(last))
        count = rows.stop - rows.start
        of_trace = pyarrow.array(numpy.zeros(count, numpy.int32))
        of_volume = pyarrow.array(ranks[rows].astype(numpy.int32))
        arrays = [
            pyarrow.DictionaryArray.from_arrays(of_trace, trace_name),
            pyarrow.DictionaryArray.from_arrays(of_volume, names_by_rank),
            pyarrow.array(times[rows]),
            pyarrow.array(numbers[rows]),
            pyarrow.DictionaryArray.from_arrays(pyarrow.array(op_codes[rows]), ops.dictionary),
            pyarrow.array(offsets[rows]),
            pyarrow.array(lengths[rows].astype(numpy.int64)),
        ]
        yield int(buckets_by_rank[start]), [pyarrow.RecordBatch.from_arrays(arrays, schema=SCHEMA)]


Key = Tuple[Any, ...]


def _split(batch: pyarrow.RecordBatch, keys: List[str]) -> Iterator[Tuple[Key, pyarrow.RecordBatch]]:
    """Parts of a batch with the same values in `keys`, which follow each other."""
    if len(batch) == 0:
        return
    changes = numpy.zeros(len(batch) - 1, bool)
    for key in keys:
        column = batch.column(key)
        values = column.indices if pyarrow.types.is_dictionary(column.type) else column.dictionary_encode().indices
        changes |= numpy.diff(values.to_numpy(zero_copy_only=False)) != 0
    starts = [0, *(numpy.flatnonzero(changes) + 1).tolist()]
    for start, end in zip(starts, [*starts[1:], len(batch)]):
        yield tuple(batch.column(key)[start].as_py() for key in keys), batch.slice(start, end - start)


def _parts_of_file(path: str, name: str) -> Iterator[Tuple[Key, pyarrow.RecordBatch]]:
    files, folder = filesystem(path)
    with files.open_input_file(f"{folder}/{name}") as opened:
        table = pyarrow.parquet.ParquetFile(opened, read_dictionary=["trace", "volume", "op"])
        for batch in table.iter_batches(batch_size=_BATCH):
            yield from _split(batch, ["trace", "volume"])


def groups_of_bucket(dataset: Dataset, bucket: int) -> Iterator[Tuple[Key, Iterator[pyarrow.RecordBatch]]]:
    """Every (trace, volume) of a bucket, with its batches by time and number."""
    in_bucket = [file for file in dataset.files if file["bucket"] == bucket]
    for _, runs in itertools.groupby(sorted(in_bucket, key=lambda file: (file["trace"], file["run"])), lambda file: file["trace"]):
        streams = [_numbered(dataset.path, run["file"], run["run"]) for run in runs]
        merged = heapq.merge(*streams, key=lambda part: part[:2])
        for key, parts in itertools.groupby(merged, lambda part: part[0]):
            yield key, (batch for _, _, batch in parts)


def _numbered(path: str, name: str, run: int) -> Iterator[Tuple[Key, int, pyarrow.RecordBatch]]:
    for key, batch in _parts_of_file(path, name):
        yield key, run, batch


def open_dataset(data: Any) -> Optional[Dataset]:
    """The dataset that is meant, if one is."""
    if isinstance(data, Dataset):
        return data
    return Dataset(os.fspath(data)) if isinstance(data, (str, os.PathLike)) else None
