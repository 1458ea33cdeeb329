"""PostgreSQL's form of prepared jobs: the lines of a COPY into the table of jobs.

The text format of COPY: https://www.postgresql.org/docs/current/sql-copy.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stanchion.stores.records.jobs import QUEUED, UNLANED, NewJob
from stanchion.stores.records.prepared import PlainColumns, Prepared
from stanchion.stores.rules.prepared import data_of
from stanchion.stores.sql.engine.runner import CursorRunner
from stanchion.stores.sql.engine.schema import Qualified

if TYPE_CHECKING:
    import pyarrow as pa

_SOURCES = {
    "priority": "priority",
    "rank": "priority",
    "tenant": "tenant",
    "max_attempts": "max_attempts",
    "timeout": "timeout",
    "headers": "headers",
}
"""Columns of jobs, and the fields that they are made from."""

_COPY = f"COPY stanchion_jobs (id, queue, lane, state, run_at, enqueued_at, {', '.join(_SOURCES)}, payload) FROM STDIN"

_NULL = r"\N"
_ESCAPES = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}
"""Characters that would end a field or a line or begin an escape, and their escapes; the backslash first."""

_TIMES = "\t\\T\t\\T\t"
"""Stands for the times of a job, which are known when it is stored. No field has an escape like this."""


class CopyForm:
    """Prepared jobs as lines of a COPY."""

    def __init__(self, qualified: Qualified) -> None:
        self._copy = qualified(_COPY)

    def rows(self, columns: PlainColumns) -> bytes:
        """Return the lines of these jobs."""
        import pyarrow.compute as pc

        parts: list[object] = [columns.ids, f"\t{_field(columns.queue)}\t{UNLANED}\t{QUEUED}{_TIMES}"]
        for name in _SOURCES.values():
            parts += [_texts(columns, name), "\t"]
        parts += [_escaped(columns.payloads), "\n"]
        return data_of(pc.binary_join_element_wise(*_joined(parts), ""))

    @contextmanager
    def reading(self, run: CursorRunner) -> Iterator[None]:
        """Read jobs in this form within the block: as bytes, not as hexadecimal digits."""
        from psycopg.pq import Format

        from stanchion.stores.postgres.connections.sessions import cursor_of

        cursor = cursor_of(run)
        cursor.format = Format.BINARY
        try:
            yield
        finally:
            cursor.format = Format.TEXT

    def insert(self, run: CursorRunner, prepared: Sequence[Prepared], moment: int) -> None:
        """Store jobs, due and enqueued at this moment."""
        from stanchion.stores.postgres.connections.sessions import cursor_of

        times = f"\t{moment}\t{moment}\t".encode()
        with cursor_of(run).copy(self._copy) as copy:
            for one in prepared:
                copy.write(one.rows.replace(_TIMES.encode(), times))


def _field(value: object) -> str:
    """Return a value as a field of a line."""
    if value is None:
        return _NULL
    text = str(value)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def _texts(columns: PlainColumns, name: str) -> pa.Array | str:
    """Return a field of the jobs."""
    import pyarrow as pa

    column = columns.varying.get(name)
    if column is None:
        return _field(columns.fixed.get(name, NewJob._field_defaults[name]))
    return _escaped(column.cast(pa.string())).fill_null(_NULL)


def _escaped(texts: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    for character, escape in _ESCAPES.items():
        if pc.any(pc.match_substring(texts, character)).as_py():
            texts = pc.replace_substring(texts, character, escape)
    return texts


def _joined(parts: list[object]) -> list[object]:
    """Return the parts, with neighbouring constants made one."""
    made: list[object] = []
    for part in parts:
        if made and isinstance(part, str) and isinstance(made[-1], str):
            made[-1] += part
        else:
            made.append(part)
    return made
