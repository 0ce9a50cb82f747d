#!/usr/bin/env python3
"""Lodestore beside libcachesim: equal miss ratios (`test`) and speed (`bench`). `run` prepares everything and calls it.

Both sides read the same requests from a file, one thread each, in turn, and are measured by the time that their process
had a processor. The peer gets the format it reads fastest and the hash table size that suits it best.
"""
import argparse
import json
import lzma
import os
import statistics
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path

import libcachesim
import numpy
import zstandard

ROOT = Path(__file__).resolve().parent.parent.parent
# The folder of real traces, found as tests/testdata finds it.
TRACES = Path(os.environ.get("LODE_TRACES", ROOT.parent / "shared" / "traces"))
WRITE = 1 << 31
BLOCK_MASK = WRITE - 1
HASHPOWERS = (20, 21, 22)
READ_PERCENT = 70
MOST_ROUNDS = 99
ORACLE_GENERAL = numpy.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def peers_mq(cache_size, hashpower):
    """The peer's MQ with lives as long as ours: it takes them in accesses, we for each hundred blocks of the cache."""
    return libcachesim.MQ(cache_size=cache_size, hashpower=hashpower, lifetime=cache_size)


# The peer's algorithm, our scheme, its settings.
POLICIES = {
    "LRU": (libcachesim.LRU, "lru", ["assoc=0"]),
    "ARC": (libcachesim.ARC, "arc", []),
    "S3-FIFO": (libcachesim.S3FIFO, "s3-fifo", []),
    "SIEVE": (libcachesim.Sieve, "sieve", []),
    "LIRS": (libcachesim.LIRS, "lirs", []),
    "W-TinyLFU": (libcachesim.WTinyLFU, "w-tinylfu", []),
    "Belady": (libcachesim.Belady, "belady", []),
    "2Q": (libcachesim.TwoQ, "2q", []),
    "MQ": (peers_mq, "mq", ["life_percent=100"]),
    "FIFO": (libcachesim.FIFO, "fifo", ["assoc=0"]),
}
# Read differently by the two sides, as the pages of our schemes say; their misses are shown and need not be equal.
READ_DIFFERENTLY = {"LIRS", "W-TinyLFU"}
# Accesses of a trace that are made into one without those that the peer's LIRS reads differently.
AGREED_REQUESTS = 300_000
AGREED_BLOCKS = (10, 50, 150, 200, 1_000, 5_000)


def fail(text):
    sys.exit(f"bench/compare: {text}")


def next_uses(blocks):
    """For each request, which one is the next of the same block; -1 when there is none."""
    order = numpy.argsort(blocks, kind="stable")
    follows = blocks[order[1:]] == blocks[order[:-1]]
    next_use = numpy.full(len(blocks), -1, dtype="<i8")
    next_use[order[:-1][follows]] = order[1:][follows]
    return next_use


class Trace:
    """A trace as words, as the peer's own format, and as a compact file."""

    def __init__(self, name, folder):
        self.name = name
        self.words, self.oracle, self.packed = (folder / f"{name}.{end}" for end in ("words", "oracleGeneral", "lode"))

    def write(self, words):
        words.astype("<u4").tofile(self.words)

    def prepare(self):
        words = numpy.fromfile(self.words, dtype="<u4")
        self.requests, self.distinct = len(words), len(numpy.unique(words & BLOCK_MASK))
        records = numpy.zeros(len(words), dtype=ORACLE_GENERAL)
        # The peer takes object 0 for none.
        records["id"] = (words & BLOCK_MASK).astype("<u8") + 1
        records["time"], records["size"], records["next"] = numpy.arange(len(words)), 1, next_uses(words & BLOCK_MASK)
        records.tofile(self.oracle)
        return self

    def reader(self, path=None):
        parameters = libcachesim.ReaderInitParam(ignore_obj_size=True)
        return libcachesim.TraceReader(str(path or self.oracle), libcachesim.TraceType.ORACLE_GENERAL_TRACE, parameters)


def real_trace(name):
    """The bytes of a real trace; None without it."""
    path = TRACES / name
    if not path.exists():
        print(f"skipped: {path.name} is not in {TRACES}; set LODE_TRACES to the folder with the real traces")
        return None
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    return zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()


def cloudphysics(folder):
    data = real_trace("cloudphysics-w106-lbn.u32le.xz")
    if data is None:
        return None
    words = numpy.frombuffer(data, dtype="<u4").copy()
    if words.max() > BLOCK_MASK:
        fail("cloudphysics-w106-lbn has block numbers of 32 bits")
    # The trace does not say which requests were writes; with --mixed these are made up, from a fixed seed.
    writes = numpy.random.default_rng(1).integers(0, 100, len(words)) >= READ_PERCENT
    trace = Trace("cloudphysics-w106-lbn", folder)
    trace.write(words | (writes.astype("<u4") << 31))
    return trace.prepare()


def arc(name, folder):
    """A trace of runs: first block, number of blocks, two more columns."""
    data = real_trace(f"{name}.lis.zst")
    if data is None:
        return None
    rows = numpy.array(data.split(), dtype="<i8").reshape(-1, 4)
    first, count = rows[:, 0], rows[:, 1]
    within = numpy.arange(count.sum()) - numpy.repeat(numpy.cumsum(count) - count, count)
    trace = Trace(name, folder)
    trace.write(numpy.repeat(first, count) + within)
    return trace.prepare()


def zipf(ours, folder, requests, blocks):
    trace = Trace(f"zipf-{requests}-{blocks}", folder)
    ours.call("zipf", trace.words, requests, blocks)
    return trace.prepare()


class PlainLirs:
    """LIRS with a stack of twice the cache, to know which accesses the peer reads differently."""

    def __init__(self, blocks):
        self.blocks, self.lir_blocks = blocks, blocks - max(1, blocks // 100)
        self.lirs, self.stack, self.queue, self.ghosts = set(), OrderedDict(), OrderedDict(), OrderedDict()

    def is_read_differently(self, block):
        return block in self.queue and block not in self.stack

    def access(self, block):
        is_cached = block in self.lirs or block in self.queue
        is_ghost = self.ghosts.pop(block, False)
        if not is_cached and len(self.lirs) + len(self.queue) >= self.blocks:
            self.evict()
        has_room = not is_cached and len(self.lirs) < self.lir_blocks
        if is_ghost or has_room or (block in self.queue and block in self.stack):
            self.queue.pop(block, None)
            self.lirs.add(block)
        elif block not in self.lirs:
            self.queue[block] = True
            self.queue.move_to_end(block)
        self.stack[block] = True
        self.stack.move_to_end(block)
        if len(self.lirs) > self.lir_blocks:
            oldest, _ = self.stack.popitem(last=False)
            self.lirs.remove(oldest)
            self.queue[oldest] = True
        while next(iter(self.stack)) not in self.lirs:
            oldest, _ = self.stack.popitem(last=False)
            self.ghosts.pop(oldest, None)
        while len(self.stack) > 2 * self.blocks and self.ghosts:
            oldest, _ = self.ghosts.popitem(last=False)
            del self.stack[oldest]

    def evict(self):
        block, _ = self.queue.popitem(last=False)
        if block in self.stack:
            self.ghosts[block] = True


def agreed_lirs(trace, blocks, folder):
    """The beginning of a trace without the accesses that the peer's LIRS, with a cache of `blocks`, reads differently."""
    lirs, kept = PlainLirs(blocks), []
    for block in (numpy.fromfile(trace.words, dtype="<u4")[:AGREED_REQUESTS] & BLOCK_MASK).tolist():
        if not lirs.is_read_differently(block):
            lirs.access(block)
            kept.append(block)
    agreed = Trace(f"{trace.name}-agreed", folder)
    agreed.write(numpy.array(kept))
    return agreed.prepare()


class Ours:
    def __init__(self, program):
        self.program = program

    def call(self, *arguments):
        words = [str(self.program), *map(str, arguments)]
        answer = subprocess.run(words, capture_output=True, text=True)
        if answer.returncode != 0:
            fail(f"{' '.join(words)}: {answer.stderr.strip()}")
        return json.loads(answer.stdout)

    def replay(self, trace, scheme, dram, ssd, pairs, ops="reads"):
        return self.call("replay", trace.words, ops, scheme, dram, ssd, *pairs)


def peer(trace, algorithm, blocks, hashpower, path=None):
    """Seconds and misses of the peer."""
    cache = algorithm(cache_size=blocks, hashpower=hashpower)
    reader = trace.reader(path)
    start = time.process_time()
    ratio, _ = cache.process_trace(reader)
    return time.process_time() - start, ratio


def is_equal(ours, trace, blocks, name, is_told):
    """Whether both sides miss equally often; says so."""
    algorithm, scheme, pairs = POLICIES[name]
    _, ratio = peer(trace, algorithm, blocks, HASHPOWERS[0])
    mine = ours.replay(trace, scheme, 0, blocks, pairs)
    if mine["accesses"] != trace.requests:
        fail(f"{trace.name}: {mine['accesses']} accesses of {trace.requests}")
    theirs = ratio * trace.requests
    # The peer's ratio is one less the hits, so that it is off by a rounding; misses are whole.
    equal = round(theirs) == mine["misses"] and abs(theirs - round(theirs)) < 1e-3
    said = "equal" if equal else "read differently" if is_told else "DIFFERENT"
    print(f"{trace.name:<28}{blocks:>8} blocks  {name:<10}"
          f"{mine['misses'] / trace.requests:.9f} {ratio:.9f}  {said}", flush=True)
    return equal


def test(ours, folder):
    """Miss ratios equal to the last digit; says how many differ."""
    traces = [cloudphysics(folder), arc("arc-oltp", folder), arc("arc-p3", folder), zipf(ours, folder, 500_000, 50_000)]
    compared = []
    for trace in filter(None, traces):
        for percent in (1, 10, 40):
            blocks = trace.distinct * percent // 100
            for name in POLICIES:
                is_told = name in READ_DIFFERENTLY
                equal = is_equal(ours, trace, blocks, name, is_told)
                if not is_told:
                    compared.append(equal)
        for blocks in AGREED_BLOCKS:
            compared.append(is_equal(ours, agreed_lirs(trace, blocks, folder), blocks, "LIRS", False))
    different = compared.count(False)
    print(f"{len(compared)} miss ratios compared, {different} differ")
    return different


def row(table, trace, what, pairs, target, note=""):
    """One line of the table: pairs of (our seconds, their seconds)."""
    ratios = [theirs / mine for mine, theirs in pairs]
    ratio = statistics.median(ratios)
    # What a neighbour of the machine adds, it adds to some runs of either side: their fastest have least of it.
    fastest = min(theirs for _, theirs in pairs) / min(mine for mine, _ in pairs)
    entry = {
        "trace": trace.name, "what": what, "target": target, "met": ratio >= target if target else None, "ratio": ratio,
        "ratio_of_fastest": fastest, "ratios": ratios, "ours_seconds": [pair[0] for pair in pairs], "theirs_seconds": [pair[1] for pair in pairs],
        "requests": trace.requests, "note": note,
    }
    table.append(entry)
    rate = [trace.requests / statistics.median(column) / 1e6 for column in zip(*pairs)]
    met = "" if target is None else ("yes" if entry["met"] else "NO")
    print(f"{trace.name:<24}{what:<34}{rate[0]:>8.1f}{rate[1]:>8.1f}{ratio:>7.2f} ({min(ratios):.2f} to {max(ratios):.2f}){fastest:>9.2f}"
          f"  {target or '-':>4} {met:<4}{note}", flush=True)


class Wanted:
    """Which rows are measured, and how often: all of them, or those whose trace and text have one of these words."""

    def __init__(self, words, rounds):
        self.words, self.rounds = [word.strip().lower() for word in words], rounds

    def has(self, trace, what):
        return not self.words or any(word in f"{trace.name} {what}".lower() for word in self.words)


def fastest_hashpower(trace, algorithm, blocks):
    return min(HASHPOWERS, key=lambda power: peer(trace, algorithm, blocks, power)[0])


def beside(trace, algorithm, blocks, power, rounds, mine):
    """Pairs of our seconds and the peer's, in turn."""
    pairs = []
    for _ in range(rounds):
        theirs, _ = peer(trace, algorithm, blocks, power)
        pairs.append((mine()["seconds"], theirs))
    return pairs


def replays(ours, trace, table, wanted):
    """Every policy beside the peer's, and ETICA beside its LRU."""
    blocks = trace.distinct // 10
    targets = {"LRU": 2.0} | {name: 1.5 for name in POLICIES if name != "LRU"}
    rows = []
    for name, (algorithm, scheme, pairs) in POLICIES.items():
        for what, ops, target, note in [
            (f"replay {name}", "reads", targets.get(name), ""),
            (f"replay {name}, 30 % writes", "mixed", None, ", the peer knows no writes"),
        ]:
            rows.append((what, algorithm, (scheme, 0, blocks, pairs, ops), target, note))
    for what, ops, target, note in [
        ("ETICA full-hybrid / its LRU", "mixed", 1.0, ", with 30 % writes"),
        ("ETICA reads only / its LRU", "reads", None, ", what the peer's LRU does too"),
    ]:
        rows.append((what, libcachesim.LRU, ("etica", blocks // 4, blocks, ["mode=full-hybrid"], ops), target, note))
    powers = {}
    for what, algorithm, arguments, target, note in rows:
        if not wanted.has(trace, what):
            continue
        if algorithm not in powers:
            powers[algorithm] = fastest_hashpower(trace, algorithm, blocks)
        power = powers[algorithm]
        pairs = beside(trace, algorithm, blocks, power, wanted.rounds, lambda: ours.replay(trace, *arguments))
        row(table, trace, what, pairs, target, f"hashpower {power}{note}")


def curves(ours, trace, table, wanted):
    """All sizes at once, beside one size after the other; once unless rows are chosen, as it takes longest."""
    what = "exact TRD curve / 20 LRU sizes"
    if not wanted.has(trace, what):
        return
    sizes = [max(20, trace.distinct * step // 20) for step in range(1, 21)]
    runs = []
    for _ in range(wanted.rounds if wanted.words else 1):
        mine = ours.call("curve", trace.words)["seconds"]
        runs.append((mine, sum(peer(trace, libcachesim.LRU, size, HASHPOWERS[1])[0] for size in sizes)))
    row(table, trace, what, runs, 10.0, f"hashpower {HASHPOWERS[1]}")


def readers(ours, trace, table, wanted, folder):
    """Reading alone. The peer has no call that only reads: it reads a trace of one object into a cache that holds it."""
    what = "compact reader / oracleGeneral"
    if not wanted.has(trace, what):
        return
    one = numpy.fromfile(trace.oracle, dtype=ORACLE_GENERAL)
    one["id"] = 1
    path = folder / "one.oracleGeneral"
    one.tofile(path)
    ours.call("pack", trace.words, trace.packed)
    runs = []
    for _ in range(wanted.rounds):
        mine = ours.call("read", trace.packed)["seconds"]
        runs.append((mine, peer(trace, libcachesim.FIFO, 1000, 10, path)[0]))
    row(table, trace, what, runs, 3.0, "the peer's time includes one look-up that always hits")


def bench(ours, folder, quick, rows, rounds):
    wanted = Wanted(rows, rounds or (1 if quick else 3))
    scale = (1_000_000, 100_000) if quick else (20_000_000, 2_000_000)
    table = []
    print(f"{'trace':<24}{'what':<34}{'ours':>8}{'theirs':>8}  ratio (range)    fastest  target met; M requests/s")
    for trace in filter(None, [zipf(ours, folder, *scale), cloudphysics(folder)]):
        replays(ours, trace, table, wanted)
        curves(ours, trace, table, wanted)
        readers(ours, trace, table, wanted, folder)
    if not table:
        fail(f"no row has any of these words: {', '.join(rows)}; the rows are those of a run without --rows")
    # Single rows are no table to be quoted, and do not replace one.
    out = folder / ("peers-rows.json" if rows else "peers.json")
    out.write_text(json.dumps({"libcachesim": "0.3.5", "quick": quick, "rows": table}, indent=1) + "\n")
    print(f"written: {out}")


def rounds_of(text):
    number = int(text)
    if not 1 <= number <= MOST_ROUNDS:
        raise argparse.ArgumentTypeError(f"{number} is not from 1 to {MOST_ROUNDS}")
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["bench", "test"])
    parser.add_argument("--program", type=Path, required=True, help="lode-compare")
    parser.add_argument("--folder", type=Path, required=True, help="where traces and results go")
    parser.add_argument("--quick", action="store_true", help="small traces and one round; its ratios are not to be quoted")
    parser.add_argument("--rows", default="", metavar="WORD,...", help="only rows whose trace or text has one of these words")
    parser.add_argument("--rounds", type=rounds_of, metavar="N", help=f"rounds of each row, 1 to {MOST_ROUNDS}, instead of 3")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    ours = Ours(options.program)
    if options.what == "test":
        sys.exit(1 if test(ours, options.folder) else 0)
    rows = [word for word in options.rows.split(",") if word.strip()]
    bench(ours, options.folder, options.quick, rows, options.rounds)


if __name__ == "__main__":
    main()
