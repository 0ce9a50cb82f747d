"""How far long work is: a line on standard error when that is a terminal, or whatever the caller wants to do with it."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Optional

_WIDTH = 30


class _Line:
    """Draws a bar; it vanishes when the work ends."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._start_s = time.monotonic()
        self._shown = False

    def __call__(self, done: int, total: Optional[int]) -> None:
        seconds = time.monotonic() - self._start_s
        if seconds < 0.5:
            return
        if total:
            share = min(1.0, done / total)
            filled = int(_WIDTH * share)
            text = f"{self._name} {'#' * filled}{'.' * (_WIDTH - filled)} {100 * share:.0f} %, {seconds:.0f} s"
        else:
            text = f"{self._name} {done}, {seconds:.0f} s"
        sys.stderr.write("\r" + text.ljust(70))
        sys.stderr.flush()
        self._shown = True

    def close(self) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * 70 + "\r")
            sys.stderr.flush()


class shown:
    """A context that gives what the compiled functions call while they work, or `None`.

    `progress` is `None` (a line where standard error is a terminal), true, false, or a function of what is done and what there
    is to do (`None` where that is not known).
    """

    def __init__(self, name: str, progress: Any) -> None:
        self._line: Optional[_Line] = None
        if callable(progress):
            self._call: Optional[Callable[..., Any]] = progress
            return
        wanted = sys.stderr.isatty() if progress is None else bool(progress)
        self._line = _Line(name) if wanted else None
        self._call = self._line

    def __enter__(self) -> Optional[Callable[..., Any]]:
        return self._call

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.close()
