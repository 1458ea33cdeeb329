"""The statements that all SQL databases share, each built once."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Executable,
    Float,
    Integer,
    String,
    and_,
    case,
    cast,
    delete,
    func,
    literal_column,
    null,
    or_,
    select,
    text,
    update,
)

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.liveness import MISSED_BEATS
from stanchion.stores.sql.engine.columns import QUEUED, RUNNING, RUNS, held_row, live_row, param
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.schema import (
    counts,
    history,
    jobs,
    notes,
    queues,
    tallies,
    workers,
)

RANGES = "lanes "
"""So begin the kinds of the notes that hold whose turn it is in a range of lanes."""

SHUT = 4
"""So many semaphores without a free slot a claim looks past."""


def past_shut(dialect: Dialect) -> str:
    """Return the condition that a job does not need any of the gates in `shut0`, `shut1`, ... and `keys` first."""
    shut = " AND ".join(f"limits NOT LIKE :shut{n} ESCAPE '|'" for n in range(SHUT))
    keys = dialect.among("order_key", "keys")
    free = f"(order_key IS NULL OR NOT {keys}) AND (limits IS NULL OR {shut})"
    return f"(held > 0 OR waits_since IS NOT NULL OR {free})"


class Statements:
    """Every shared statement, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        now, ids = dialect.now, dialect.values("ids", jobs.c.id.type)
        queue, token = param("queue", String), param("token", String)
        in_line = and_(jobs.c.queue == queue, jobs.c.lane == 0, jobs.c.state == QUEUED)

        self.now = select(now)

        # -- queues
        self.tied = (
            select(*held_row())
            .where(
                jobs.c.queue == queue,
                or_(jobs.c.flow.is_not(None), jobs.c.order_key.is_not(None), jobs.c.limits.is_not(None)),
            )
            .order_by(jobs.c.id)
            .with_for_update()
        )
        of_queue = select(jobs.c.id).where(jobs.c.queue == queue).order_by(jobs.c.id).with_for_update().subquery()
        self.lock_all = select(func.count()).select_from(of_queue)
        self.drop_live = delete(jobs).where(jobs.c.queue == queue)
        self.drop = [
            *(delete(table).where(table.c.queue == queue) for table in (history, tallies, counts)),
            delete(queues).where(queues.c.name == queue),
        ]
        self.forget_ranges = delete(notes).where(notes.c.kind.startswith(RANGES), notes.c.name == queue)
        self.drop.append(self.forget_ranges)
        self.spend = (
            update(queues)
            .where(queues.c.name == queue)
            .values(rate_tokens=param("rate_tokens", Float), rate_at=param("rate_at", BigInteger))
        )

        # -- in
        # -- out
        self.top_priority = select(jobs.c.priority).where(in_line).order_by(jobs.c.priority.desc()).limit(1)
        self.next_priority = self.top_priority.where(jobs.c.priority < param("below", Integer))
        self.pick = (
            select(jobs.c.id)
            .where(in_line, jobs.c.priority == param("at_priority", Integer), jobs.c.run_at <= now)
            .order_by(jobs.c.run_at, jobs.c.id)
            .limit(param("most", Integer))
            .with_for_update(skip_locked=True)
        )
        self.pick_past: Executable = self.pick.where(text(past_shut(dialect)))
        asking = and_(jobs.c.held == literal_column("0"), jobs.c.permit.is_(None))
        self.pick_limits: Executable = self.pick.where(
            asking, jobs.c.order_key.is_(None), jobs.c.limits == param("alike", jobs.c.limits.type)
        )
        self.pick_key: Executable = self.pick.where(asking, jobs.c.order_key == param("alike", String))
        self.reserve_unseen: Executable = (
            update(jobs)
            .where(jobs.c.id.in_(ids), jobs.c.order_key.is_(None), jobs.c.limits.is_(None))
            .values(
                state=RUNNING,
                attempts=jobs.c.attempts + 1,
                token=token,
                worker=param("worker", String),
                lease_until=case(
                    (param("worker_holds", Boolean), null()), else_=now + param("lease_micros", BigInteger)
                ),
                started_at=now,
                progress=null(),
            )
        )
        self.reserve = self.reserve_unseen.returning(*live_row())
        self.running_count = (
            select(func.count()).select_from(jobs).where(jobs.c.queue == queue, jobs.c.state == RUNNING)
        )
        self.held_by_token = select(*live_row()).where(
            jobs.c.queue == queue, jobs.c.state == RUNNING, jobs.c.token == token
        )

        self.queued_locked: Executable = (
            select(*held_row()).where(jobs.c.id.in_(ids), jobs.c.state != RUNNING).order_by(jobs.c.id).with_for_update()
        )
        # -- liveness
        self.expired = (
            select(*live_row())
            .where(jobs.c.worker.is_(None), jobs.c.lease_until <= now, RUNS)
            .order_by(jobs.c.lease_until)
            .limit(param("most", Integer))
            .with_for_update(skip_locked=True)
        )
        patience = cast(MISSED_BEATS * SECOND * workers.c.heartbeat, BigInteger)
        as_of = param("as_of", BigInteger)
        was_overdue = workers.c.last_seen_at <= as_of - patience
        lost = (
            select(*live_row())
            .where(jobs.c.state == RUNNING, jobs.c.worker.is_not(None))
            .limit(param("most", Integer))
            .with_for_update(skip_locked=True)
        )
        self.of_dead_workers = lost.where(jobs.c.worker.in_(select(workers.c.id).where(was_overdue)))
        self.begun = select(workers.c.id, workers.c.began)
        self.judged = select(workers.c.heartbeat, was_overdue)
        self.orphans = lost.where(
            jobs.c.worker.not_in(select(workers.c.id)), jobs.c.started_at <= as_of - param("orphan_micros", BigInteger)
        )
        # -- looking
        self.counted = (
            select(counts.c.what, counts.c.n)
            .where(counts.c.queue == queue)
            .union_all(
                select(tallies.c.what, func.sum(tallies.c.n)).where(tallies.c.queue == queue).group_by(tallies.c.what)
            )
        )

        # -- operating
        self.ask_to_stop = (
            update(jobs).where(jobs.c.id == param("job", jobs.c.id.type), RUNS).values(cancel_requested=True)
        )
        self.forget: Executable = delete(history).where(history.c.id.in_(ids))
        own_age = select(cast(queues.c.history_ttl * SECOND, BigInteger)).where(queues.c.name == queue)
        default_age = int(QueueSettings("").history_ttl * SECOND)
        age = func.coalesce(param("age_micros", BigInteger), own_age.scalar_subquery(), default_age)
        old = select(history.c.id).where(history.c.queue == queue, history.c.finished_at <= now - age)
        self.purge: Executable = delete(history).where(
            history.c.id.in_(old.order_by(history.c.finished_at).limit(param("most", Integer)))
        )
        self.purge_on: Executable | None = None
        """The same from `after` on, which returns when what it deleted had finished, where what is deleted may long
        be in the way."""
        self.some_tallies = (
            select(tallies.c.id, tallies.c.queue, tallies.c.what, tallies.c.n)
            .order_by(tallies.c.id)
            .limit(param("most", Integer))
            .with_for_update(skip_locked=True)
        )
        self.remove_tally = delete(tallies).where(tallies.c.id == param("tally", tallies.c.id.type))
        self.add_count = (
            update(counts)
            .where(counts.c.queue == queue, counts.c.what == param("what", String))
            .values(n=counts.c.n + param("more", BigInteger))
        )
        self.first_count = dialect.insert_ignoring(
            counts,
            {"queue": param("queue", String), "what": param("what", String), "n": param("more", BigInteger)},
        )
