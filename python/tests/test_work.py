"""Long work: other threads run meanwhile, progress is told, Ctrl-C ends it. And schemes written in Python."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import lodestore


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("long") / "long.lode"
    lodestore.synth("prxy_0", requests=3_000_000).write(path)
    return path


def test_other_threads_run_meanwhile(long_trace):
    counts, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counts[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    start_s = time.monotonic()
    lodestore.curve(long_trace, threads=1)
    seconds = time.monotonic() - start_s
    stop.set()
    thread.join()
    assert counts[0] > 100 * seconds


def test_progress_is_told_and_ends_what_it_raises_in(long_trace):
    told = []
    lodestore.curve(long_trace, threads=1, progress=lambda done, total: told.append((done, total)))
    assert told and told == sorted(told) and {total for _, total in told} == {os.path.getsize(long_trace)}

    class Enough(Exception):
        pass

    def raise_it(done, total):
        raise Enough

    for work in (
        lambda: lodestore.curve(long_trace, threads=1, progress=raise_it),
        lambda: lodestore.replay(long_trace, "lru", ssd="1GiB", progress=raise_it),
        lambda: lodestore.compare(long_trace, ["lru", "arc"], ssd="1GiB", progress=raise_it),
        lambda: lodestore.size(long_trace, ssd="1GiB", progress=raise_it),
    ):
        start_s = time.monotonic()
        with pytest.raises(Enough):
            work()
        assert time.monotonic() - start_s < 5


@pytest.mark.parametrize("work", ["lodestore.curve(path, 'pod', 'wbwo', 'exact')", "lodestore.replay(path, 'etica', dram='1GiB', ssd='8GiB')"])
def test_ctrl_c_ends_it(long_trace, work):
    code = textwrap.dedent(
        f"""
        import lodestore, sys
        path = {str(long_trace)!r}
        print("ready", flush=True)
        while True:
            {work}
        """
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    start_s = time.monotonic()
    _, errors = process.communicate(timeout=20)
    assert errors.rstrip().endswith("KeyboardInterrupt") and time.monotonic() - start_s < 2


def test_a_python_lru_hits_as_the_built_in_one():
    trace = lodestore.synth("hm_1", requests=20000, seed=3)
    for size in ("256KiB", "4MiB"):
        own = lodestore.replay(trace, lodestore.LruScheme(), ssd=size)
        built_in = lodestore.replay(trace, "lru", ssd=size, settings={"assoc": 0})
        row, theirs = own.rows()[0], built_in.rows()[0]
        for key in ("requests", "block_reads", "block_writes", "ssd_read_hits", "read_misses", "ssd_write_hits", "ssd_writes"):
            assert row[key] == theirs[key], key
        assert own.hit_ratio == built_in.hit_ratio and "LruScheme" in repr(own)


def test_python_schemes_have_equal_parts_and_bounds():
    two = [lodestore.synth("hm_1", requests=2000), lodestore.synth("prxy_0", requests=2000)]
    report = lodestore.replay(two, lodestore.LruScheme(), ssd="2MiB")
    halves = [lodestore.replay(one, lodestore.LruScheme(), ssd="1MiB").rows()[0] for one in two]
    assert report.rows() == halves and report.to_dict()["vms"] == halves
    with pytest.raises(ValueError, match="one level"):
        lodestore.replay(two, lodestore.LruScheme(), ssd="1MiB", dram="1MiB")
    with pytest.raises(ValueError, match="not one block"):
        lodestore.replay(two, lodestore.LruScheme(), ssd="4KiB")


def test_a_profiler_of_a_sample_is_small_and_close():
    trace = lodestore.synth("prxy_0", requests=200_000)
    exact = lodestore.curve(trace)[0]
    profiler = lodestore.CurveProfiler(sample=4096)
    profiler.partial_fit(trace)
    sampled = profiler.curves(points=64)[0]
    assert len(sampled.blocks) <= 64 and sampled.rate < 1
    assert profiler.memory_bytes < 1 << 20
    sizes = [exact.needed_bytes * part // 20 for part in range(1, 20)]
    assert sum(abs(exact.hit_ratio(size) - sampled.hit_ratio(size)) for size in sizes) / len(sizes) < 0.05
