"""What is done with the requests of one volume, and of one host. It must not know how Spark brings them together."""

import itertools
import json
from typing import Any, Dict, Iterator, List

import pyarrow

import lodestore
from lodestore._questions import _divide
from lodestore._results import Curve

#: Points of a curve: 64 sizes and hits of 8 bytes each are 1 KiB a volume.
POINTS = 64
GIB = 1 << 30
_BATCH_ROWS = 512

_REQUEST = ["time_ns", "op", "offset_bytes", "length_bytes"]

CURVES = (
    "trace string, volume string, requests long, accesses long, reads long, read_bytes long, written_bytes long, "
    "first_ns long, last_ns long, distinct_blocks long, rate double, block_bytes long, needed_blocks long, "
    "blocks array<long>, hit_ratios array<double>"
)
SIZES = (
    "host string, trace string, volume string, host_bytes long, bytes long, needed_bytes long, accesses long, "
    "hits long, hits_with_gib_more long"
)
REPLAYS = (
    "host string, scheme string, volumes int, requests long, hit_ratio double, mean_latency_us double, span_s double, "
    "ssd_written_bytes long, ssd_life_years double, cost_usd double, report string"
)
_ARROW = {
    "string": pyarrow.string(),
    "long": pyarrow.int64(),
    "int": pyarrow.int32(),
    "double": pyarrow.float64(),
    "array<long>": pyarrow.list_(pyarrow.int64()),
    "array<double>": pyarrow.list_(pyarrow.float64()),
}


def batch_of(rows: List[Dict[str, Any]], ddl: str) -> pyarrow.RecordBatch:
    """Rows with these columns."""
    names = [field.split(" ") for field in ddl.split(", ")]
    arrays = [pyarrow.array([row[name] for row in rows], _ARROW[kind]) for name, kind in names]
    return pyarrow.RecordBatch.from_arrays(arrays, [name for name, _ in names])


def batches_of(rows: Iterator[Dict[str, Any]], ddl: str) -> Iterator[pyarrow.RecordBatch]:
    """The same for many rows: a batch for each would take Spark longer than the rows take."""
    while some := list(itertools.islice(rows, _BATCH_ROWS)):
        yield batch_of(some, ddl)


def profiled(trace: str, volume: str, batches: Iterator[pyarrow.RecordBatch], how: Dict[str, Any], points: int) -> Dict[str, Any]:
    """One volume's curve, of a profiler of its own, so that it does not depend on what else there is."""
    try:
        profiler = lodestore.CurveProfiler(**how)
        for batch in batches:
            requests = lodestore.read_trace(batch.select(_REQUEST), name=volume, on_unsorted="keep", progress=False)
            profiler.partial_fit(requests)
        # Read, and not changed: a copy of each of thousands of curves would take as long as measuring them.
        report = profiler.curves(points)._report
        facts = profiler._state.facts()
    except Exception as error:
        raise RuntimeError(f"Volume {volume} of trace {trace}: {error}") from error
    vm = report["vms"][0] if report["vms"] else None
    _, read_bytes, written_bytes, first_ns, last_ns = facts[0] if facts else ("", 0, 0, None, None)
    return {
        "trace": trace,
        "volume": volume,
        "requests": vm["requests"] if vm else 0,
        "accesses": vm["accesses"] if vm else 0,
        "reads": vm["reads"] if vm else 0,
        "read_bytes": read_bytes,
        "written_bytes": written_bytes,
        "first_ns": first_ns,
        "last_ns": last_ns,
        "distinct_blocks": vm["distinct_blocks"] if vm else 0,
        "rate": vm["rate"] if vm else 1.0,
        "block_bytes": report["block_bytes"],
        "needed_blocks": vm["blocks"] if vm else 0,
        "blocks": [point[0] for point in vm["curve"]] if vm else [],
        "hit_ratios": [point[1] for point in vm["curve"]] if vm else [],
    }


def curve_of(row: Dict[str, Any]) -> Curve:
    """The curve of a row of `CURVES`; its name tells trace and volume."""
    vm = {
        "name": f"{row['trace']}/{row['volume']}",
        "curve": list(zip(row["blocks"], row["hit_ratios"])),
        "accesses": row["accesses"],
        "rate": row["rate"],
        "blocks": row["needed_blocks"],
    }
    return Curve(vm, row["block_bytes"])


def sized(host: str, rows: List[Dict[str, Any]], size_bytes: int, objective: str) -> List[Dict[str, Any]]:
    """One host's level divided between its volumes; and what they would hit if it had a GiB more."""
    rows = sorted(rows, key=lambda row: (row["trace"], row["volume"]))
    try:
        curves = [curve_of(row) for row in rows]
        now = _divide(curves, size_bytes, objective, {}).rows()
        more = _divide(curves, size_bytes + GIB, objective, {}).rows()
    except Exception as error:
        raise RuntimeError(f"Host {host}: {error}") from error
    return [
        {
            "host": host,
            "trace": row["trace"],
            "volume": row["volume"],
            "host_bytes": size_bytes,
            "bytes": share["bytes"],
            "needed_bytes": row["needed_blocks"] * row["block_bytes"],
            "accesses": row["accesses"],
            "hits": round(share["hit_ratio"] * row["accesses"]),
            "hits_with_gib_more": round(larger["hit_ratio"] * row["accesses"]),
        }
        for row, share, larger in zip(rows, now, more)
    ]


def replayed(host: str, table: pyarrow.Table, scheme: str, how: Dict[str, Any]) -> Dict[str, Any]:
    """One host's volumes through a scheme; the table is by time, trace, volume and number."""
    volumes: List[str] = []
    try:
        traces = table["trace"].to_pylist() if len(table) else []
        names = [f"{trace}/{volume}" for trace, volume in zip(traces, table["volume"].to_pylist())]
        volumes = sorted(set(names))
        requests = table.select(_REQUEST)
        requests = requests.append_column("volume", pyarrow.array(names, pyarrow.string()))
        report = lodestore.replay(lodestore.read_trace(requests, name=host), scheme, progress=False, **how)
        assert isinstance(report, lodestore.Report)
    except Exception as error:
        of = f", with {', '.join(volumes[:3])}{' and others' if len(volumes) > 3 else ''}" if volumes else ""
        raise RuntimeError(f"Host {host}{of}: {error}") from error
    found = report.to_dict()
    devices = found["devices"]
    return {
        "host": host,
        "scheme": found["scheme"],
        "volumes": len(volumes),
        "requests": found["total"]["requests"],
        "hit_ratio": report.hit_ratio,
        "mean_latency_us": report.mean_latency_us,
        "span_s": devices["span_s"],
        "ssd_written_bytes": devices["ssd_written_bytes"],
        "ssd_life_years": devices.get("ssd_life_years"),
        "cost_usd": devices["cost_usd"]["total"],
        "report": json.dumps(found, sort_keys=True),
    }

