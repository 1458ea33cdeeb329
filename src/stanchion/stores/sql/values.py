"""Versioned values as rows: small texts under a name, changed by compare-and-set."""

from __future__ import annotations

from sqlalchemy import BigInteger, Executable, String, and_, delete, select, update

from stanchion.stores.records.values import Note, NoteChange
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import notes

_ONE = and_(notes.c.kind == param("note_kind", String), notes.c.name == param("note_name", String))
_AS_READ = and_(_ONE, notes.c.version == param("seen", BigInteger))
_OF_KIND = select(notes.c.name, notes.c.text, notes.c.version).where(notes.c.kind == param("note_kind", String))
_FOUND = select(notes.c.text, notes.c.version).where(_ONE)
_CHANGE = (
    update(notes)
    .where(_AS_READ)
    .values(text=param("new_text", notes.c.text.type), version=param("new_version", BigInteger))
)
_DELETE = delete(notes).where(_AS_READ)


def _insert(dialect: Dialect) -> Executable:
    return dialect.insert_ignoring(
        notes, {column.name: param(f"first_{column.name}", column.type) for column in notes.columns}
    )


class Values:
    """Reads and writes versioned values."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._insert = db.dialect.once(_insert)

    def notes(self, kind: str) -> list[Note]:
        found = self._db.read(lambda run: run.rows(_OF_KIND, {"note_kind": kind}))
        return sorted(Note(*row) for row in found)  # by its characters, whatever the collation of the database

    def set_note(self, kind: str, name: str, text: str | None, version: int) -> bool:
        one = {"note_kind": kind, "note_name": name}

        def work(run: Runner, again: bool) -> bool:
            if text is None:
                if version:
                    run.change(_DELETE, {**one, "seen": version})
                return not run.rows(_FOUND, one)
            change = NoteChange(kind, name, text, version)
            return self.write(run, change) or (again and self.is_written(run, change))

        return self._db.write(work)

    def write(self, run: Runner, change: NoteChange) -> bool:
        """Write a value if its version is still the given one; its row is locked then."""
        kind, name, text, version = change
        if not version:
            first = {"first_kind": kind, "first_name": name, "first_version": 1, "first_text": text}
            return run.change(self._insert, first) == 1
        given = {"note_kind": kind, "note_name": name, "seen": version, "new_text": text, "new_version": version + 1}
        return run.change(_CHANGE, given) == 1

    def is_written(self, run: Runner, change: NoteChange) -> bool:
        """Tell whether a value is as it was to be written: so a repeat after a lost answer knows its own work."""
        found = run.rows(_FOUND, {"note_kind": change.kind, "note_name": change.name})
        return list(found) == [(change.text, change.version + 1)]  # some drivers give a tuple of rows
