"""Packages that are only needed for some things, and the message where one is missing."""

from __future__ import annotations

import importlib
from types import ModuleType

_EXTRAS = {
    "pyarrow": "arrow",
    "polars": "polars",
    "pandas": "pandas",
    "duckdb": "duckdb",
    "matplotlib": "plot",
    "pyspark": "spark",
}


def needed(module: str, what: str) -> ModuleType:
    """The module; else an ImportError that names the extra to install."""
    package = module.split(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(message(package, what)) from error


def message(package: str, what: str) -> str:
    extra = _EXTRAS[package]
    return f"{what} needs {package}, which is not installed: pip install 'lodestore[{extra}]'"
