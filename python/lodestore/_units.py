"""Sizes, as the command line reads and writes them."""

from __future__ import annotations

from typing import Optional, Union, overload

from . import _lodestore

Size = Union[int, str]


def size_bytes(size: Size) -> int:
    """Bytes of a size: a number of bytes, or text such as `'64MiB'` (powers of 1024).

    >>> size_bytes("64KiB"), size_bytes(4096)
    (65536, 4096)
    """
    text = size_text(size)
    return int(_lodestore.size_bytes(text))


@overload
def size_text(size: Size) -> str: ...
@overload
def size_text(size: None) -> None: ...
@overload
def size_text(size: Optional[Size]) -> Optional[str]: ...
def size_text(size: Optional[Size]) -> Optional[str]:
    """A size for the compiled functions, which read text as the command line does."""
    if size is None or isinstance(size, str):
        return size
    number = size.__index__() if hasattr(size, "__index__") and not isinstance(size, bool) else None
    if number is None:
        raise TypeError(f"A size is a whole number of bytes or text such as '64MiB', and this is {size!r}")
    if number < 0:
        raise ValueError(f"A size is {number}; it is from 0 on")
    return str(number)


def show_size(size: int) -> str:
    """Bytes in words.

    >>> show_size(3 << 29)
    '1.50 GiB'
    """
    return str(_lodestore.show_size(size))
