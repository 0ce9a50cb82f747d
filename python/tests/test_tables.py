"""To and from Arrow, Polars, pandas and DuckDB, without copies where that can be."""

import io
import subprocess
import sys

import duckdb
import pandas
import polars
import pyarrow
import pytest

import lodestore
from conftest import SMALL, trace_path

COLUMNS = ["time_ns", "volume", "op", "offset_bytes", "length_bytes"]


@pytest.fixture
def trace():
    return lodestore.read_trace(SMALL[1])


def vms(data):
    return lodestore.curve(data).to_dict()["vms"]


def test_shape(trace):
    table = trace.to_arrow()
    assert table.column_names == COLUMNS and len(table) == len(trace) == 10000
    assert table.schema.field("time_ns").type == pyarrow.uint64()
    assert pyarrow.types.is_dictionary(table.schema.field("volume").type)
    assert set(table["volume"].unique().to_pylist()) == set(trace.volumes)


@pytest.mark.parametrize("frame", ["to_arrow", "to_polars", "to_pandas", "to_duckdb"])
def test_there_and_back(trace, frame):
    assert vms(getattr(trace, frame)()) == vms(trace)


def test_whoever_knows_capsules(trace):
    assert len(polars.DataFrame(trace)) == len(pyarrow.table(trace)) == len(pyarrow.RecordBatchReader.from_stream(trace).read_all())
    requests = trace.to_arrow()
    reads = duckdb.sql("select count(*) from requests where op = 'read'").fetchall()[0][0]
    assert reads == requests["op"].to_pylist().count("read")
    assert pyarrow.schema(trace) == pyarrow.table(trace).schema


def test_scans_are_tables(trace):
    scan = lodestore.scan_trace(SMALL[1])
    assert scan.to_arrow().select(COLUMNS[3:]).equals(trace.to_arrow().select(COLUMNS[3:]))
    assert vms(scan.to_polars()) == vms(trace)
    assert len(lodestore.read_trace(scan)) == len(scan.read()) == len(trace)


def addresses(table, column):
    return [chunk.buffers()[1].address for chunk in table[column].chunks]


def test_numbers_are_shared_and_not_copied(trace):
    table = trace.to_arrow()
    again = lodestore.read_trace(table).to_arrow()
    for column in ("time_ns", "offset_bytes", "length_bytes"):
        assert addresses(again, column) == addresses(table, column)
    # Signed numbers are taken as they are, too.
    signed = table.set_column(0, "time_ns", table["time_ns"].cast(pyarrow.int64()))
    assert addresses(lodestore.read_trace(signed).to_arrow(), "time_ns") == addresses(signed, "time_ns")
    # Memory outlives whom it is from.
    copied = again.column("offset_bytes").to_pylist()
    del table, signed, trace
    assert again.column("offset_bytes").to_pylist() == copied


@pytest.mark.parametrize(
    "change",
    [
        {"op": lambda c: c.cast(pyarrow.string())},
        {"op": lambda c: pyarrow.array([value[0].upper() for value in c.to_pylist()]), "volume": lambda c: c.cast(pyarrow.string()).cast(pyarrow.string_view())},
        {"volume": lambda c: c.cast(pyarrow.large_string()).dictionary_encode()},
        {"time_ns": lambda c: c.cast(pyarrow.int64()).cast(pyarrow.timestamp("ns"))},
        {"length_bytes": lambda c: c.cast(pyarrow.int64()), "offset_bytes": lambda c: c.cast(pyarrow.int64())},
    ],
)
def test_types_that_fit(trace, change):
    table = trace.to_arrow().unify_dictionaries()
    for name, function in change.items():
        at = table.column_names.index(name)
        column = function(table[name].combine_chunks())
        called = "time" if pyarrow.types.is_timestamp(column.type) else name
        table = table.set_column(at, called, column)
    assert vms(table) == vms(trace)


def test_units_are_in_the_names(trace):
    frame = trace.to_polars().with_columns(polars.col("offset_bytes") // 512, polars.col("length_bytes") // 512)
    frame = frame.filter(polars.col("length_bytes") > 0).rename({"offset_bytes": "LBA", "length_bytes": "sectors"})
    found = lodestore.read_trace(frame).to_polars()
    assert (found["offset_bytes"] == frame["LBA"] * 512).all() and (found["length_bytes"] == frame["sectors"] * 512).all()
    renamed = frame.rename({"LBA": "where"})
    assert len(lodestore.read_trace(renamed, columns={"lba": "where"})) == len(frame)


def test_one_batch_and_streams(trace):
    table = trace.to_arrow().unify_dictionaries()
    batch = table.combine_chunks().to_batches()[0]
    reader = pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=1000))
    assert vms(batch) == vms(reader) == vms(trace)
    structs = batch.to_struct_array()
    assert vms(structs) == vms(trace)


def test_volumes_of_numbers_and_none():
    frame = polars.DataFrame({"time_ns": [1, 2, 3], "offset": [0, 0, 4096], "size": [512, 512, 512], "device": [7, 8, 7]})
    assert [vm["name"] for vm in vms(frame)] == ["7", "8"]
    trace = lodestore.read_trace(frame.drop("device"), name="mine")
    assert trace.volumes == ["mine"] and [vm["requests"] for vm in vms(trace)] == [3]


def test_files_and_patterns(trace, tmp_path):
    raw = SMALL[1].read_bytes()
    with open(SMALL[1], "rb") as file:
        opened = lodestore.read_trace(file)
    assert vms(opened) == vms(lodestore.read_trace(io.BytesIO(raw))) == vms(trace)
    assert len(lodestore.scan_trace(SMALL[1].parent / "*[01]k.lode.zst")) == 2
    assert len(lodestore.scan_trace([str(SMALL[0]), SMALL[1]])) == 2
    assert len(lodestore.curve([SMALL[0], trace])) == 1 + len(trace.volumes)
    with pytest.raises(ValueError, match="take one, as in scan"):
        lodestore.scan_trace(SMALL).to_arrow()
    assert vms(lodestore.scan_trace(SMALL)[1]) == vms(trace)


def test_writing(trace, tmp_path):
    for name in ("a.lode", "a.lode.zst"):
        assert trace.write(tmp_path / name) == len(trace)
        assert vms(tmp_path / name) == vms(trace)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.lode", "a.lode.zst"]
    with pytest.raises(ValueError, match="NAME.lode"):
        trace.write(tmp_path / "a.csv")


def test_who_asks_comes_along():
    table = pyarrow.table(
        {
            "time_ns": [1, 2, 3, 4],
            "offset_bytes": [0, 4096, 0, 8192],
            "length_bytes": [4096] * 4,
            "op": ["W"] * 4,
            "process": pyarrow.array([1, None, 3, 4], pyarrow.uint32()),
            "sync": [True, False, None, True],
            "critical": [None, True, False, None],
        }
    )
    again = lodestore.read_trace(table).to_arrow()
    for name in ("process", "sync", "critical"):
        assert again[name].to_pylist() == table[name].to_pylist()


def test_empty_tables_and_volumes():
    empty = pyarrow.table({name: pyarrow.array([], pyarrow.uint64()) for name in ("time_ns", "offset_bytes", "length_bytes")})
    trace = lodestore.read_trace(empty)
    assert len(trace) == 0 and len(lodestore.curve(trace)) == 0
    assert lodestore.replay(trace, "lru", ssd="1MiB").hit_ratio is None
    assert lodestore.CurveProfiler().partial_fit(empty).curves().rows() == []
    # A volume whose requests are neither reads nor writes has an empty curve.
    flushes = {"time_ns": [1, 2], "offset_bytes": [0, 0], "length_bytes": [0, 0], "op": ["flush", "F"], "volume": ["a", "b"]}
    curves = lodestore.curve(polars.DataFrame(flushes))
    assert [curve.hit_ratio("1GiB") for curve in curves] == [0.0, 0.0]
    assert sum(lodestore.size(curves, ssd="1MiB").shares.values()) == 0
    assert "at most 0.0 %" in repr(curves["a"])


WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
import lodestore
trace = lodestore.synth("hm_1", requests=100)
{code}
"""


@pytest.mark.parametrize(
    "missing, code, extra",
    [
        (["pyarrow"], "trace.to_arrow()", "lodestore[arrow]"),
        (["pyarrow"], "lodestore.curve(trace).to_arrow()", "lodestore[arrow]"),
        (["pyarrow"], "import pandas; lodestore.curve(pandas.DataFrame({'time_ns': [1], 'offset': [0], 'size': [1]}))", "lodestore[arrow]"),
        (["polars"], "trace.to_polars()", "lodestore[polars]"),
        (["duckdb"], "trace.to_duckdb()", "lodestore[duckdb]"),
        (["pandas"], "trace.to_pandas()", "lodestore[pandas]"),
        (["matplotlib", "matplotlib.pyplot"], "lodestore.curve(trace).plot()", "lodestore[plot]"),
        (["pyspark"], "import lodestore.spark", "lodestore[spark]"),
    ],
)
def test_a_missing_package_names_the_extra(missing, code, extra):
    done = subprocess.run([sys.executable, "-c", WITHOUT.format(missing=missing, code=code)], capture_output=True, text=True)
    assert done.returncode == 1 and f"pip install '{extra}'" in done.stderr.splitlines()[-1], done.stderr


def test_nothing_is_needed_to_answer():
    missing = ["pyarrow", "polars", "duckdb", "pandas", "matplotlib", "numpy", "pyspark"]
    code = "assert lodestore.replay(trace, 'lru', ssd='1MiB').hit_ratio is not None; lodestore.curve(trace).rows()"
    subprocess.run([sys.executable, "-c", WITHOUT.format(missing=missing, code=code)], check=True)


def test_plots(trace, tmp_path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, ax = pyplot.subplots()
    curves = lodestore.curve(trace)
    assert curves.plot(ax=ax) is ax
    assert len(ax.lines) == len(curves) and ax.get_ylabel() == "hits, % of accesses"
    assert curves[0].plot() is pyplot.gca()
    figure.savefig(tmp_path / "curve.svg")


def test_pandas_has_categories(trace):
    frame = trace.to_pandas()
    assert isinstance(frame["volume"].dtype, pandas.CategoricalDtype) and len(frame) == len(trace)
    assert len(lodestore.read_trace(trace_path("arc-oltp")).to_pandas()["volume"].cat.categories) == 1
