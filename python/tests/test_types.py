"""The package's types hold, stubs of the compiled half included."""

import os
from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")


def test_types(monkeypatch):
    # Modules are found by the package's name, from the folder that has it.
    monkeypatch.chdir(Path(__file__).resolve().parents[1])
    told, complaints, code = api.run(["--config-file", "pyproject.toml", "--cache-dir", os.devnull])
    assert code == 0, told + complaints
