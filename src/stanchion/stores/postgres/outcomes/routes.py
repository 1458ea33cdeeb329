"""PostgreSQL's route for each outcome: plain ones by one statement for all of a kind, all others in a transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeVar

from stanchion.stores.postgres.outcomes.commits import PostgresCommits
from stanchion.stores.postgres.outcomes.divisions import PostgresDivisions, is_plain_division
from stanchion.stores.postgres.outcomes.moves import PostgresMoves
from stanchion.stores.postgres.outcomes.passes import PostgresPasses
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit, Move, Outcome, Pass, Ties
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.jobs.moves import is_plain_move, is_plain_pass
from stanchion.stores.sql.jobs.settle import Outcomes, is_plain, plain_commits
from stanchion.stores.sql.rows.transactions import Transactions

T = TypeVar("T", bound=Outcome)

_TIES, _LEASE = attrgetter("ties"), attrgetter("lease")  # called by built-ins, without a frame per job


class PostgresOutcomes:
    """Applies outcomes, each by the shortest route that fits."""

    def __init__(
        self,
        db: Database,
        transactions: Transactions,
        commits: PostgresCommits,
        moves: PostgresMoves,
        passes: PostgresPasses,
        divisions: PostgresDivisions,
        general: Outcomes,
    ) -> None:
        self._db, self._transactions, self._general = db, transactions, general
        self._commits, self._moves, self._passes, self._divisions = commits, moves, passes, divisions
        self.settle_in = general.settle_in

    def settle(self, outcomes: Sequence[Outcome], tx: object = None, *, repeat: bool = False) -> list[JobState | None]:
        commits = plain_commits(outcomes)
        if tx is not None or repeat:
            return self._general.settle(outcomes, tx, repeat=repeat, guarded=commits is not None)
        if commits is not None:
            return self._commit(commits)
        return self._settle_by_kind(outcomes)

    def _settle_by_kind(self, outcomes: Sequence[Outcome]) -> list[JobState | None]:
        """Settle moves, passes, divisions, commits and all others apart, if each is of another job."""
        moves = {n: one for n, one in enumerate(outcomes) if type(one) is Move and is_plain_move(one)}
        passes = {n: one for n, one in enumerate(outcomes) if type(one) is Pass and is_plain_pass(one)}
        divisions = {n: one for n, one in enumerate(outcomes) if is_plain_division(one)}
        if not (moves or passes or divisions) or len(set(map(_LEASE, outcomes))) < len(outcomes):
            return self._general.settle(outcomes)
        commits = {n: one for n, one in enumerate(outcomes) if type(one) is Commit and is_plain(one)}
        plain = {*moves, *passes, *divisions, *commits}
        rest = [n for n in range(len(outcomes)) if n not in plain]
        settled: dict[int, JobState | None] = {}
        if moves:
            settled |= zip(moves, self._move(list(moves.values())), strict=True)
        if passes:
            settled |= zip(passes, self._pass(list(passes.values())), strict=True)
        if divisions:
            settled |= zip(divisions, self._divide(list(divisions.values())), strict=True)
        if commits:
            settled |= zip(commits, self._commit(list(commits.values())), strict=True)
        if rest:
            settled |= zip(rest, self._general.settle([outcomes[n] for n in rest]), strict=True)
        return [settled[n] for n in range(len(outcomes))]

    def _commit(self, commits: Sequence[Commit]) -> list[JobState | None]:
        if Ties.OTHERS in map(_TIES, commits):
            return self._general.settle(commits, guarded=True)
        return self._at_once(commits, self._commits.commit_untied)

    def _move(self, moves: Sequence[Move]) -> list[JobState | None]:
        self._moves.prepare(moves)
        return self._at_once(moves, self._moves.move_untied)

    def _pass(self, passes: Sequence[Pass]) -> list[JobState | None]:
        self._passes.prepare(passes)
        return self._at_once(passes, self._passes.commit_untied)

    def _divide(self, ends: Sequence[Outcome]) -> list[JobState | None]:
        self._divisions.prepare(ends)
        return self._at_once(ends, self._divisions.divide_untied)

    def _at_once(
        self, outcomes: Sequence[T], apply: Callable[[Runner, Sequence[T]], list[JobState | None]]
    ) -> list[JobState | None]:
        """Settle by one statement, and what that leaves by the general route."""
        runs: list[Runner] = []

        def work(run: Runner, again: bool) -> list[JobState | None]:
            runs[:] = [run]
            if not again:
                return apply(run, outcomes)
            states = self._general.settle_in(run, outcomes, again=True)
            self._transactions.pass_on(run)
            return states

        states = self._db.statement(work, calls.seconds_for(len(outcomes)))
        self._transactions.wake(runs[0])
        if None not in states:
            return states
        left = [outcome for outcome, state in zip(outcomes, states, strict=True) if state is None]
        others = iter(self._general.settle(left))
        return [next(others) if state is None else state for state in states]
