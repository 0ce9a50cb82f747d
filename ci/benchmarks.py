"""What the benchmarks of `ci/` have in common: servers, how long their processors ran, commands that have to succeed,
and lines of results."""
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

MIB = 1 << 20
READY_LIMIT_S = 30
STOP_LIMIT_S = 30


def uri(socket, export=""):
    return f"nbd+unix:///{export}?socket={quote(str(socket))}"


def run(*command):
    """A command that has to succeed; its output only when it does not."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def fio(address, runtime_s, depth, size_mib, direction="read", rate=None):
    """Requests a second, and the 99th percentile of latency in microseconds."""
    output = run(
        "fio", f"--name={direction}", "--ioengine=nbd", f"--uri={address}", f"--rw=rand{direction}", "--bs=4k",
        f"--iodepth={depth}", f"--size={size_mib}M", "--norandommap", "--time_based", f"--runtime={runtime_s}",
        "--randrepeat=0", "--output-format=json", *([f"--rate_iops={rate}"] if rate else []))
    # The nbd engine writes a line of its own before the report.
    job = json.loads(output[output.index("{\n"):])["jobs"][0]
    if job["error"]:
        sys.exit(f"fio: error {job['error']} at {address}")
    return job[direction]["iops"], job[direction]["clat_ns"]["percentile"]["99.000000"] / 1000


class Servers:
    """The servers of this run; they are stopped by their process ids, however the run ends."""

    def __init__(self, logs):
        self.logs = logs
        self.running = []

    def start(self, name, *command):
        log = self.logs / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.running.append((process, log))
        return process, log

    def wait_ready(self, server, address):
        """Until a client can connect."""
        process, log = server
        limit = time.monotonic() + READY_LIMIT_S
        while subprocess.run(["nbdinfo", "--size", address], capture_output=True).returncode != 0:
            if process.poll() is not None or time.monotonic() > limit:
                state = "does not answer" if process.poll() is None else f"ended with status {process.poll()}"
                sys.exit(f"{process.args[0]} {state} at {address}:\n{log.read_text(errors='replace')}")
            time.sleep(0.05)

    def stop(self):
        for process, _ in self.running:
            process.terminate()
        for process, _ in self.running:
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def processor_us(process):
    """Time that a process has run, with those of its threads that have ended."""
    user, system = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) * 1e6 / os.sysconf("SC_CLK_TCK")


def say(what, value, limit, is_met):
    print(f"{what:<66} {value:>22}   {limit:<12} {'met' if is_met else 'missed'}", flush=True)


def most(what, value, text, limit, limit_text):
    say(what, text, f"<= {limit_text}", value <= limit)


def spread(ratios):
    ratios = sorted(ratios)
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
