"""The bytes around the content of a chunk. Stores import this: it needs no Arrow.

A stored chunk is bytes, any other payload text: 4 bytes with the number of items, big-endian, then the body. The body
is what `content` encodes, or that encrypted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from itertools import count
from typing import Final, NamedTuple, Self

Content = str | bytes
"""A payload or a result as stored: text, or the bytes of a chunk."""

_HEADER = 4
"""Bytes before the body."""

_NUMBERS = count()
"""Numbers of contents in memory."""

MAX_ITEMS = 2**31 - 1
"""Maximum number of items of a chunk: positions are signed integers of 32 bits."""


def items_in(content: Content | None) -> int | None:
    """Return the number of items of a stored payload; None for the payload of a single item, which is text."""
    return int.from_bytes(content[:_HEADER]) if isinstance(content, bytes) else None


def chunk_with(items: int, body: bytes) -> bytes:
    """Return the chunk of this body, which has so many items."""
    return items.to_bytes(_HEADER) + body


def body_of(chunk: bytes) -> memoryview:
    """Return the body of a chunk, without copying it."""
    return memoryview(chunk)[_HEADER:]


class InMemory(bytes):
    """The content of a chunk on its way from station to station in memory: encoded when a store needs it.

    As bytes it has the number of items and a number of its own, so that it equals no other content.
    """

    encode: Callable[[], bytes]

    def __new__(cls, items: int, encode: Callable[[], bytes]) -> Self:
        """Stand for a chunk. `items`: how many it has; `encode`: returns the bytes to store."""
        made = super().__new__(cls, chunk_with(items, next(_NUMBERS).to_bytes(8)))
        made.encode = encode
        return made

    @cached_property
    def encoded(self) -> bytes:
        """The bytes to store."""
        return self.encode()

    def __reduce__(self) -> tuple[type[bytes], tuple[bytes]]:
        """Pickle the bytes to store."""
        return bytes, (self.encoded,)


def encoded(content: Content) -> Content:
    """Return a content as it is stored."""
    return content.encoded if isinstance(content, InMemory) else content


MARK: Final = "~"
"""Begins a chunk as text. No JSON and no encrypted text begins like this."""


class _Base64(NamedTuple):
    encoded: Callable[[bytes], str]
    decoded: Callable[[str], bytes]


@cache
def _base64() -> _Base64:
    """Return the faster of two codecs: PyBase64 takes a twentieth of the time, and comes with the extra `chunks`."""
    try:
        import pybase64
    except ImportError:
        from binascii import a2b_base64, b2a_base64

        return _Base64(
            lambda content: b2a_base64(content, newline=False).decode(), lambda text: a2b_base64(text, strict_mode=True)
        )
    return _Base64(pybase64.b64encode_as_string, lambda text: pybase64.b64decode(text, validate=True))


def as_text(content: Content) -> str:
    """Return a content for a store that keeps texts only."""
    return MARK + _base64().encoded(content) if isinstance(content, bytes) else content


def as_content(stored: str) -> Content:
    """Return the content that was stored as text; a text that is no chunk is the content itself."""
    if stored[:1] != MARK:
        return stored
    try:
        return _base64().decoded(stored[1:])
    except ValueError:  # another program has written it
        return stored
