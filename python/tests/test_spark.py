"""Datasets, curves, sizes, replays and the page on a local Spark: the same whatever the partitions, and what is lost is done again."""

import hashlib
import os
import random
import re
import threading
import time
from pathlib import Path

import pyarrow
import pytest

import lodestore
from conftest import SMALL, trace_path

pyspark = pytest.importorskip("pyspark")
from pyspark.sql import SparkSession  # noqa: E402

import lodestore.spark as fleet  # noqa: E402


def session(master, **more):
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "4")
    for key, value in {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", **more}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


@pytest.fixture(scope="module")
def spark():
    made = session("local[2]")
    yield made
    made.stop()


def many(seed, volumes=40, requests=30_000):
    """A trace of many volumes, many requests of which have the same time."""
    chance = random.Random(seed)
    rows = {"time_ns": [], "volume": [], "op": [], "offset_bytes": [], "length_bytes": []}
    now = 1_000
    for _ in range(requests):
        now += chance.choice([0, 0, 1, 1000])
        rows["time_ns"].append(now)
        rows["volume"].append(f"vol-{int(chance.paretovariate(0.5)) % volumes}")
        rows["op"].append(chance.choice(["read", "read", "write", "trim"]))
        rows["offset_bytes"].append(chance.randrange(2000) * 4096)
        rows["length_bytes"].append(chance.choice([512, 4096, 16384]))
    return lodestore.read_trace(pyarrow.table(rows))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    for seed in (1, 2):
        many(seed).write(folder / f"many{seed}.lode.zst")
    return {"many1": folder / "many1.lode.zst", "many2": folder / "many2.lode.zst", "small": SMALL[1]}


@pytest.fixture(scope="module")
def dataset(spark, files, tmp_path_factory):
    return fleet.write_dataset(spark, files, tmp_path_factory.mktemp("data") / "fleet", buckets=5)


def rows_of(frame):
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: [str(row.get(key)) for key in ("host", "trace", "volume")])


def digest(folder):
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and not path.name.endswith(".crc"):
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def test_curves_are_those_of_each_volume_alone(spark, files, dataset):
    found = {(row["trace"], row["volume"]): row for row in rows_of(fleet.curves(spark, dataset, "urd", sample="exact", points=1000))}
    expected = 0
    for name, path in files.items():
        trace = lodestore.read_trace(path)
        frame = trace.to_polars()
        for volume in trace.volumes:
            alone = lodestore.read_trace(frame.filter(frame["volume"].cast(str) == volume))
            curve = lodestore.curve(alone, "urd").to_dict()["vms"][0]
            row = found[name, volume]
            assert list(zip(row["blocks"], row["hit_ratios"])) == [tuple(point) for point in curve["curve"]]
            assert (row["requests"], row["accesses"], row["needed_blocks"]) == (curve["requests"], curve["accesses"], curve["blocks"])
            expected += 1
    assert len(found) == expected == len(fleet.curves(spark, dataset).collect())


def test_results_do_not_depend_on_partitions_or_batches(spark, files, dataset, tmp_path):
    how = {"metric": "pod", "policy": "ro", "sample": 256}
    first = fleet.curves(spark, dataset, **how)
    expected = rows_of(first)
    # Other buckets, runs and orders of the same requests.
    other = fleet.write_dataset(spark, dict(reversed(files.items())), tmp_path / "other", buckets=2, run_rows=4096)
    assert other.rows == dataset.rows and len(other.files) != len(dataset.files)
    assert rows_of(fleet.curves(spark, other, **how)) == expected
    shuffled = dataset.frame(spark).repartition(7)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "777")
    try:
        grouped = fleet.curves(spark, shuffled, **how)
        assert rows_of(grouped) == expected
        sizes = fleet.size_hosts(first, 3, "1MiB")
        replays = fleet.replay_hosts(spark, shuffled, "trace", "lru", ssd="1MiB")
        again = (fleet.size_hosts(grouped, 3, "1MiB"), fleet.replay_hosts(spark, other, "trace", "lru", ssd="1MiB"))
        assert rows_of(sizes) == rows_of(again[0]) and rows_of(replays) == rows_of(again[1])
        pages = [tmp_path / "one.html", tmp_path / "two.html"]
        fleet.report(first, pages[0], sizes=sizes, replays=replays)
        fleet.report(grouped, pages[1], sizes=again[0], replays=again[1])
        assert pages[0].read_bytes() == pages[1].read_bytes()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    # A task that runs again writes the same bytes.
    again = fleet.write_dataset(spark, files, tmp_path / "again", buckets=5)
    assert digest(again.path) == digest(dataset.path)


def test_dataset_from_frames_has_the_same_requests(spark, files, dataset, tmp_path):
    made = fleet.write_dataset(spark, dataset.frame(spark).repartition(3), tmp_path / "made", buckets=3)
    assert made.rows == dataset.rows
    assert rows_of(fleet.curves(spark, made)) == rows_of(fleet.curves(spark, dataset))
    # Parquet as the Alibaba set has it: other names, microseconds, no number.
    trace = lodestore.read_trace(files["many1"]).to_polars()
    trace.select(
        device_id=trace["volume"].cast(str),
        opcode=trace["op"].cast(str).str.slice(0, 1).str.to_uppercase(),
        offset=trace["offset_bytes"].cast(int),
        length=trace["length_bytes"].cast(int),
        timestamp=(trace["time_ns"] // 1000).cast(int),
    ).write_parquet(tmp_path / "set.parquet")
    columns = {"time_us": "timestamp", "volume": "device_id", "op": "opcode"}
    theirs = fleet.write_dataset(spark, spark.read.parquet(str(tmp_path / "set.parquet")), tmp_path / "set", buckets=3, columns=columns, trace="many1")
    wanted = [row for row in rows_of(fleet.curves(spark, dataset)) if row["trace"] == "many1"]
    # Times are rounded to microseconds; nothing else differs.
    drop = lambda rows: [{key: value for key, value in row.items() if not key.endswith("_ns")} for row in rows]
    assert drop(rows_of(fleet.curves(spark, theirs))) == drop(wanted)


def test_hosts(spark, dataset):
    curves = fleet.curves(spark, dataset, sample="exact", points=1000)
    sizes = rows_of(fleet.size_hosts(curves, "trace", {"many1": "1MiB", "many2": "2MiB", "small": "64KiB"}))
    for host, most in (("many1", 1 << 20), ("many2", 2 << 20), ("small", 64 << 10)):
        of_host = [row for row in sizes if row["host"] == host]
        assert 0 < sum(row["bytes"] for row in of_host) <= most
        assert all(row["hits"] <= row["hits_with_gib_more"] <= row["accesses"] for row in of_host)
    mapped = rows_of(fleet.size_hosts(curves, {"many1": "a", ("many2", "vol-1"): "b", "many2": "a", "small": "a"}, "1MiB"))
    assert [row["volume"] for row in mapped if row["host"] == "b"] == ["vol-1"] and len(mapped) == len(sizes)
    # A host's replay is that of its volumes' requests.
    found = {row["host"]: row for row in rows_of(fleet.replay_hosts(spark, dataset, "trace", "lru", ssd="1MiB", settings={"assoc": 0}))}
    alone = lodestore.replay(SMALL[1], "lru", ssd="1MiB", settings={"assoc": 0})
    assert found["small"]["hit_ratio"] == alone.hit_ratio and found["small"]["ssd_written_bytes"] == 4096 * alone.ssd_writes


def test_report(spark, dataset, tmp_path):
    curves = fleet.curves(spark, dataset)
    sizes = fleet.size_hosts(curves, 2, "1MiB")
    text = Path(fleet.report(curves, tmp_path / "page.html", sizes=sizes, title="A & B")).read_text()
    assert "A &amp; B" in text and "What volumes need" in text and "What one more GiB a host buys" in text
    assert f"Lodestore {lodestore.__version__}: lodestore.spark.report(title=" in text and "every hit there is to have" in text
    assert "What the fleet costs" not in text and not re.search(r"(src|href)=.https?:", text)
    assert len(text.encode()) < 1 << 18


def test_old_clocks_are_written_as_since_1970(spark, tmp_path):
    rows = {"time_ns": pyarrow.array([128_166_372_003_061_629 * 100, 128_166_372_003_061_630 * 100], pyarrow.uint64())}
    rows.update({"offset_bytes": [0, 4096], "length_bytes": [512, 512]})
    lodestore.read_trace(pyarrow.table(rows)).write(tmp_path / "msr.lode")
    dataset = fleet.write_dataset(spark, tmp_path / "msr.lode", tmp_path / "out", buckets=1)
    times = [row["time_ns"] for row in dataset.frame(spark).sort("seq").collect()]
    assert times == [time - 11_644_473_600 * 10**9 for time in rows["time_ns"].to_pylist()]


def test_traces_that_go_back_are_sorted(spark, tmp_path):
    trace = many(3, volumes=3, requests=5000)
    back = lodestore.read_trace(trace.to_polars()[::-1], on_unsorted="keep")
    back.write(tmp_path / "back.lode")
    dataset = fleet.write_dataset(spark, tmp_path / "back.lode", tmp_path / "out", buckets=2, run_rows=1000)
    times = [row["time_ns"] for row in dataset.frame(spark).where("volume = 'vol-1'").collect()]
    assert times == sorted(times) and dataset.rows == 5000
    assert len(fleet.curves(spark, dataset).collect()) == 3


def message_of(call):
    with pytest.raises(Exception) as error:
        call()
    return str(error.value)


def test_failures_name_the_volume(spark, files, dataset, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("time_ns,volume,op,offset_bytes,length_bytes\n1,a,R,0,512\n2,a,X,0,512\n")
    text = message_of(lambda: fleet.write_dataset(spark, bad, tmp_path / "out"))
    assert "Trace bad" in text and "line 3" in text
    frame = dataset.frame(spark)
    zero = frame.withColumn("length_bytes", pyspark.sql.functions.expr("if(volume = 'vol-7', 0, length_bytes)"))
    assert "Volume vol-7 of trace many" in message_of(lambda: fleet.curves(spark, zero).collect())
    text = message_of(lambda: fleet.replay_hosts(spark, zero, {"many1": "h1", "many2": "h2", "small": "h2"}, "lru", ssd="1MiB").collect())
    assert re.search("Host h[12], with many", text)
    assert "has no host" in message_of(lambda: fleet.size_hosts(fleet.curves(spark, dataset), {"small": "a"}, "1MiB").collect())
    assert "it is no dataset" in message_of(lambda: fleet.curves(spark, tmp_path))
    assert "'ro', 'wbwo' or 'wb'" in message_of(lambda: fleet.curves(spark, dataset, "pod", "x"))


def test_requests_that_cannot_be_told_apart_or_have_no_offset_are_refused(spark, files, dataset, tmp_path):
    columns = "volume string, time_ns long, op string, offset_bytes long, length_bytes long"
    made = spark.createDataFrame([("v", 1, "read", 0, 512), ("v", 1, "write", 512, 512)], columns)
    assert "give columns={'seq': ...}" in message_of(lambda: fleet.write_dataset(spark, made, tmp_path / "a"))
    numbered = spark.createDataFrame([("v", 1, "read", None, 512, 7)], columns + ", seq long")
    text = message_of(lambda: fleet.write_dataset(spark, numbered, tmp_path / "b"))
    assert "A request of volume v has no offset_bytes" in text
    other = tmp_path / "other"
    other.mkdir()
    (other / files["many1"].name).write_bytes(files["many1"].read_bytes())
    text = message_of(lambda: fleet.write_dataset(spark, [files["many1"], other / files["many1"].name], tmp_path / "c"))
    assert "are both called many1; give a mapping of names to files" in text


def test_what_killed_tasks_left_goes_when_a_dataset_is_complete(spark, files, tmp_path):
    left = tmp_path / "out" / "bucket=00000" / "rows.parquet.1.0a.part"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half of a file")
    made = fleet.write_dataset(spark, files["small"], tmp_path / "out", buckets=2)
    assert not left.exists() and made.rows > 0


def test_a_dataset_is_replaced_only_on_demand_and_is_none_until_it_is_complete(spark, files, tmp_path):
    path = tmp_path / "out"
    first = fleet.write_dataset(spark, {name: files[name] for name in ("many1", "small")}, path, buckets=4)
    assert "is a dataset already" in message_of(lambda: fleet.write_dataset(spark, files["many2"], path))
    assert fleet.Dataset(str(path)).files == first.files
    text = message_of(lambda: fleet.write_dataset(spark, first.frame(spark).where("trace = 'small'"), path, overwrite=True))
    assert "read from" in text and fleet.Dataset(str(path)).files == first.files
    bad = tmp_path / "bad.csv"
    bad.write_text("time_ns,volume,op,offset_bytes,length_bytes\n1,a,X,0,512\n")
    assert "Trace bad" in message_of(lambda: fleet.write_dataset(spark, bad, path, overwrite=True))
    assert "it is no dataset" in message_of(lambda: fleet.Dataset(str(path)))
    made = fleet.write_dataset(spark, files["small"], path, buckets=4)
    again = fleet.write_dataset(spark, {"small": files["small"]}, path, buckets=2, overwrite=True)
    # Of what was replaced nothing is left.
    left = {str(found.relative_to(path)) for found in path.rglob("*.parquet")} - {file["file"] for file in again.files}
    assert made.rows == again.rows and not any(file["file"] in left for file in made.files)
    assert fleet.curves(spark, again).count() == len(lodestore.read_trace(files["small"]).volumes)


def executors(spark):
    """Processes that a local cluster of this session started, by id."""
    found = []
    driver = spark.sparkContext._gateway.proc.pid
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
            parents[int(path.parent.name)] = int(fields[1])
        except OSError:
            continue
    for process in parents:
        ancestor = process
        while ancestor in parents and ancestor != driver:
            ancestor = parents[ancestor]
        if ancestor == driver and b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes():
            found.append(process)
    return found


def test_a_lost_executor_loses_and_doubles_nothing(spark, tmp_path):
    sources = {f"made{seed}": tmp_path / f"made{seed}.lode" for seed in range(6)}
    for seed, path in enumerate(sources.values()):
        lodestore.synth("prxy_0", requests=400_000, seed=seed).write(path)
    spark.stop()
    cluster = session("local-cluster[2,1,1024]", **{"spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", "")})
    try:
        expected = fleet.write_dataset(cluster, sources, tmp_path / "calm", buckets=4)
        calm = rows_of(fleet.curves(cluster, expected))
        killed = []

        def kill():
            # As soon as a file is under way.
            while not killed:
                if any((tmp_path / "rough").rglob("*.part")):
                    killed.append(executors(cluster)[0])
                    os.kill(killed[0], 9)
                time.sleep(0.001)

        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        rough = fleet.write_dataset(cluster, sources, tmp_path / "rough", buckets=4)
        thread.join(10)
        assert killed
        assert rough.files == expected.files
        of = lambda folder: {name: value for name, value in digest(folder).items() if not name.endswith(".part")}
        assert of(rough.path) == of(expected.path)
        os.kill(executors(cluster)[0], 9)
        assert rows_of(fleet.curves(cluster, rough)) == calm
    finally:
        cluster.stop()
