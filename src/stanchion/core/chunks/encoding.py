"""The content of a chunk as bytes: a stream of Arrow, compressed by zstd unless it is small.

The metadata of its schema has `form`, `columns` or `json`; `root`, the id of the pushed chunk, absent while the job
is the one that was pushed; `positions`, present if the last column has the positions of the items in that chunk.
"""

from __future__ import annotations

from stanchion.core.chunks.arrow import pa
from stanchion.core.chunks.content import Content, Form
from stanchion.core.values.codec import NotJson

_FORM, _ROOT, _POSITIONS = b"form", b"root", b"positions"
SMALL = 16 << 10
"""Bytes of the columns up to which they are not compressed: each buffer would cost 10 µs and more, both ways."""

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_AS_IT_IS = pa.ipc.IpcWriteOptions(use_threads=False)
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
# Compression by several threads takes more processor time in all, and workers have threads of their own.


class NotAChunk(NotJson):
    """Stored bytes are not a chunk."""

    def __init__(self, reason: object) -> None:
        super().__init__(f"the stored bytes are not a chunk, so another program has written them: {reason}")


def encode(content: Content) -> bytes:
    """Return the bytes of a content."""
    form, table, root, positions = content
    metadata = {_FORM: form.value}
    if root is not None:
        metadata[_ROOT] = root
    if positions is not None:
        metadata[_POSITIONS] = "1"
        table = table.append_column("position", positions)
    table = table.replace_schema_metadata(metadata).combine_chunks()  # each piece would be compressed by itself
    sink = pa.BufferOutputStream()
    options = _AS_IT_IS if table.nbytes <= SMALL else _COMPRESSED
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def decode(body: bytes | memoryview, items: int) -> Content:
    """Return the content in the bytes of a chunk of so many items. Raises NotAChunk for other bytes."""
    try:
        table = pa.ipc.open_stream(pa.py_buffer(body), options=_READ_OPTIONS).read_all()
        metadata = table.schema.metadata or {}
        form = Form(metadata[_FORM].decode())
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise NotAChunk(error) from None
    if table.num_rows != items:
        raise NotAChunk(f"they have {table.num_rows:,} items, and {items:,} were announced")
    root = metadata.get(_ROOT)
    positions = None
    if _POSITIONS in metadata:
        last = table.num_columns - 1
        positions = table.column(last).combine_chunks()
        table = table.remove_column(last)
    return Content(form, table.replace_schema_metadata(None), None if root is None else root.decode(), positions)
