"""A fleet of hosts with PySpark, on one machine or a cluster: datasets, curves, sizes, replays and a page.

    spark = pyspark.sql.SparkSession.builder.getOrCreate()
    dataset = lodestore.spark.write_dataset(spark, "traces/*.lode", "fleet")
    curves = lodestore.spark.curves(spark, dataset, metric="pod", policy="ro")
    sizes = lodestore.spark.size_hosts(curves, hosts=100, size="8GiB")
    replays = lodestore.spark.replay_hosts(spark, dataset, hosts=100, scheme="lru", ssd="64GiB")
    lodestore.spark.report(curves, "fleet.html", sizes=sizes, replays=replays)

Results do not depend on partitions, batches or tasks that are run again. docs/fleet.md has the whole way.
"""

import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from lodestore import _extras, _lodestore

_extras.needed("pyspark", "lodestore.spark")
_extras.needed("pyarrow", "lodestore.spark")

import pyarrow  # noqa: E402

from lodestore._files import made, write_text  # noqa: E402
from lodestore._questions import _devices, _sample  # noqa: E402
from lodestore._units import Size, size_bytes, size_text  # noqa: E402

from . import _groups  # noqa: E402
from ._dataset import DDL, Dataset, groups_of_bucket, open_dataset, write_files, write_frame  # noqa: E402
from ._frames import host_rule, requests_of  # noqa: E402

__all__ = ["Dataset", "curves", "replay_hosts", "report", "size_hosts", "write_dataset"]

Hosts = Union[int, str, Mapping[Any, Any]]
Data = Any


def write_dataset(
    spark: Any,
    sources: Any,
    path: Any,
    *,
    buckets: int = 64,
    columns: Optional[Mapping[str, str]] = None,
    trace: str = "fleet",
    format: Optional[str] = None,
    unit: Optional[int] = None,
    on_error: str = "stop",
    run_rows: int = 1 << 23,
    overwrite: bool = False,
) -> Dataset:
    """Writes requests as Parquet, by bucket of volumes, each volume's by time, with a number for those of the same time.

    Args:
        sources: traces in files (paths, patterns, several of them, or a mapping of names to files), of any format that
            `lodestore.formats()` knows, on a path that executors see: each is a task, and nothing is shuffled. Or a DataFrame,
            such as `spark.read.parquet(...)` of the Alibaba or Tencent sets: Spark shuffles and sorts it.
        path: a folder or URI (`s3://`, `hdfs://`) to write to.
        buckets: into how many parts volumes are dealt, which is how many tasks `curves` has.
        columns: how a DataFrame calls its columns, by names that `lodestore.read_trace` knows, such as
            `{'time_us': 'timestamp', 'volume': 'device_id', 'op': 'opcode'}`; and `seq`, a number for requests of the same
            time, without which those of files have the order of their rows.
        trace: the name of a DataFrame's trace, where it has no column `trace`.
        format, unit, on_error: as of `lodestore.scan_trace`.
        run_rows: rows of a trace that are in memory at once, at about 60 bytes each.
        overwrite: whether a dataset that is there already may be replaced; until the new one is complete there is none.
    """
    if buckets < 1:
        raise ValueError(f"buckets is {buckets}; write 1 or more")
    target = os.fspath(path)
    if hasattr(sources, "mapInArrow"):
        return write_frame(requests_of(sources, dict(columns or {}), trace), target, buckets, overwrite)
    read = {"format": format, "unit": unit, "on_error": on_error}
    return write_files(spark, sources, target, buckets, run_rows, read, overwrite)


def curves(
    spark: Any,
    data: Data,
    metric: str = "trd",
    policy: Optional[str] = None,
    sample: Any = 8192,
    *,
    block: Size = "4KiB",
    points: int = _groups.POINTS,
) -> Any:
    """A curve of about 1 KB for each (trace, volume), as a DataFrame.

    Args:
        data: a dataset or its path, whose files are read where they are; or a DataFrame with `trace`, `volume`, `time_ns`,
            `seq`, `op`, `offset_bytes`, `length_bytes`, which Spark groups.
        metric, policy, sample, block: as of `lodestore.curve`; each volume is sampled by itself.
        points: most points of a curve.

    Its columns: `requests`, `accesses`, `reads`, `read_bytes`, `written_bytes`, `first_ns` and `last_ns` (the usual span),
    `distinct_blocks`, `rate` (share of the blocks followed), `block_bytes`, `needed_blocks`; `blocks` and `hit_ratios` are the
    points.
    """
    how: Dict[str, Any] = {"metric": metric, "policy": policy, "sample": _sample(sample), "block": size_text(block)}
    # What cannot be is said here, and not by every task.
    from lodestore import CurveProfiler

    CurveProfiler(**how)
    dataset = open_dataset(data)
    if dataset is not None:
        found = dataset

        def of_buckets(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
            for batch in batches:
                for bucket in batch.column(0).to_pylist():
                    groups = groups_of_bucket(found, bucket)
                    rows = (_groups.profiled(trace, volume, parts, how, points) for (trace, volume), parts in groups)
                    yield from _groups.batches_of(rows, _groups.CURVES)

        return spark.range(0, found.buckets, 1, found.buckets).mapInArrow(of_buckets, _groups.CURVES)

    def of_group(key: Tuple[pyarrow.Scalar, ...], batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        trace, volume = (part.as_py() for part in key)
        yield _groups.batch_of([_groups.profiled(trace, volume, batches, how, points)], _groups.CURVES)

    keys = ["trace", "volume"]
    ordered = data.select(*_names()).repartition(*keys).sortWithinPartitions(*keys, "time_ns", "seq")
    return ordered.groupBy(*keys).applyInArrow(of_group, _groups.CURVES)


def _names() -> List[str]:
    return [field.split(" ")[0] for field in DDL.split(", ")]


def size_hosts(curves: Any, hosts: Hosts, size: Union[Size, Mapping[str, Size]], *, objective: str = "hits") -> Any:
    """Divides each host's cache between its volumes by their curves; a row for each volume, as a DataFrame.

    Args:
        curves: what `curves` gave.
        hosts: which volume is on which host: a mapping of (trace, volume) or of trace to host; `'trace'`, each trace a host; or
            a number of hosts, to which volumes are dealt by a checksum of their names.
        size: bytes of a host's cache, or text; or a mapping of hosts to them.
        objective: as of `lodestore.size` of curves.

    Its columns: `bytes` of the volume's share, `needed_bytes`, `accesses`, `hits`, and `hits_with_gib_more`, those it would have
    if its host's cache were a GiB larger and divided anew.
    """
    rule = host_rule(hosts)
    each = {name: size_bytes(one) for name, one in size.items()} if isinstance(size, Mapping) else None
    same = 0 if isinstance(size, Mapping) else size_bytes(size)

    def of_host(key: Tuple[pyarrow.Scalar, ...], table: pyarrow.Table) -> pyarrow.Table:
        host = key[0].as_py()
        if each is not None and host not in each:
            raise KeyError(f"Host {host}: size= does not say what it has; add it")
        rows = _groups.sized(host, table.to_pylist(), same if each is None else each[host], objective)
        return pyarrow.Table.from_batches([_groups.batch_of(rows, _groups.SIZES)])

    return rule(curves).groupBy("host").applyInArrow(of_host, _groups.SIZES)


def replay_hosts(
    spark: Any,
    data: Data,
    hosts: Hosts,
    scheme: str,
    *,
    dram: Optional[Size] = None,
    ssd: Optional[Size] = None,
    read_ssd: Optional[Size] = None,
    settings: Optional[Mapping[str, Any]] = None,
    devices: str = "default",
    drive: Optional[str] = None,
    block: Size = "4KiB",
) -> Any:
    """Replays each host's volumes together with a scheme; a row for each host, as a DataFrame.

    A host's requests are in the memory of its task, some 150 bytes each. `report` is the whole report as JSON.

    Args:
        data: a dataset, its path, or a DataFrame, as of `curves`.
        hosts: as of `size_hosts`.
        scheme, dram, ssd, read_ssd, settings, devices, drive, block: as of `lodestore.replay`; each host has levels of these sizes.
    """
    dataset = open_dataset(data)
    frame = data.select(*_names()) if dataset is None else dataset.frame(spark)
    how: Dict[str, Any] = {
        "dram": dram,
        "ssd": ssd,
        "read_ssd": read_ssd,
        "settings": dict(settings or {}),
        "devices": devices,
        "drive": drive,
        "block": block,
    }

    def of_host(key: Tuple[pyarrow.Scalar, ...], batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        table = pyarrow.Table.from_batches(batches)
        yield _groups.batch_of([_groups.replayed(key[0].as_py(), table, scheme, how)], _groups.REPLAYS)

    ordered = host_rule(hosts)(frame).repartition("host")
    ordered = ordered.sortWithinPartitions("host", "time_ns", "trace", "volume", "seq")
    return ordered.groupBy("host").applyInArrow(of_host, _groups.REPLAYS)


def report(
    curves: Any,
    path: Any,
    *,
    sizes: Any = None,
    replays: Any = None,
    devices: str = "default",
    drive: Optional[str] = None,
    title: str = "Fleet",
) -> str:
    """One page without network: what volumes need, what one more GiB a host buys, what the fleet costs and wears.

    Args:
        curves, sizes, replays: what `curves`, `size_hosts` and `replay_hosts` gave.
        path: the HTML file to write. It is headed by the day, that of `SOURCE_DATE_EPOCH` where that is set, and else depends on
            nothing but what is in the rows.
        devices, drive: whose prices count, see `lodestore.replay`.
    """
    # As Arrow, which takes a fraction of the time that rows one by one take.
    of_curves, of_sizes, of_replays = (
        [] if frame is None else frame.toArrow().to_pylist() for frame in (curves, sizes, replays)
    )
    head = made("lodestore.spark.report", {"title": title, "devices": os.fspath(devices), "drive": drive})
    host = _devices(devices, drive)
    return write_text(path, _lodestore.fleet_page(of_curves, of_sizes, of_replays, title, host, head))
