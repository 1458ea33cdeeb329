"""Chunks as the payload of a job: sealed where the app has keys, and plain JSON where only one item is left."""

from __future__ import annotations

from stanchion.core.chunks.chunk import Chunk
from stanchion.core.values.codec import Codec
from stanchion.core.values.framing import Content, InMemory


def stored(codec: Codec, chunk: Chunk, what: str = "payload") -> Content:
    """Return the content to store for a chunk; one of a single item is stored as that item."""
    return codec.encode_json(chunk.text(0), what) if len(chunk) == 1 else codec.sealed_chunk(chunk.encoded())


class _Held(InMemory):
    """The content of a chunk in memory, with the chunk itself."""

    chunk: Chunk


def passing(codec: Codec, chunk: Chunk) -> Content:
    """Return the content of a chunk that may go on in memory: it is encoded later, unless it is already."""
    if chunk.held is not None:
        return chunk.held
    if len(chunk) == 1 or chunk.is_encoded:
        return stored(codec, chunk)
    made = _Held(len(chunk), lambda: codec.sealed_chunk(chunk.encoded()))
    made.chunk = chunk
    return made


def opened(codec: Codec, content: bytes) -> Chunk:
    """Return the chunk of a stored content."""
    if isinstance(content, _Held):
        return content.chunk.reopened(content)
    return Chunk.decoded(codec.opened_chunk(content))
