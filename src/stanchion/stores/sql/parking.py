"""Long runs of jobs that have to wait for the same: a claim looks past them, and parks them many at a time.

A claim asks for each of the first jobs that it meets, and parks those that must wait. After a hundred of them it looks
for jobs that need none of the gates where these wait: so it finds at once what may run, however many stand before it.
The next claim of the process first parks some that were passed, for half as long as it took to look past them, as far
as they are like one that it has parked: with the same limits, or of the same order key. So does each claim behind it,
until all of them wait. A claim that finds nothing which may run parks as many as its time allows.

Jobs that a rate defers are looked past likewise, but for those that return: they were promised a time. The others keep
their places, are deferred by later claims, from the front, and so in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.limits import limits_in
from stanchion.stores.rules.slots import gates_of, order_of, semaphore_of
from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.engine.runner import Params, Row, Runner
from stanchion.stores.sql.semaphores import quoted
from stanchion.stores.sql.statements import SHUT

AT_ONCE = 1000
"""So many jobs a claim asks for in one transaction at most."""

RUN = 2000
"""So many jobs alike one transaction parks."""

_PICKED_AT_GATES = 100
"""So many jobs are looked at together, at least, once one had to be parked: few of them may be allowed to run."""

_SECONDS = 2.0
"""So long one claim goes on looking past jobs that have to wait at gates; at most half of its lease."""

_KEYS = 100
_NO_PATTERN, _NO_KEY = "", "-" * 201
"""What no limits of a job and no order key are."""


class Alike(NamedTuple):
    """Jobs of a queue that wait at the same gate: its order key, or, without one, that of their first semaphore."""

    priority: int
    gate: str
    limits: str | None


@dataclass(slots=True)
class Search:
    """What a claim takes along from one of its transactions to the next."""

    picks: int = 0
    """So many jobs are looked at together, at least."""
    at: int | None = None
    """When the first one asked at gates: all that one claim parks wait since then, and so in the order of their ids."""
    seconds: float = _SECONDS
    """How long the claim may go on."""
    looked: float = 0.0
    """So many seconds it took to look past those who have to wait."""
    shut: dict[str, None] = field(default_factory=dict)
    """Gates at which some had to wait."""
    asking: dict[str, Row] = field(default_factory=dict)
    """Jobs that were read as they were locked, with the columns of `GateStatements.asking`."""
    runs: dict[Alike, None] = field(default_factory=dict)
    """What those were like."""
    spent: dict[str, None] = field(default_factory=dict)
    """Rates that had no start left for some."""
    deferring: bool = False
    """Whether jobs of such rates are deferred now, and not looked past; the same all through a transaction."""

    def parked(self, rows: Sequence[tuple[JobRow, JobRow]]) -> None:
        """Remember jobs that had to wait, as they were and as they are."""
        self.picks = min(AT_ONCE, max(_PICKED_AT_GATES, 2 * self.picks))
        for before, after in rows:
            gate = after.waits_for
            if gate is None and (rate := limits_in(before.limits).rate) is not None:
                self.spent[rate.name] = None
            if gate is None or before.held:
                continue
            self.shut[gate] = None
            if gate == gates_of(before)[0] and limits_in(before.limits).rate is None:
                self.runs[Alike(before.priority, gate, before.limits if semaphore_of(gate) else None)] = None

    @property
    def passed_rates(self) -> list[str]:
        """The rates whose jobs are looked past, but for those that return at the time which they were promised."""
        return [] if self.deferring or self.picks <= _PICKED_AT_GATES else list(self.spent)

    @property
    def past(self) -> Params | None:
        """The parameters to look past those who need a gate that is shut; None as long as there were few."""
        if self.picks <= _PICKED_AT_GATES:
            return None
        names = [name for gate in self.shut if (name := semaphore_of(gate)) is not None]
        keys = [order_of(gate)[1] for gate in self.shut if semaphore_of(gate) is None]
        rates = [f'%"rate":[{quoted(name)},%' for name in self.passed_rates]
        if not (names or keys or rates):
            return None
        patterns = [f"%{quoted(name)}%" for name in names[:SHUT]] + rates + [_NO_PATTERN] * SHUT
        return {
            **{f"shut{n}": patterns[n] for n in range(SHUT)},
            "keys": [_NO_KEY, *sorted(keys)[:_KEYS]],
        }


class Parking(SqlBase):
    """Parks whole runs of jobs."""

    def due_alike(self, run: Runner, queue: str, alike: Alike) -> list[str]:
        """Return the ids of the next due jobs that are like one that was parked, locked."""
        given = {"queue": queue, "at_priority": alike.priority, "most": RUN}
        if alike.limits is not None:
            found = run.rows(self.statements.pick_limits, {**given, "alike": alike.limits})
        else:
            found = run.rows(self.statements.pick_key, {**given, "alike": order_of(alike.gate)[1]})
        return [str(row[0]) for row in found]

    def park_run(self, run: Runner, claim: Claim, search: Search, alike: Alike) -> bool:
        """Park a part of a run, if its gate is still shut; tell whether there may be more to park."""
        ids = self.due_alike(run, claim.queue, alike)
        if not ids:
            return False
        (gate,) = self.slots.lock(run, [alike.gate])[0].values()
        if semaphore_of(gate.name) is None:
            first = self.slots.firsts(run, [gate.name]).get(gate.name)
            waiting = [one for one in ids if one != first]
        else:
            waiting = ids if gate.free < 1 else []
        if waiting:
            given = {
                "priority": alike.priority,
                "held": 0,
                "permit": claim.token,
                "waits_for": gate.name,
                "waits_since": search.at,
                "ids": self.dialect.listed(waiting),
            }
            run.send(self._gates.park, given)
            self.slots.mark(run, [gate.name], waited=True)
        return len(ids) == RUN and bool(waiting)
