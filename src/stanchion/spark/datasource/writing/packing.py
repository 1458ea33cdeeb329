"""Collect rows until there are enough for a job. Rows of one job agree in the columns with options of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

HELD_BYTES = 64 << 20
"""Bytes of rows that a task holds back; beyond it, the largest group is passed on although it is not full."""

Key = tuple[object, ...]


@dataclass
class _Group:
    """Rows that wait for others of the same job."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size += batch.nbytes


class Packer:
    """Groups rows by their values in the columns `by`, at most `rows` of them together."""

    def __init__(self, by: Sequence[str], rows: int) -> None:
        self._by, self._rows = by, rows
        self._groups: dict[Key, _Group] = {}

    def full(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows; yield the groups that are full now."""
        for key, some in _runs(batch, self._by):
            group = self._groups.setdefault(key, _Group())
            group.add(some)
            if group.rows >= self._rows:
                yield from self._cut(key)
        while sum(group.size for group in self._groups.values()) > HELD_BYTES:
            yield _together(self._groups.pop(max(self._groups, key=lambda key: self._groups[key].size)).batches)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the groups that are left."""
        for group in self._groups.values():
            yield _together(group.batches)
        self._groups = {}

    def _cut(self, key: Key) -> Iterator[pa.RecordBatch]:
        group = self._groups.pop(key)
        whole, left = _together(group.batches), group.rows % self._rows
        for start in range(0, group.rows - left, self._rows):
            yield whole.slice(start, self._rows)
        if left:
            self._groups[key] = _Group()
            self._groups[key].add(whole.slice(group.rows - left))


def packed(batches: Iterable[pa.RecordBatch], by: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield all rows in such groups."""
    packer = Packer(by, rows)
    for batch in batches:
        yield from packer.full(batch)
    yield from packer.rest()


def _together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _runs(batch: pa.RecordBatch, by: Sequence[str]) -> Iterator[tuple[Key, pa.RecordBatch]]:
    """Yield the rows that agree in these columns, with their values there; they keep their order."""
    if not by:
        yield (), batch
        return
    codes = _codes([batch.column(name) for name in by])
    order = pc.sort_indices(codes)  # it is stable
    ends = pc.run_end_encode(codes.take(order)).run_ends.to_pylist()
    ordered = batch if len(ends) == 1 else batch.take(order)
    for start, end in pairwise([0, *ends]):
        some = ordered.slice(start, end - start)
        yield tuple(some.column(name)[0].as_py() for name in by), some


def _codes(columns: Sequence[pa.Array]) -> pa.Array:
    """Return a number for each row: the same for rows that agree in all columns."""
    codes: pa.Array | None = None
    for column in columns:
        found = column.dictionary_encode(null_encoding="encode")
        own = found.indices.cast(pa.int64())
        if codes is not None:  # of both; at most the square of the number of rows
            own = pc.add(pc.multiply(codes, len(found.dictionary)), own).dictionary_encode().indices.cast(pa.int64())
        codes = own
    return codes
