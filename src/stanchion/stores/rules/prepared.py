"""Plain jobs as Arrow columns, in portions, and joined as bytes without processing single jobs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from stanchion.stores.records.prepared import PlainColumns, Prepared

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES = 1 << 20
"""Number of bytes from which columns are cut in half."""


def prepared_by(
    rows: Callable[[PlainColumns], bytes], columns: PlainColumns, jobs_max: int | None = None
) -> list[Prepared]:
    """Return jobs in the form that `rows` makes, in portions of about a megabyte, and of at most `jobs_max`."""
    return [
        Prepared(some.queue, len(some.ids), some.ids[0].as_py(), rows(some)) for some in _portions(columns, jobs_max)
    ]


def _portions(columns: PlainColumns, jobs_max: int | None) -> Iterator[PlainColumns]:
    jobs = len(columns.ids)
    fits = columns.payloads.nbytes + 100 * jobs <= _BYTES and (jobs_max is None or jobs <= jobs_max)
    if jobs < 2 or fits:
        yield columns
        return
    half = jobs // 2
    yield from _portions(columns.slice(0, half), jobs_max)
    yield from _portions(columns.slice(half, jobs - half), jobs_max)


def joined(parts: Sequence[pa.Array | bytes]) -> pa.Array:
    """Return the parts of each row, one after the other, as bytes: columns of bytes or texts, and constants.

    A row with a null in it is null.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.binary()
    given = (pa.scalar(part, kind) if isinstance(part, bytes) else part.cast(kind) for part in parts)
    return pc.binary_join_element_wise(*given, pa.scalar(b"", kind))


def sizes_of(texts: pa.Array, more: int = 0, *, big_endian: bool = False) -> pa.Array:
    """Return the number of bytes of each text, and so many more, as a whole number of four bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def number(value: int) -> pa.Scalar:
        return pa.scalar(value, pa.uint32())

    sizes = pc.add(pc.binary_length(texts).cast(pa.uint32()), number(more))
    if not big_endian:
        return in_memory(sizes)
    turned = [
        pc.shift_left(pc.bit_wise_and(pc.shift_right(sizes, number(8 * n)), number(255)), number(24 - 8 * n))
        for n in range(4)
    ]
    return in_memory(reduce(pc.bit_wise_or, turned))


def in_memory(numbers: pa.Array) -> pa.Array:
    """Return numbers as the bytes that they are in memory; the lowest is the first."""
    import pyarrow as pa

    return numbers.view(pa.binary(numbers.type.bit_width // 8)).cast(pa.binary())


def data_of(texts: pa.Array) -> bytes:
    """Return the bytes of texts, one after the other."""
    _, offsets, data = texts.buffers()
    kind = "<q" if str(texts.type).startswith("large_") else "<i"
    size = struct.calcsize(kind)
    first, last = (struct.unpack_from(kind, offsets, size * n)[0] for n in (texts.offset, texts.offset + len(texts)))
    return bytes(memoryview(data)[first:last])
