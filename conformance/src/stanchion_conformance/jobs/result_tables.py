"""Outcomes with rows: a store that has tables writes both in one step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stanchion import JobState
from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.ports import ResultTables
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import (
    Commit,
    Outcome,
    Pass,
    Passage,
    ResultTable,
    Rollback,
    TableColumn,
    TableRows,
)
from stanchion_conformance.harness import QUEUE, StoreClock, claim, counts_of, new_job, row_of, state

KINDS: dict[str, tuple[str, list[Any]]] = {
    "flag": ("boolean", [True, False, None]),
    "tiny": ("tinyint", [-128, 0, 127]),
    "small": ("smallint", [-(2**15), 0, None]),
    "normal": ("int", [2**31 - 1, 0, None]),
    "big": ("bigint", [2**63 - 1, -(2**63), None]),
    "ratio": ("double", [0.1, -1.5e300, 3]),
    "amount": ("decimal(38,18)", ["12345678901234567890.123456789012345678", "0", 12.5]),
    "told": ("string", ["a 'text' \\ with \"quotes\" %s :name \n größe 🛫", "", None]),
    "day": ("date", ["2031-05-01", "0001-01-01", None]),
    "at": ("timestamp", ["2031-05-01T08:00:00.123456+02:00", "1999-12-31T23:59:59Z", None]),
    "local": ("timestamp_ntz", ["2031-05-01T08:00:00", "1999-12-31T23:59:59.5", None]),
    "tags": ("array<string>", [["a", "b"], [], None]),
    "inner": ("struct<a:bigint>", [{"a": 2**60}, {"a": None}, None]),
    "odd name: %s": ("string", ["x", "y", "z"]),
}
"""A column of each kind, with a value for each of three rows."""


def table(**kinds: str) -> ResultTable:
    """Return a table of its own name with these columns, and those of the item."""
    columns = (TableColumn(name, kind) for name, kind in kinds.items())
    item = TableColumn("job_id", "id", False, optional=True), TableColumn("item", "bigint", optional=True)
    return ResultTable(f"results_{new_id()[-12:]}", (*item, *columns))


def reserved(store: Store, **fields: Any) -> JobRow:
    """Return a reserved job."""
    store.push([new_job(**fields)])
    (row,) = claim(store)
    return row


class TestResultTables:
    """Rows are in their tables exactly if the outcome of their job was applied."""

    @pytest.fixture(autouse=True)
    def tables(self, store: Store) -> ResultTables:
        """The tables of the store; the class is left out where it has none."""
        found = store.extension(ResultTables)
        assert found is not None, "it writes no rows to tables: del TestResultTables, TestRefusedRows"
        return found

    @staticmethod
    def rows(tables: ResultTables, of: ResultTable) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table."""
        for some in tables.table_rows(of):
            yield from some

    def test_a_commit_writes_its_rows(self, store: Store, tables: ResultTables) -> None:
        days = table(day="string", flights="bigint")
        tables.make_table(days)
        tables.make_table(days)
        row = reserved(store)
        rows = ((row.id, 0, "monday", 2), (row.id, 1, "friday", None))
        assert store.settle([Commit(row.lease, rows=(TableRows(days, rows),))]) == [JobState.DONE]
        assert sorted((str(job), *rest) for job, *rest in self.rows(tables, days)) == sorted(rows)
        assert state(store, row.id) is JobState.DONE
        counts = counts_of(store, QUEUE)
        assert (counts.moved, counts.committed, counts.reserved) == (1, 0, 1)

    def test_many_outcomes_at_once(self, store: Store, tables: ResultTables) -> None:
        first, second = table(n="bigint"), table(n="bigint")
        for one in (first, second):
            tables.make_table(one)
        store.push([new_job() for _ in range(30)])
        rows = claim(store, limit=30)
        ends: list[Outcome] = []
        for n, row in enumerate(rows):
            to = TableRows(first if n % 2 else second, ((row.id, 0, n),))
            ends.append(Commit(row.lease, rows=(to,)) if n % 3 else Commit(row.lease, '"plain"'))
        ends[0] = Rollback(rows[0].lease, 0.0, "E: no")
        states = store.settle(ends)
        assert states == [JobState.READY, *[JobState.DONE] * 29]
        found = sorted(n for one in (first, second) for _, _, n in self.rows(tables, one))
        assert found == [n for n in range(30) if n % 3]

    def test_a_lost_lease_writes_nothing(self, store: Store, clock: StoreClock, tables: ResultTables) -> None:
        days = table(n="bigint")
        tables.make_table(days)
        store.push([new_job(), new_job()])
        late = claim(store, limit=2, lease=10)
        clock.advance(11)
        store.recover()
        (mine,) = claim(store)
        ends = [Commit(one.lease, rows=(TableRows(days, ((one.id, 0, 1),)),)) for one in (*late, mine)]
        assert store.settle(ends) == [None, None, JobState.DONE]
        assert [str(job) for job, _, _ in self.rows(tables, days)] == [mine.id]

    def test_a_repeat_writes_nothing_more(self, store: Store, tables: ResultTables) -> None:
        days = table(n="bigint")
        tables.make_table(days)
        row = reserved(store)
        end = Commit(row.lease, rows=(TableRows(days, ((row.id, 0, 1),)),))
        assert store.settle([end]) == [JobState.DONE]
        assert store.settle([end]) == [None]
        assert store.settle([end], repeat=True) == [JobState.DONE]
        assert len([*self.rows(tables, days)]) == 1

    @pytest.mark.parametrize("way", [(), (Passage("second"),)])
    def test_with_jobs_and_at_the_end_of_a_way(
        self, store: Store, tables: ResultTables, way: tuple[Passage, ...]
    ) -> None:
        days = table(n="bigint")
        tables.make_table(days)
        row, child = reserved(store), new_job(queue="parts")
        commit = Commit(row.lease, jobs=(child,), rows=(TableRows(days, ((row.id, 0, 1),)),))
        assert store.settle([Pass(row.lease, way, commit) if way else commit]) == [JobState.DONE]
        ended_in = way[0].queue if way else QUEUE
        assert row_of(store, row.id).queue == ended_in
        assert state(store, child.id) is JobState.READY
        assert [n for _, _, n in self.rows(tables, days)] == [1]
        assert counts_of(store, ended_in).moved == 1

    def test_a_job_that_was_asked_to_stop_writes_nothing(self, store: Store, tables: ResultTables) -> None:
        days = table(n="bigint")
        tables.make_table(days)
        row = reserved(store)
        store.cancel([row.id])
        end = Commit(row.lease, rows=(TableRows(days, ((row.id, 0, 1),)),))
        assert store.settle([end]) == [JobState.CANCELLED]
        assert [*self.rows(tables, days)] == []

    def test_values_of_each_kind_are_kept(self, store: Store, tables: ResultTables) -> None:
        wide = table(**{name: kind for name, (kind, _) in KINDS.items()})
        tables.make_table(wide)
        row = reserved(store)
        rows = tuple((row.id, n, *(values[n] for _, values in KINDS.values())) for n in range(3))
        assert store.settle([Commit(row.lease, rows=(TableRows(wide, rows),))]) == [JobState.DONE]
        found = sorted(self.rows(tables, wide), key=lambda one: int(one[1]))
        assert [one[1] for one in found] == [0, 1, 2]
        for n, one in enumerate(found):
            got = dict(zip(KINDS, one[2:], strict=True))
            given = {name: values[n] for name, (_, values) in KINDS.items()}
            for name in ("tiny", "small", "normal", "big", "ratio", "told", "odd name: %s"):
                assert got[name] == given[name], name
            assert (None if got["flag"] is None else bool(got["flag"])) is given["flag"]
            assert (got["tags"] is None) is (given["tags"] is None)

    def test_another_table_of_the_name_is_refused(self, tables: ResultTables) -> None:
        days = table(n="bigint")
        tables.make_table(days)
        with pytest.raises(InvalidInput, match=f"table {days.name} does not fit the results"):
            tables.make_table(days._replace(columns=(*days.columns, TableColumn("more", "string"))))


class TestRefusedRows:
    """Of a database with rules of its own."""

    @pytest.fixture(autouse=True)
    def tables(self, store: Store) -> ResultTables:
        """The tables of the store; the class is left out where it has none, or none that refuse rows."""
        found = store.extension(ResultTables)
        assert found is not None, "it writes no rows to tables: del TestResultTables, TestRefusedRows"
        return found

    def test_a_row_that_its_table_refuses(self, store: Store, tables: ResultTables) -> None:
        days = table(n="bigint")
        strict = days._replace(columns=(*days.columns[:-1], TableColumn("n", "bigint", False)))
        tables.make_table(strict)
        store.push([new_job(), new_job()])
        first, second = claim(store, limit=2)
        bad = Commit(first.lease, rows=(TableRows(strict, ((first.id, 0, None),)),))
        good = Commit(second.lease, rows=(TableRows(strict, ((second.id, 0, 1),)),))
        with pytest.raises(InvalidInput, match=f"table {days.name} refuses a row"):
            store.settle([good, bad])
        assert state(store, first.id) is state(store, second.id) is JobState.RUNNING
        assert store.settle([good]) == [JobState.DONE]
        assert [n for _, _, n in TestResultTables.rows(tables, strict)] == [1]

    def test_a_table_that_is_missing(self, store: Store, tables: ResultTables) -> None:
        row, gone = reserved(store), table(n="bigint")
        end = Commit(row.lease, rows=(TableRows(gone, ((row.id, 0, 1),)),))
        with pytest.raises(StoreUnavailable, match=f"table {gone.name} is missing"):
            store.settle([end])
        assert row_of(store, row.id).state == JobState.RUNNING
        tables.make_table(gone)
        assert store.settle([end]) == [JobState.DONE]


class TestNoTables:
    """A store without tables refuses rows, rather than lose them."""

    def test_rows_are_refused(self, store: Store) -> None:
        assert store.extension(ResultTables) is None, "it writes rows to tables: del TestNoTables"
        row = reserved(store)
        rows = (TableRows(table(n="bigint"), ((row.id, 0, 1),)),)
        with pytest.raises(Exception, match=r"tables|database"):
            store.settle([Commit(row.lease, rows=rows)])
        assert row_of(store, row.id).state == JobState.RUNNING
