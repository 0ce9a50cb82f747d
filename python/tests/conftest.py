"""The command line beside which the package is tested, and the traces of testdata/."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "testdata" / "traces"


def _lode():
    named = os.environ.get("LODE_BIN")
    candidates = [Path(named)] if named else [ROOT / "target" / kind / "lode" for kind in ("debug", "release")]
    there = [path for path in candidates if path.exists()]
    if not there:
        pytest.exit(f"No lode among {', '.join(map(str, candidates))}: build it with cargo build -p lode-cli, or set LODE_BIN", 2)
    return max(there, key=lambda path: path.stat().st_mtime)


@pytest.fixture(scope="session")
def lode():
    """Runs the command line and gives its JSON."""
    program = _lode()

    def run(*words):
        done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if "--json" in words else done.stdout

    return run


def _refuse_skip(report):
    """Where LODE_NO_SKIPS is set, as in continuous integration, what is skipped has failed."""
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("LODE_NO_SKIPS"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"LODE_NO_SKIPS is set, and this is skipped: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    _refuse_skip(report)
    return report


def trace_path(name):
    return TRACES / f"{name}.lode.zst"


def public_traces():
    """More of them, where LODE_TRACES names a folder."""
    folder = os.environ.get("LODE_TRACES")
    return sorted(path for path in Path(folder).rglob("*.lode*") if path.is_file())[:4] if folder else []


SMALL = [trace_path("msr-hm_0-sample1k"), trace_path("umass-financial1-first10k")]
ALL = SMALL + [trace_path("cloudphysics-2h"), trace_path("hplajw-1week"), trace_path("arc-oltp")] + public_traces()


@pytest.fixture(params=ALL, ids=lambda path: path.name)
def any_trace(request):
    return request.param


def _is_sorted(path):
    if path.parent == TRACES:
        return True
    told = subprocess.run([_lode(), "trace", "info", path, "--json"], capture_output=True, text=True, check=True)
    return json.loads(told.stdout)["input"]["backwards"] == 0


@pytest.fixture(params=[path for path in ALL if _is_sorted(path)], ids=lambda path: path.name)
def sorted_trace(request):
    return request.param


@pytest.fixture(params=SMALL, ids=lambda path: path.name)
def small_trace(request):
    return request.param
