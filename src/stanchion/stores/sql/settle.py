"""Outcomes of reservations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from typing import Any

from sqlalchemy import Executable

from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Continue, Extension, Outcome, Progress
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules import outcomes as outcome_rules
from stanchion.stores.rules.claims import holds, left_in
from stanchion.stores.rules.jobs import Transition
from stanchion.stores.rules.limits import limits_in
from stanchion.stores.rules.outcomes import settled
from stanchion.stores.rules.slots import semaphore_gate
from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.engine.runner import Params, Row, Runner
from stanchion.stores.sql.jobs import Step, outline
from stanchion.stores.sql.push import push_all


class Settling(SqlBase):
    """Commits, gives back, moves, buries and cancels running jobs, in batches."""

    guards = False
    """The statements that commit refuse by themselves to work in another database than the store's."""

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        if not outcomes:
            return []
        jobs = [job for outcome in outcomes if type(outcome) is Commit for job in outcome.jobs]

        def work(run: Runner, again: bool) -> list[JobState | None]:
            return self.settle_in(run, outcomes, again=again or repeat)

        return self.transactions.enter(
            {job.queue for job in jobs}, tx, work, guarded=self.guards and all(map(is_plain, outcomes))
        )

    def extend(self, extensions: Sequence[Extension]) -> list[bool]:
        given = [{"job": one.id, "token": one.token, "lease_micros": int(one.seconds * SECOND)} for one in extensions]
        return self._change_each_held(self.statements.extend, given)

    def progress(self, reports: Sequence[Progress]) -> list[bool]:
        given = [{"job": one.id, "token": one.token, "share": one.value} for one in reports]
        return self._change_each_held(self.statements.progress, given)

    def _change_each_held(self, change: Executable, batch: Sequence[Params]) -> list[bool]:
        """Change jobs that are held, in one order for all who lock several; tell of each whether it was held."""
        in_order = sorted(range(len(batch)), key=lambda n: str(batch[n]["job"]))

        def work(run: Runner, _again: bool) -> list[bool]:
            held = {n: run.change(change, batch[n]) == 1 for n in in_order}
            return [held[n] for n in range(len(batch))]

        return self.database.write(work)

    def settle_in(self, run: Runner, outcomes: Sequence[Outcome], *, again: bool = False) -> list[JobState | None]:
        """Apply runs of plain commits by the short way, and all else row by row, in their order."""
        runs = [
            (plain, list(batch))
            for plain, batch in groupby(outcomes, key=lambda outcome: is_plain(outcome) and not again)
        ]
        if len(runs) > 1:  # the jobs of all of them are locked before what follows from the first
            run.rows(self.statements.held, {"ids": json.dumps(sorted(outcome.id for outcome in outcomes))})
        states: list[JobState | None] = []
        for plain, batch in runs:
            if plain:
                states += self.commit_in(run, [one for one in batch if isinstance(one, Commit)])
            else:
                states += self._apply(run, batch, again)
        return states

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> list[JobState | None]:
        """Commit without reading whole jobs: they go to history inside the database."""
        held, settings = self.held_with_settings(run, [commit.id for commit in commits])
        holders = {row[0]: row for row in held}
        done: list[tuple[Commit, Row]] = []
        states: list[JobState | None] = []
        for commit in commits:
            row = holders.get(commit.id)
            if row is None or row[-1] != commit.token:
                states.append(None)
                continue
            del holders[commit.id]
            done.append((commit, row))
            states.append(JobState.DONE)
        self.note_ended(run, ((row[0], row[1], settings[row[1]].max_running is not None) for _, row in done))
        kept = [commit for commit, row in done if settings[row[1]].history_ttl > 0]
        self.keep_done(run, kept)
        self.jobs.remove(run, [commit.id for commit, _ in done])
        self.jobs.tally(run, [(row[1], "committed") for _, row in done])
        self.follow_commits(run, done)
        return states

    def held_with_settings(self, run: Runner, ids: Sequence[str]) -> tuple[list[Row], dict[str, QueueSettings]]:
        """Return those of these jobs that are held, locked, and the settings of their queues."""
        held = run.rows(self.statements.held, {"ids": json.dumps(sorted(ids))})
        return held, self.queue_rows.settings_of(run, {row[1] for row in held})

    def note_ended(self, run: Runner, done: Iterable[tuple[str, str, bool]]) -> None:
        """Have it told that jobs have ended: id, queue, and whether that bounds what runs, so that a place is free."""
        for job, queue, bounded in done:
            run.ended.add(job)
            if bounded:
                run.woken.add(queue)

    def follow_commits(self, run: Runner, done: Sequence[tuple[Commit, Row]]) -> None:
        """Do what follows from commits; each comes with what its job held, as HELD_COLUMNS has it."""
        if not any(row[2] or row[4] for _, row in done):  # no order key, no flow
            held = (limits_in(row[3]).semaphores[: row[5]] for _, row in done)
            run.freed.update(map(semaphore_gate, chain.from_iterable(held)))
            return
        steps: list[Step] = []
        for commit, row in done:
            if any(row[2:5]):
                after = _DONE if commit.result is None else _DONE._replace(result=commit.result)
                steps.append(Step(outline(*row[:6]), after, "committed"))
        self.flows.follow(run, steps)

    def keep_done(self, run: Runner, commits: Sequence[Commit]) -> None:
        """Copy live jobs into history, as done."""
        run.change_each(
            self.statements.keep_done,
            [{"job": one.id, "result": one.result, "new_payload": one.payload} for one in commits],
        )

    def _apply(self, run: Runner, outcomes: Sequence[Outcome], again: bool) -> list[JobState | None]:
        rows = self.jobs.lock(run, [outcome.id for outcome in outcomes])
        now = self.clock(run)
        settings = self.queue_rows.settings_of(run, {row.queue for row in rows.values()})
        before: list[JobRow] = []
        after: list[Transition] = []
        states: list[JobState | None] = []
        continued: list[Continue] = []
        fanned_out: list[NewJob] = []
        for outcome in outcomes:
            row = rows.pop(outcome.id, None)
            if row is None or not holds(row, outcome.token, now):
                states.append(self._applied_before(run, row, outcome, now) if again else None)
                continue
            step = settled(row, outcome, settings[row.queue], now)
            before.append(row)
            after.append(step)
            states.append(step.state(now))
            if isinstance(outcome, Continue) and not step.final:
                continued.append(outcome)
            if isinstance(outcome, Commit) and step.row.state == JobState.DONE:
                fanned_out += outcome_rules.fanned_out(outcome)
            if not step.final and step.row.run_at <= now:
                run.woken.add(step.row.queue)
        self.flows.put(run, before, after)
        for one in continued:  # after it is stored: it may wait for a part of the flow that is done at once
            self.flows.open_in(run, one.nodes, one.jobs)
        push_all(self.pushes, run, fanned_out)
        run.woken.update(job.queue for job in fanned_out)
        return states

    def _applied_before(self, run: Runner, row: JobRow | None, outcome: Outcome, now: int) -> JobState | None:
        """Return the state that an earlier try, whose answer was lost, led to; None if there was none."""
        if row is None:
            row = self.jobs.finished(run, [outcome.id]).get(outcome.id)
        return left_in(row, outcome.token, now)


def is_plain(outcome: Outcome) -> bool:
    """Tell whether this is a commit that stores no jobs."""
    return type(outcome) is Commit and not outcome.jobs


_DONE = JobRow("", "", 0, JobState.DONE.value, 0, 0, 0, "", finished_at=0)
"""All that is to be known of a job that was committed, but for its result, for what follows."""
