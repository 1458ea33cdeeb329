"""The rows of jobs, live and finished: read, write, remove, count."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Executable,
    String,
    delete,
    insert,
    select,
    text,
    union_all,
    update,
)

from stanchion.stores.fields.sql import LIVE_COLUMNS
from stanchion.stores.records.jobs import UNLANED, JobRow, JobState, Lease, NewJob, Pushed
from stanchion.stores.records.outcomes import Tally
from stanchion.stores.rules.capacity.slots import uses_slots
from stanchion.stores.rules.lifecycle.claims import in_claim_order
from stanchion.stores.rules.lifecycle.jobs import Transition, items_of
from stanchion.stores.sql.engine.columns import finished_row, id_as_text, live_row, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Asked, Params, Row, Runner
from stanchion.stores.sql.engine.schema import HELD_COLUMNS, HISTORY_COLUMNS, counter_events, history, jobs
from stanchion.stores.sql.rows.contents import contents_of, packed, row_from
from stanchion.stores.sql.rows.new_jobs import NONE_YET, OF_NEW_JOBS, later_values, new_values
from stanchion.stores.sql.rows.queues import QueueRows

QUEUE_OF, ID_OF = attrgetter("queue"), attrgetter("id")  # called by built-ins, without a frame per job


class Step(NamedTuple):
    """A change of a job: its row before and after (None: deleted), and the counter of its queue to increase, if any."""

    before: JobRow
    after: JobRow | None
    counted: str | None = None


class JobStatements:
    """The statements about whole job rows, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        ids = dialect.values("ids", jobs.c.id.type)
        self.read = select(*live_row()).where(jobs.c.id.in_(ids))
        # All callers lock jobs in this order.
        self.lock: Executable = self.read.order_by(jobs.c.id).with_for_update()
        self.lock_in: Executable = (
            self.read.where(text(dialect.among("queue", "queues"))).order_by(jobs.c.id).with_for_update()
        )
        self.finished = select(*finished_row()).where(history.c.id.in_(ids))
        self.stored = union_all(
            *(
                select(id_as_text(table.c.id), table.c.run_at, table.c.enqueued_at).where(table.c.id.in_(ids))
                for table in (jobs, history)
            )
        )
        self.ended = text(f"""
            SELECT CAST(id AS CHAR(36)), run_at, enqueued_at FROM stanchion_history {dialect.by("PRIMARY")}
            WHERE {dialect.among("id", "ids", "uuid")}
        """)
        params = {name: param(name, jobs.c[name].type) for name in LIVE_COLUMNS}
        self.insert = dialect.insert_ignoring(jobs, params)
        self.insert_new = dialect.insert_ignoring(jobs, {name: params[name] for name in OF_NEW_JOBS})
        self.keep = insert(history).values({name: param(name, history.c[name].type) for name in HISTORY_COLUMNS})
        self.rewrite: Executable = (
            update(jobs)
            .where(jobs.c.id == param("job", jobs.c.id.type), jobs.c.queue == param("of_queue", String))
            .values({name: param(f"new_{name}", jobs.c[name].type) for name in LIVE_COLUMNS if name != "id"})
        )
        these = f"{dialect.among('id', 'ids', 'uuid')} AND {dialect.among('queue', 'queues')}"
        self.remove = text(f"DELETE FROM stanchion_jobs WHERE {these}")
        one = jobs.c.id == param("job", jobs.c.id.type), jobs.c.queue == param("queue", String)
        self.remove_one = delete(jobs).where(*one)
        self.forget: Executable = delete(history).where(history.c.id.in_(ids))
        self.count_event = insert(counter_events).values(
            queue=param("queue", String), what=param("what", String), n=param("n", BigInteger)
        )


class Jobs:
    """Reads and writes whole job rows. The caller applies the consequences of a step."""

    def __init__(self, db: Database, queues: QueueRows, statements: type[JobStatements] = JobStatements) -> None:
        self._db, self._queues = db, queues
        self._statements = db.dialect.once(statements)

    # -- read

    def read(self, run: Runner, ids: Iterable[str]) -> dict[str, JobRow]:
        """Return the jobs that are live, by id."""
        return _by_id(run.rows(self._statements.read, {"ids": json.dumps(list(ids))}))

    def lock(self, run: Runner, ids: Iterable[str]) -> dict[str, JobRow]:
        """Return the jobs that are live, by id, locked until the end of the transaction."""
        return _by_id(run.rows(*self.asks_locked(ids)))

    def lock_leased(self, run: Runner, leases: Collection[Lease]) -> dict[str, JobRow]:
        """Return the jobs that are live, in one of the queues of these leases, by id; locked too."""
        return _by_id(run.rows(self._statements.lock_in, leased(self._db.dialect, leases)))

    def asks_locked(self, ids: Iterable[str]) -> Asked:
        """Return the query that locks these live jobs, to be sent together with others."""
        return self._statements.lock, {"ids": json.dumps(sorted(ids))}

    def finished(self, run: Runner, ids: Iterable[str]) -> dict[str, JobRow]:
        """Return the jobs that are in history, by id."""
        return _by_id(run.rows(self._statements.finished, {"ids": json.dumps(list(ids))}))

    def stored(self, run: Runner, ids: Iterable[str]) -> dict[str, Pushed]:
        """Return the jobs that are stored, live or finished, as the answers of a push."""
        return {row[0]: Pushed(*row) for row in run.rows(self._statements.stored, {"ids": json.dumps(list(ids))})}

    # -- write

    def insert(self, run: Runner, rows: Sequence[JobRow]) -> int:
        """Insert live jobs, skipping jobs whose id or key is taken; return the number inserted."""
        if all(later_values(row) == NONE_YET for row in rows):  # half the columns need not be sent
            new = [dict(zip(OF_NEW_JOBS, new_values(row), strict=True)) for row in rows]
            return run.change_each(self._statements.insert_new, new)
        return run.change_each(self._statements.insert, [live_values(row) for row in rows])

    def insert_one(self, run: Runner, row: JobRow) -> bool:
        """Insert a live job; return False if its id or key is taken."""
        return run.change(self._statements.insert, live_values(row)) == 1

    def put(self, run: Runner, before: Sequence[JobRow], after: Sequence[Transition]) -> None:
        """Write locked live jobs after their transitions, and count the steps."""
        left = {row.queue for row in before if row.state == JobState.RUNNING}
        settings = self._queues.settings_of(run, left | {step.row.queue for step in after if step.final})
        run.woken.update(queue for queue in left if settings[queue].max_running is not None)  # room for another
        run.ended.update(step.row.id for step in after if step.state(0).final)
        ended = [step.row for step in after if step.final]
        live = [step.row for step in after if not step.final]
        self.keep(run, [row for row in ended if settings[row.queue].history_ttl > 0])
        gone = [was for was, step in zip(before, after, strict=True) if step.final]
        self.remove(run, [row.id for row in gone], {row.queue for row in gone})
        self._queues.insert(run, {row.queue for row in live} - {row.queue for row in before})
        self._queues.mark_letters(run, live)
        changed = [(was, step.row) for was, step in zip(before, after, strict=True) if not step.final]
        lanes = {
            row.queue for was, row in changed if row.lane != UNLANED and (row.queue, row.lane) != (was.queue, was.lane)
        }
        self._queues.use_lanes(run, lanes)
        self._queues.use_slots(run, {row.queue for row in live if uses_slots(row)} - {row.queue for row in before})
        self.rewrite(run, changed)
        self.count_tallies(run, chain.from_iterable(map(Transition.tallies, after, before)))

    def keep(self, run: Runner, rows: Iterable[JobRow]) -> None:
        """Write finished jobs to history."""
        run.send_each(self._statements.keep, [kept(row) for row in rows])

    def shape(self, run: Runner, rows: Sequence[JobRow]) -> None:
        """Store in the queues' rows that these jobs use lanes or slots, so that claims check for them."""
        self._queues.use_lanes(run, {row.queue for row in rows if row.lane != UNLANED})
        self._queues.use_slots(run, {row.queue for row in rows if uses_slots(row)})

    def rewrite(self, run: Runner, changed: Iterable[tuple[JobRow, JobRow]]) -> None:
        """Write live jobs, given as they were and as they are."""
        values = [
            {"job": row.id, "of_queue": was.queue}
            | {f"new_{name}": value for name, value in live_values(row).items() if name != "id"}
            for was, row in changed
        ]
        run.send_each(self._statements.rewrite, values)

    def remove(self, run: Runner, ids: Collection[str], queues: Iterable[str]) -> None:
        """Delete live jobs, which are in these queues."""
        if len(ids) == 1:
            run.send(self._statements.remove_one, {"job": next(iter(ids)), "queue": next(iter(queues))})
        elif ids:
            dialect = self._db.dialect
            those = {"ids": dialect.listed(ids), "queues": _listed(dialect, frozenset(queues))}
            run.send(self._statements.remove, those)

    def take_back(self, run: Runner, row: JobRow | NewJob) -> bool:
        """Delete a live job; return whether it existed."""
        return run.change(self._statements.remove_one, {"job": row.id, "queue": row.queue}) == 1

    def undo_ended(self, run: Runner, rows: Sequence[JobRow] | Sequence[NewJob]) -> dict[str, Pushed]:
        """Delete new jobs that an earlier try stored and a worker has finished since; return how they were stored.

        Their insert can't see that: it waited for the worker's delete, with an older snapshot.
        """
        if not rows:
            return {}
        given = {"ids": self._db.dialect.listed(row.id for row in rows)}
        ended = {str(row[0]): Pushed(str(row[0]), *row[1:]) for row in run.rows(self._statements.ended, given)}
        twice = [row for row in rows if row.id in ended and self.take_back(run, row)]
        self.count_tallies(run, [Tally(row.queue, "pushed", -items_of(row)) for row in twice])
        return {row.id: ended[row.id] for row in twice}

    def forget(self, run: Runner, ids: Collection[str]) -> int:
        """Delete finished jobs; return the number deleted."""
        return run.change(self._statements.forget, {"ids": json.dumps(list(ids))}) if ids else 0

    # -- count

    def count_events(self, run: Runner, counted: Iterable[tuple[str, str]], sign: int = 1) -> None:
        """Count events, given as (queue, what); `sign` -1: take them back."""
        self.count(run, Counter(counted), sign)

    def count_items(self, run: Runner, rows: Iterable[JobRow], what: str) -> None:
        """Count an event of the items of jobs."""
        totals: Counter[tuple[str, str]] = Counter()
        for row in rows:
            totals[row.queue, what] += 1 if row.items is None else row.items
        self.count(run, totals)

    def count_tallies(self, run: Runner, tallies: Iterable[Tally]) -> None:
        """Add to the counters of queues."""
        totals: Counter[tuple[str, str]] = Counter()
        for queue, what, number in tallies:
            totals[queue, what] += number
        self.count(run, totals)

    def count(self, run: Runner, totals: Counter[tuple[str, str]], sign: int = 1) -> None:
        """Count events, given by their numbers."""
        run.send_each(
            self._statements.count_event,
            [{"queue": queue, "what": what, "n": sign * n} for (queue, what), n in sorted(totals.items())],
        )


def leased(dialect: Dialect, leases: Collection[Lease]) -> Params:
    """Return the parameters of a statement about the jobs with the ids of these leases, in one of their queues."""
    return {
        "ids": json.dumps(sorted(map(ID_OF, leases))),
        "queues": _listed(dialect, frozenset(map(QUEUE_OF, leases))),
    }


@lru_cache(maxsize=1024)
def _listed(dialect: Dialect, queues: frozenset[str]) -> object:
    """Return the parameter that lists queues; the batches of a worker are of the same few."""
    return dialect.listed(queues)


def _by_id(rows: Iterable[Row]) -> dict[str, JobRow]:
    return {row[0]: row_from(row) for row in rows}


def kept(row: JobRow) -> dict[str, object]:
    """Return the parameters that store a finished job."""
    return dict(zip(JobRow._fields, packed(row) if bytes in map(type, contents_of(row)) else row, strict=True))


def live_values(row: JobRow) -> dict[str, object]:
    """Return the parameters that store a live job."""
    # The last fields belong to finished jobs.
    return dict(zip(LIVE_COLUMNS, packed(row) if bytes in map(type, contents_of(row)) else row, strict=False))


def outline(*held: object) -> JobRow:
    """Return the fields of a job that the consequences of its end depend on; `held`: the values of HELD_COLUMNS."""
    return JobRow._make(map(dict(zip(HELD_COLUMNS, held, strict=True)).get, JobRow._fields, _ANY))


_ANY = JobRow("", "", UNLANED, JobState.RUNNING.value, 0, 0, 0, 0, "")


def in_order(rows: Iterable[Row]) -> list[JobRow]:
    """Return claimed rows as jobs, in the order of delivery."""
    return in_claim_order(list(map(row_from, rows)))


def is_id(text: str) -> bool:
    """Return whether a text is a valid id: a database with a UUID type rejects comparisons with anything else."""
    return _ID.fullmatch(text) is not None


_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
