"""Operations on jobs: cancel and retry."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import BigInteger, Executable, Integer, literal_column, select, update

from stanchion.stores.records.jobs import JobRow, JobState, Redriven
from stanchion.stores.rules.expiry import is_overdue
from stanchion.stores.rules.lifecycle.jobs import stored_state_of
from stanchion.stores.rules.lifecycle.outcomes import cancel, lapsed, redriven
from stanchion.stores.sql.engine.columns import RUNS, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import OVERDUE_AT, jobs
from stanchion.stores.sql.jobs.flows import Flows
from stanchion.stores.sql.jobs.push import InsertsRows
from stanchion.stores.sql.rows.jobs import Jobs, Step, is_id
from stanchion.stores.sql.rows.transactions import Transactions


def _overdue(dialect: Dialect) -> Executable:
    """Return the query for the ids of jobs that have expired."""
    ends = jobs.c.overdue_at if dialect.stores_computed else OVERDUE_AT
    late = jobs.c.expires.is_not(None), ends <= param("now", BigInteger)
    waits = jobs.c.state != literal_column(f"'{JobState.RUNNING.value}'")
    return select(jobs.c.id).where(*late, waits).limit(param("most", Integer))


_ASK_TO_STOP = update(jobs).where(jobs.c.id == param("job", jobs.c.id.type), RUNS).values(cancel_requested=True)


class Operations:
    """Cancels jobs, and makes finished jobs ready again."""

    def __init__(
        self, db: Database, transactions: Transactions, jobs: Jobs, flows: Flows, inserts: InsertsRows
    ) -> None:
        self._db, self._transactions, self._jobs, self._flows, self._inserts = db, transactions, jobs, flows, inserts
        self._overdue = db.dialect.once(_overdue)

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        def work(run: Runner, _again: bool) -> list[JobState | None]:
            rows, now = self._jobs.lock(run, _distinct(ids)), self._db.clock(run)
            steps = {row.id: step for row in rows.values() if (step := cancel(row, now)) is not None}
            self._flows.put(run, [rows[one] for one in steps], list(steps.values()))
            asked = [row.id for row in rows.values() if row.id not in steps]
            run.change_each(_ASK_TO_STOP, [{"job": one} for one in asked])
            states = {one: JobState(step.row.state) for one, step in steps.items()}
            states |= dict.fromkeys(asked, JobState.RUNNING)
            finished = self._jobs.finished(run, _distinct(ids)).values()
            states |= {row.id: stored_state_of(row, now) for row in finished}
            return [states.get(one) for one in ids]

        return self._transactions.write(work)

    def end_overdue(self, most: int) -> int:
        """End up to so many of the jobs that have expired; return the number looked at."""

        def work(run: Runner, _again: bool) -> int:
            now = self._db.clock(run)
            ids = [str(one) for (one,) in run.rows(self._overdue, {"now": now, "most": most})]
            rows = [row for row in self._jobs.lock(run, ids).values() if is_overdue(row, now)]
            self._flows.put(run, rows, [lapsed(row, now) for row in rows])
            return len(ids)

        return self._transactions.write(work)

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        def work(run: Runner, _again: bool) -> list[Redriven]:
            now = self._db.clock(run)
            live = self._jobs.lock(run, _distinct(ids))
            finished = [row for row in self._jobs.finished(run, _distinct(ids)).values() if row.id not in live]
            verdicts = {row.id: self._redrive_live(run, row, now) for row in live.values()}
            for row in finished:
                verdicts[row.id] = self._redrive_finished(run, row, now)
            self._jobs.shape(run, [row for row in finished if verdicts[row.id] == Redriven.READY])
            run.woken.update(row.queue for row in (*live.values(), *finished))
            return [verdicts.get(one, Redriven.MISSING) for one in ids]

        return self._transactions.write(work)

    def _redrive_live(self, run: Runner, row: JobRow, now: int) -> Redriven:
        verdict, again = redriven(row, now)
        if again is not None:
            self._jobs.rewrite(run, [(row, again)])
            self._flows.follow(run, [Step(row, again)])
            run.woken.add(again.queue)
        return verdict

    def _redrive_finished(self, run: Runner, row: JobRow, now: int) -> Redriven:
        verdict, again = redriven(row, now)
        if again is None:
            return verdict
        if row.key and self._inserts.holder(run, row.queue, row.key):
            return Redriven.KEY_TAKEN
        self._jobs.forget(run, [row.id])
        self._jobs.insert_one(run, again)
        return verdict


def _distinct(ids: Sequence[str]) -> list[str]:
    return [one for one in dict.fromkeys(ids) if is_id(one)]
