"""Names derived from others, which may leave no room for additions."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from stanchion.core.checks import MAX_NAME

_KEPT: Final = 100
_DIGITS: Final = 32


def fitted(name: str, end: str = "") -> str:
    """Return a name and its end, which is short, as one that fits a store.

    Of a name that leaves no room: the first 100 characters, `#`, the first 32 hexadecimal digits of the SHA-256 of all
    of it, and the end.
    """
    if len(name) + len(end) > MAX_NAME:
        name = f"{name[:_KEPT]}#{sha256(name.encode()).hexdigest()[:_DIGITS]}"
    return f"{name}{end}"
