"""Outcomes of reservations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from stanchion.stores.records import SECOND, Commit, Extension, JobRow, JobState, Outcome, Progress
from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.connection import Runner
from stanchion.stores.sql.joining import join
from stanchion.stores.transitions import Transition, holds, left_in, settled


class Settling(SqlBase):
    """Commits, gives back, moves, buries and cancels running jobs, in batches."""

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        if not outcomes:
            return []
        woken: set[str] = set()
        if tx is not None:
            states = self.settle_in(join(self.database, tx), outcomes, woken)
            if woken:
                self.dialect.announce_in(tx, woken)
            return states
        states = self.database.write(lambda run, again: self.settle_in(run, outcomes, woken, again=again or repeat))
        if woken:
            self.dialect.announce(woken)
        return states

    def extend(self, extensions: Sequence[Extension]) -> list[bool]:
        def work(run: Runner, _again: bool) -> list[bool]:
            return [
                run.change(
                    self.statements.extend,
                    {"job": one.id, "token": one.token, "lease_micros": int(one.seconds * SECOND)},
                )
                == 1
                for one in extensions
            ]

        return self.database.write(work)

    def progress(self, reports: Sequence[Progress]) -> list[bool]:
        def work(run: Runner, _again: bool) -> list[bool]:
            return [
                run.change(self.statements.progress, {"job": one.id, "token": one.token, "share": one.value}) == 1
                for one in reports
            ]

        return self.database.write(work)

    def settle_in(
        self, run: Runner, outcomes: Sequence[Outcome], woken: set[str], *, again: bool = False
    ) -> list[JobState | None]:
        """Apply runs of plain commits by the short way, and all else row by row, in their order."""
        states: list[JobState | None] = []
        for plain, group in groupby(outcomes, key=lambda outcome: type(outcome) is Commit and not again):
            batch = list(group)
            if plain:
                states += self.commit_in(run, [one for one in batch if isinstance(one, Commit)])
            else:
                states += self._apply(run, batch, woken, again)
        return states

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> list[JobState | None]:
        """Commit without reading whole jobs: they go to history inside the database."""
        held = run.rows(self.statements.held, {"ids": json.dumps(sorted(commit.id for commit in commits))})
        holders = {job: (queue, token) for job, queue, token in held}
        settings = self.settings_in(run, {queue for queue, _ in holders.values()})
        done: list[tuple[Commit, str]] = []
        states: list[JobState | None] = []
        for commit in commits:
            queue, token = holders.pop(commit.id, ("", None))
            if token != commit.token:
                states.append(None)
                continue
            done.append((commit, queue))
            states.append(JobState.DONE)
        kept = [commit for commit, queue in done if settings[queue].history_ttl > 0]
        self.keep_done(run, kept)
        self.remove(run, [commit.id for commit, _ in done])
        self.tally(run, [(queue, "committed") for _, queue in done])
        return states

    def keep_done(self, run: Runner, commits: Sequence[Commit]) -> None:
        """Copy live jobs into history, as done."""
        run.change_each(
            self.statements.keep_done,
            [{"job": one.id, "result": one.result, "new_payload": one.payload} for one in commits],
        )

    def _apply(self, run: Runner, outcomes: Sequence[Outcome], woken: set[str], again: bool) -> list[JobState | None]:
        rows = self.live(run, [outcome.id for outcome in outcomes])
        now = int(run.rows(self.statements.now)[0][0])
        settings = self.settings_in(run, {row.queue for row in rows.values()})
        before: list[JobRow] = []
        after: list[Transition] = []
        states: list[JobState | None] = []
        for outcome in outcomes:
            row = rows.pop(outcome.id, None)
            if row is None or not holds(row, outcome.token, now):
                states.append(self._applied_before(run, row, outcome, now) if again else None)
                continue
            step = settled(row, outcome, settings[row.queue], now)
            before.append(row)
            after.append(step)
            states.append(step.state(now))
            if not step.final and step.row.run_at <= now:
                woken.add(step.row.queue)
        self.store(run, before, after)
        return states

    def _applied_before(self, run: Runner, row: JobRow | None, outcome: Outcome, now: int) -> JobState | None:
        """Return the state that an earlier try, whose answer was lost, led to; None if there was none."""
        if row is None:
            found = run.rows(self.statements.finished, {"ids": json.dumps([outcome.id])})
            row = JobRow(*found[0]) if found else None
        return left_in(row, outcome.token, now)
