"""Inserts into tables for results by one statement for all rows, where the database reads sets of JSON records."""

from __future__ import annotations

import json

from sqlalchemy import JSON, Executable, Numeric, String, Text, bindparam, column, func, insert, select

from stanchion.stores.sql.elements import AnyType
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.tables.made import MadeTable
from stanchion.stores.sql.tables.write import InsertsValues, TableWrites, Values


class AtOnce:
    """Inserts rows by one statement, which gets them as JSON: so the server converts each value to its column."""

    def __init__(self, made: MadeTable) -> None:
        self._names = [f"c{n}" for n in range(len(made.columns))]
        columns = [made.table.c[one.name] for _, one in made.columns]
        given = func.json_to_recordset(bindparam("rows", type_=JSON)).table_valued(
            *(column(name, _read_as(one.type)) for name, one in zip(self._names, columns, strict=True))
        )
        typed = given.render_derived(name="given", with_types=True)
        self._insert: Executable = insert(made.table).from_select([one.name for one in columns], select(typed))

    def __call__(self, run: Runner, values: Values) -> None:
        rows = [dict(zip(self._names, row, strict=True)) for row in values]
        run.change(self._insert, {"rows": json.dumps(rows, ensure_ascii=False)})


class RecordsetWrites(TableWrites):
    """Inserts rows into tables of the database."""

    def _inserts_into(self, made: MadeTable) -> InsertsValues:
        return AtOnce(made)


def _read_as(kind: AnyType) -> AnyType:
    """Return the type as which a value is read: the insert refuses a longer one, which a cast would cut."""
    if isinstance(kind, String):
        return Text()
    return Numeric() if isinstance(kind, Numeric) else kind
