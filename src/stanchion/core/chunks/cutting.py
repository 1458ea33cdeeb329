"""Cuts items and tables into chunks that can be stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from stanchion.core.checks import whole
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.frame_types import is_table
from stanchion.core.values.codec import too_large
from stanchion.core.values.plain import ToPlain, plain_model
from stanchion.errors import InvalidInput


def cut(
    given: object, size: int, max_bytes: int, what: str = "payload", to_plain: ToPlain = plain_model
) -> Iterator[Chunk]:
    """Return the items of an iterable, or the rows of a table, in chunks of at most `size` items and `max_bytes`.

    A chunk of one is to be stored as its item: `Chunk.text`. Input is read, and checked, as the chunks are asked for.
    Raises InvalidInput for an item that JSON can't hold, or that takes more than `max_bytes` by itself.
    """
    return fitting_each(of_size(given, size, what, to_plain), max_bytes, what)


def fitting(chunk: Chunk, max_bytes: int) -> Iterator[Chunk]:
    """Yield the chunk; if it takes more than `max_bytes`, its halves in the same way, down to single items.

    Items keep their names if the chunk has a root; else halves are numbered anew, as jobs of their own.
    """
    if len(chunk) <= 1 or chunk.fits(max_bytes):
        yield chunk
        return
    half = len(chunk) // 2
    for part in (chunk[:half], chunk[half:]):
        yield from fitting(part if part.root is not None else part.named(None), max_bytes)


def fitting_each(chunks: Iterable[Chunk], max_bytes: int, what: str) -> Iterator[Chunk]:
    """Yield chunks as `fitting` does. Raises InvalidInput for an item that takes more than `max_bytes` by itself."""
    for chunk in chunks:
        if (found := chunk.content().longest(max_bytes)) > max_bytes:
            raise too_large(found, max_bytes, what)
        yield from fitting(chunk, max_bytes)


def of_size(given: object, size: int, what: str, to_plain: ToPlain) -> Iterator[Chunk]:
    """Return the items of an iterable, or the rows of a table, in chunks of at most `size` items, as `cut` does."""
    whole(size, "size")
    if is_table(given):
        return Chunk.of_rows(given, size)
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        raise InvalidInput(f"a {type(given).__name__} has no items for a chunk; pass an iterable of items, or a table")
    return _of_items(iter(given), size, what, to_plain)


def _of_items(items: Iterator[object], size: int, what: str, to_plain: ToPlain) -> Iterator[Chunk]:
    while some := list(islice(items, size)):
        yield Chunk.of(some, what, to_plain)
