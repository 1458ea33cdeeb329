"""Notes as rows."""

from __future__ import annotations

from sqlalchemy import BigInteger, String, and_, delete, select, update

from stanchion.stores.records import Note
from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.connection import Runner
from stanchion.stores.sql.database import Database
from stanchion.stores.sql.schema import notes
from stanchion.stores.sql.statements import param

_ONE = and_(notes.c.kind == param("note_kind", String), notes.c.name == param("note_name", String))
_AS_SEEN = and_(_ONE, notes.c.version == param("seen", BigInteger))
_OF_KIND = select(notes.c.name, notes.c.text, notes.c.version).where(notes.c.kind == param("note_kind", String))
_FOUND = select(notes.c.text, notes.c.version).where(_ONE)
_CHANGE = (
    update(notes)
    .where(_AS_SEEN)
    .values(text=param("new_text", notes.c.text.type), version=param("new_version", BigInteger))
)
_DELETE = delete(notes).where(_AS_SEEN)


class Noting(SqlBase):
    """Small texts under a name, changed by compare-and-set."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._first_note = self.dialect.insert_ignoring(
            notes, {column.name: param(f"first_{column.name}", column.type) for column in notes.columns}
        )

    def notes(self, kind: str) -> list[Note]:
        found = self.database.read(lambda run: run.rows(_OF_KIND, {"note_kind": kind}))
        return sorted(Note(*row) for row in found)  # by its characters, whatever the collation of the database

    def set_note(self, kind: str, name: str, text: str | None, version: int) -> bool:
        one = {"note_kind": kind, "note_name": name}

        def work(run: Runner, again: bool) -> bool:
            if text is None:
                if version:
                    run.change(_DELETE, {**one, "seen": version})
                return not run.rows(_FOUND, one)
            if version:
                changed = run.change(_CHANGE, {**one, "seen": version, "new_text": text, "new_version": version + 1})
            else:
                first = {"first_kind": kind, "first_name": name, "first_version": 1, "first_text": text}
                changed = run.change(self._first_note, first)
            # A repeat after a lost answer: what stands there as it was to be written was written by the first try.
            return changed == 1 or (again and run.rows(_FOUND, one) == [(text, version + 1)])

        return self.database.write(work)
