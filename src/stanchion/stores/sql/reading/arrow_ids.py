"""Converts UUIDs in Arrow to text, whole columns at a time: cheaper than a conversion of each on the server."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_LENGTH = 36
_GROUPS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
"""The first and last digit of each group; one hyphen per preceding group comes before it."""

_PAIRS = np.frombuffer(bytes(range(256)).hex().encode(), np.uint16)


def with_text_ids(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with text in place of UUIDs, whose type depends on the driver's version."""
    columns = [
        texts_of(column.storage.cast(pa.binary(16))) if isinstance(column.type, pa.BaseExtensionType) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def texts_of(uuids: pa.Array) -> pa.Array:
    """Return UUIDs of sixteen bytes in the text form of RFC 9562, section 4."""
    count, start = len(uuids), uuids.offset
    octets = np.frombuffer(uuids.buffers()[1], np.uint8).reshape(-1, 16)[start : start + count]
    letters = np.full((count, _LENGTH), ord("-"), np.uint8)
    digits = np.take(_PAIRS, octets).view(np.uint8)
    for hyphens, (first, end) in enumerate(_GROUPS):
        letters[:, first + hyphens : end + hyphens] = digits[:, first:end]
    ends = np.arange(0, _LENGTH * (count + 1), _LENGTH, dtype=np.int32)
    texts = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(letters)])
    return texts if uuids.null_count == 0 else pc.if_else(uuids.is_valid(), texts, pa.scalar(None, pa.string()))
