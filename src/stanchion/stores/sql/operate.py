"""Queues as rows; cancel, retry, replay, purge and upkeep."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from stanchion.stores.records.jobs import SECOND, JobRow, JobState, Redriven
from stanchion.stores.rules.expiry import remove_expired
from stanchion.stores.rules.outcomes import cancel, retried
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS, Budget, purge_each
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Row, Runner
from stanchion.stores.sql.expiring import ExpiringQueues
from stanchion.stores.sql.jobs import Step, is_id, outline
from stanchion.stores.sql.queues import Queues
from stanchion.stores.sql.workers import Workers

_TALLIES = 5000
_PURGED = 5000

_PURGE_ANEW_SECONDS = 600.0
"""So often a purge begins at the beginning: late commits and copied jobs may lie before the end of the last one."""


class Operating(ExpiringQueues):
    """What operators and maintenance do."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._workers = Workers(database)
        self._purged: dict[str, int] = {}
        """Up to when the history of queues was purged, in microseconds; forgotten at `_purge_anew_at`."""
        self._purge_anew_at = 0.0
        self._queues = Queues(database, self.queue_rows)

    # -- queues

    def drop_queue(self, queue: str) -> int:
        def work(run: Runner, _again: bool) -> int:
            given = {"queue": queue}
            live, tied = self.drop_live(run, queue)
            for drop in self.statements.drop:
                run.change(drop, given)
            self.flows.follow(run, [Step(outline(*row), None) for row in tied])
            return live

        return self.transactions.write(work)

    def drop_live(self, run: Runner, queue: str) -> tuple[int, list[Row]]:
        """Delete the live jobs of a queue, locked in the order of their ids; return how many, and what some held."""
        given = {"queue": queue}
        run.rows(self.statements.lock_all, given)
        tied = run.rows(self.statements.tied, given)
        return run.change(self.statements.drop_live, given), tied

    # -- jobs

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        def work(run: Runner, _again: bool) -> list[JobState | None]:
            rows, now = self.jobs.lock(run, _distinct(ids)), self.clock(run)
            steps = {row.id: step for row in rows.values() if (step := cancel(row, now)) is not None}
            self.flows.put(run, [rows[one] for one in steps], list(steps.values()))
            asked = [row.id for row in rows.values() if row.id not in steps]
            run.change_each(self.statements.ask_to_stop, [{"job": one} for one in asked])
            states = {one: JobState(step.row.state) for one, step in steps.items()}
            states |= dict.fromkeys(asked, JobState.RUNNING)
            finished = self.jobs.finished(run, _distinct(ids)).values()
            states |= {row.id: JobState(row.state) for row in finished}
            return [states.get(one) for one in ids]

        return self.transactions.write(work)

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        def work(run: Runner, _again: bool) -> list[Redriven]:
            now = self.clock(run)
            live = self.jobs.lock(run, _distinct(ids))
            finished = [row for row in self.jobs.finished(run, _distinct(ids)).values() if row.id not in live]
            verdicts = {row.id: self._redrive_live(run, row, now) for row in live.values()}
            for row in finished:
                verdicts[row.id] = self._redrive_finished(run, row, now)
            run.woken.update(row.queue for row in (*live.values(), *finished))
            return [verdicts.get(one, Redriven.MISSING) for one in ids]

        return self.transactions.write(work)

    def purge(self, queue: str, older_than: float | None = None, limit: int = 500) -> int:
        def work(run: Runner, _again: bool) -> int:
            age = None if older_than is None else int(older_than * SECOND)
            return run.change(self.statements.purge, {"queue": queue, "age_micros": age, "most": limit})

        return self.database.write(work)

    def _purge_on(self, queue: str) -> int:
        """Purge a portion of a queue, from where the last one ended."""
        statement = self.statements.purge_on
        if statement is None:
            return self.purge(queue, limit=_PURGED)
        given = {"queue": queue, "age_micros": None, "most": _PURGED, "after": self._purged.get(queue, 0)}
        ended = self.database.write(lambda run, _again: run.rows(statement, given))
        if ended:
            self._purged[queue] = max(row[0] for row in ended)
        return len(ended)

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        """Fold the tallies, forget dead workers with nothing, purge old history, remove queues that have expired."""

        def work(run: Runner, _again: bool) -> int:
            rows = run.rows(self.statements.some_tallies, {"most": _TALLIES})
            totals: Counter[tuple[str, str]] = Counter()
            for _, queue, what, count in rows:
                totals[queue, what] += count
            run.change_each(self.statements.remove_tally, [{"tally": row[0]} for row in rows])
            # A queue that was deleted while another process went on pushing to it has lost its row.
            self.queue_rows.insert(run, {queue for queue, _ in totals})
            for (queue, what), more in sorted(totals.items()):
                added = {"queue": queue, "what": what, "more": more}
                if run.change(self.statements.add_count, added) == 0 and (
                    run.change(self.statements.first_count, added) == 0
                ):
                    run.change(self.statements.add_count, added)  # another was the first, since we looked
            return len(rows)

        budget = Budget(seconds)
        while self.database.write(work) == _TALLIES and budget.left:
            pass
        self._workers.forget_dead()
        self.database.write(lambda run, _again: self.slots.forget_rates(run, self.clock(run)))
        self.flows.forget_old()
        names = [settings.name for settings in self._queues.queues()]
        if time.monotonic() >= self._purge_anew_at:
            self._purged, self._purge_anew_at = {}, time.monotonic() + _PURGE_ANEW_SECONDS
        behind = purge_each(self._purge_on, names, _PURGED, budget)
        remove_expired(self)
        return behind

    def _redrive_live(self, run: Runner, row: JobRow, now: int) -> Redriven:
        if row.state == JobState.RUNNING:
            return Redriven.RUNNING
        again = retried(row, now)
        if again is not row:
            self.jobs.rewrite(run, [again])
            self.flows.follow(run, [Step(row, again)])
            run.woken.add(again.queue)
        return Redriven.READY

    def _redrive_finished(self, run: Runner, row: JobRow, now: int) -> Redriven:
        if row.state == JobState.DONE:
            return Redriven.DONE
        if row.key and self.inserts.holder(run, row.queue, row.key):
            return Redriven.KEY_TAKEN
        self.jobs.forget(run, [row.id])
        self.jobs.insert_one(run, retried(row, now))
        return Redriven.READY


def _distinct(ids: Sequence[str]) -> list[str]:
    return [one for one in dict.fromkeys(ids) if is_id(one)]
