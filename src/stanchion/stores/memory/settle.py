"""Outcomes of reservations, each fenced by its lease, and the tables that results are written to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stanchion.errors import InvalidInput
from stanchion.stores.memory.flows import Flows
from stanchion.stores.memory.jobs import Jobs
from stanchion.stores.memory.push import Pushes
from stanchion.stores.records.flows import OpenFlow
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.outcomes import Continue, Extend, Outcome, Progress, Renewal, ResultTable, TableRows
from stanchion.stores.rules.lifecycle import claims as claim_rules
from stanchion.stores.rules.lifecycle import outcomes as outcome_rules


class Outcomes:
    """Ends or renews reservations."""

    def __init__(self, jobs: Jobs, pushes: Pushes, flows: Flows, tables: Tables) -> None:
        self._jobs, self._pushes, self._flows, self._tables = jobs, pushes, flows, tables

    def settle(self, outcomes: Sequence[Outcome], *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes; return the resulting state of each, None if its lease was lost."""
        now = self._jobs.now()
        return [self._settle(outcome, now, repeat) for outcome in outcomes]

    def _settle(self, outcome: Outcome, now: int, repeat: bool) -> JobState | None:
        row = self._jobs.held_row(outcome.lease, now)
        if isinstance(outcome, Extend | Progress):
            return None if row is None else self._renew(row, outcome, now)
        if row is None:
            return claim_rules.left_in(self._jobs.find(outcome.lease.id), outcome.lease, now) if repeat else None
        step = outcome_rules.settled(row, outcome, self._jobs.settings(outcome_rules.ends_in(outcome)), now)
        if isinstance(outcome, Continue):
            self._pushes.refuse_duplicates(outcome.jobs)
        done = step.row.state == JobState.DONE
        self._flows.apply(row, step, outcome_rules.fanned_out(outcome) if done else ())
        if isinstance(outcome, Continue) and not step.final:  # the node it waits for may be done already
            self._flows.open(OpenFlow(outcome.nodes, outcome.jobs))
        if done:
            self._tables.add(outcome_rules.rows_with(outcome))
        return step.state(now)

    def _renew(self, row: JobRow, renewal: Renewal, now: int) -> JobState:
        self._jobs.put(claim_rules.renewed(row, renewal, now))
        return JobState.RUNNING


class Tables:
    """The tables of a store, by name."""

    def __init__(self) -> None:
        self._made: dict[str, ResultTable] = {}
        self._rows: dict[str, list[tuple[object, ...]]] = {}

    def make_table(self, table: ResultTable) -> None:
        """Make a table; see `ports.ResultTables`."""
        if self._made.setdefault(table.name, table) != table:
            raise InvalidInput(f"table {table.name} does not fit the results: another station has made it otherwise")

    def add(self, rows: Iterable[TableRows]) -> None:
        """Add rows to tables."""
        for table, some in rows:
            self._rows.setdefault(table.name, []).extend(some)

    def table_rows(self, table: ResultTable) -> Iterator[list[tuple[object, ...]]]:
        """Yield the rows of a table; see `ports.ResultTables`."""
        return iter([list(self._rows.get(table.name, ()))])
