"""The content of a chunk as bytes: a stream of Arrow, compressed by zstd.

The metadata of its schema has `form`, `columns` or `json`; `root`, the id of the pushed chunk, absent while the job
is the one that was pushed; `positions`, present if the last column has the positions of the items in that chunk.
"""

from __future__ import annotations

from stanchion.core.chunks.arrow import pa
from stanchion.core.chunks.content import Content, Form
from stanchion.core.values.codec import NotJson

_FORM, _ROOT, _POSITIONS = b"form", b"root", b"positions"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
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
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as stream:
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
