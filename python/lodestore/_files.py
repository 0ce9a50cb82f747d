"""Files that are written: each has its name only once it is complete, as those of the command line."""

from __future__ import annotations

import contextlib
import datetime
import os
from typing import Any, Iterator, Mapping, Tuple


@contextlib.contextmanager
def completed(path: str, ending: str = "") -> Iterator[str]:
    """A path beside `path`, with the same `ending`, to write to; what is there when the context ends gets the name `path`."""
    unfinished = f"{path[: len(path) - len(ending)]}.{os.getpid()}.part{ending}"
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        if os.path.exists(unfinished):
            os.remove(unfinished)


def write_text(path: Any, text: str) -> str:
    """Writes a whole file; its path."""
    name = os.fspath(path)
    with completed(name) as unfinished, open(unfinished, "w", encoding="utf-8") as file:
        file.write(text)
    return str(name)


def made(call: str, arguments: Mapping[str, Any]) -> Tuple[str, str]:
    """The day, in UTC, and the call with those of its arguments that say something, as they head a page.

    The day is that of SOURCE_DATE_EPOCH where that is set, so that the same work gives the same bytes.
    """
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    utc = datetime.timezone.utc
    when = datetime.datetime.fromtimestamp(int(fixed), utc) if fixed.isdigit() else datetime.datetime.now(utc)
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items() if value is not None)
    return when.date().isoformat(), f"{call}({given})"
