"""Inserts rows into tables, in the transaction that applies the outcomes of their jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sqlalchemy import Executable, bindparam, insert

from stanchion.errors import InvalidInput
from stanchion.stores.records.outcomes import ResultTable, TableRows
from stanchion.stores.sql.elements import AnyElement
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Fault
from stanchion.stores.sql.engine.failure_messages import reason_of
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.tables.made import MadeTable, MadeTables
from stanchion.stores.sql.tables.types import Convert, converter

Values = Sequence[tuple[object, ...]]
"""Rows, with the value of each column that is written."""


class WritesRows(Protocol):
    """Writes rows to tables."""

    def write(self, run: Runner, rows: Sequence[TableRows]) -> None:
        """Insert rows. Raises InvalidInput for one that its table refuses, StoreUnavailable for a missing table."""


class InsertsValues(Protocol):
    """Inserts rows into one table."""

    def __call__(self, run: Runner, values: Values) -> None:
        """Insert rows."""


class OneByOne:
    """Inserts rows by a statement that the driver repeats."""

    def __init__(self, made: MadeTable) -> None:
        self._names = [f"c{n}" for n in range(len(made.columns))]
        given: dict[str, AnyElement] = {
            one.name: bindparam(name) for name, (_, one) in zip(self._names, made.columns, strict=True)
        }
        self._insert: Executable = insert(made.table).values(given)
        found = {name: converter(one.kind) for name, (_, one) in zip(self._names, made.columns, strict=True)}
        self._converters: Mapping[str, Convert] = {name: one for name, one in found.items() if one is not None}

    def __call__(self, run: Runner, values: Values) -> None:
        given: list[Params] = []
        for row in values:
            params = dict(zip(self._names, row, strict=True))
            for name, convert in self._converters.items():
                if (value := params[name]) is not None:
                    params[name] = convert(value)
            given.append(params)
        run.change_each(self._insert, given)


class TableWrites:
    """Inserts rows into tables of the database."""

    def __init__(self, db: Database, tables: MadeTables) -> None:
        self._db, self._tables = db, tables
        self._inserts: dict[int, tuple[MadeTable, InsertsValues]] = {}

    def write(self, run: Runner, rows: Sequence[TableRows]) -> None:
        of_tables: dict[ResultTable, list[tuple[object, ...]]] = {}
        for table, some in rows:
            of_tables.setdefault(table, []).extend(some)
        for table, values in of_tables.items():
            made = self._tables.of(table)
            places = [place for place, _ in made.columns]
            if len(places) < len(table.columns):
                values = [tuple(row[place] for place in places) for row in values]
            try:
                self._insert_into(made)(run, values)
            except self._db.dialect.errors as error:
                self._raise(table, error)

    def _insert_into(self, made: MadeTable) -> InsertsValues:
        known = self._inserts.get(id(made))
        if known is None:
            known = self._inserts[id(made)] = made, self._inserts_into(made)
        return known[1]

    def _inserts_into(self, made: MadeTable) -> InsertsValues:
        return OneByOne(made)

    def _raise(self, table: ResultTable, error: BaseException) -> None:
        """Raise the error of an insert as what it means for the outcome."""
        dialect, reason = self._db.dialect, reason_of(error, self._db.url)
        if dialect.is_strange(error):
            raise self._tables.missing(table, reason) from error
        if dialect.fault(error) in (Fault.LOST, Fault.BUSY):
            raise error
        raise InvalidInput(f"table {table.name} refuses a row: {reason}") from error
