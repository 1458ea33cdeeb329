"""Versioned values as rows."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Executable
from sqlalchemy import text as sql

from stanchion.stores.records.values import ValueChange, VersionedValue
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.engine.schema import values


class ValueStatements:
    """The statements about versioned values, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        one = "kind = :of_kind AND name = :of_name"
        found = "SELECT name, text, version FROM stanchion_values WHERE kind = :of_kind"
        self.of_kind, self.named = sql(found), sql(f"{found} AND {dialect.among('name', 'names')}")
        self.one = sql(f"SELECT text, version FROM stanchion_values WHERE {one}")
        self.insert = dialect.insert_ignoring(
            values, {column.name: param(f"first_{column.name}", column.type) for column in values.columns}
        )
        self.update = sql(
            f"UPDATE stanchion_values SET text = :new_text, version = :seen + 1 WHERE {one} AND version = :seen"
        )
        self.delete = sql(f"DELETE FROM stanchion_values WHERE {one} AND version = :seen")


class Values:
    """Short texts by kind and name, changed by compare-and-set."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._statements = db.dialect.once(ValueStatements)

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        """Return the values of a kind, sorted by name; with `names`, only the existing ones of them."""
        return self._db.read(lambda run: self.read(run, kind, names))

    def read(self, run: Runner, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        """Return values as `values` does, within a transaction."""
        statement: Executable = self._statements.of_kind
        given: Params = {"of_kind": kind}
        if names is not None:
            if not (wanted := set(names)):
                return []
            statement, given = self._statements.named, {**given, "names": self._db.dialect.listed(wanted)}
        found = run.rows(statement, given)
        return sorted(VersionedValue(*row) for row in found)  # by code point, regardless of the database's collation

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write a value, or delete it (`text` None), if its version is the given one; 0: the value is absent.

        On a server each statement commits itself: a process that stops during the call keeps no row locked.
        """
        one = {"of_kind": kind, "of_name": name}

        def work(run: Runner, again: bool) -> bool:
            if text is None:
                if version and run.change(self._statements.delete, {**one, "seen": version}) == 1:
                    return True
                return not run.rows(self._statements.one, one)
            change = ValueChange(kind, name, text, version)
            return self.write(run, change) or (again and self.is_written(run, change))

        if self._db.dialect.single_writer:
            return self._db.write(work)
        return self._db.statement(work, alone=True)

    def write(self, run: Runner, change: ValueChange) -> bool:
        """Write a value by compare-and-set in this transaction; the row stays locked until its end."""
        kind, name, text, version = change
        if not version:
            first = {"first_kind": kind, "first_name": name, "first_version": 1, "first_text": text}
            return run.change(self._statements.insert, first) == 1
        given = {"of_kind": kind, "of_name": name, "seen": version, "new_text": text}
        return run.change(self._statements.update, given) == 1

    def take_back(self, run: Runner, change: ValueChange) -> None:
        """Delete the value that this transaction has written."""
        one = {"of_kind": change.kind, "of_name": change.name}
        run.change(self._statements.delete, {**one, "seen": change.version + 1})

    def is_written(self, run: Runner, change: ValueChange) -> bool:
        """Return whether a value is as the change left it: a repeat after a lost reply recognizes its own write."""
        found = run.rows(self._statements.one, {"of_kind": change.kind, "of_name": change.name})
        return list(found) == [(change.text, change.version + 1)]  # some drivers return a tuple of rows
