"""What every part of the SQL store works with."""

from __future__ import annotations

import dataclasses
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.dead_letters import is_letter
from stanchion.stores.rules.jobs import Transition
from stanchion.stores.rules.lost_leases import LostLeaseDelay, default_delay
from stanchion.stores.sql.engine.database import CALL_SECONDS, Database
from stanchion.stores.sql.engine.runner import Row, Runner
from stanchion.stores.sql.engine.schema import FIELDS, LIVE_COLUMNS, queues
from stanchion.stores.sql.statements import Statements

T = TypeVar("T")

_SETTINGS = tuple(setting.name for setting in dataclasses.fields(QueueSettings))
"""The first columns of a queue; the others are the state of its rate limit and of its lanes, and when it was used."""
_FLAGS = ("paused", "laned", "expires_with_jobs")


class Step(NamedTuple):
    """What has happened to a job: as it was, as it is now (None: deleted), and the counter of its queue, if any."""

    before: JobRow
    after: JobRow | None
    counted: str | None = None


class SqlBase(ABC):
    """The database, its statements, and the reads and writes that several parts share."""

    statements_of: type[Statements] = Statements

    def __init__(self, database: Database) -> None:
        self.database, self.dialect = database, database.dialect
        self.lost_lease_delay: LostLeaseDelay = default_delay
        self.statements = self.dialect.once(self.statements_of)

    def write(
        self,
        work: Callable[[Runner, bool], T],
        seconds: float = CALL_SECONDS,
        *,
        durable: bool = True,
        together: bool = False,
    ) -> T:
        """Run `work` in one transaction; then wake those whom it has let go on. It is told when it is a repeat."""
        done, passed_over = self.write_once(work, seconds, durable=durable, together=together)
        if passed_over:
            self.look_again(passed_over)
        return done

    def write_once(
        self,
        work: Callable[[Runner, bool], T],
        seconds: float = CALL_SECONDS,
        *,
        durable: bool = True,
        together: bool = False,
    ) -> tuple[T, set[str]]:
        """Do what `write` does but a further look at the gates where it passed waiters over; return these as well."""
        runs: list[Runner] = []

        def noted(run: Runner, again: bool) -> T:
            runs[:] = [run]
            done = work(run, again)
            self.pass_on_slots(run)
            return done

        done = self.database.write(noted, seconds, durable=durable, together=together)
        (run,) = runs
        self.tell(run)
        return done, run.passed_over

    @abstractmethod
    def pass_on_slots(self, run: Runner) -> None:
        """Give back the slots that were set free, and grant them to the next: the last step of each transaction."""

    @abstractmethod
    def look_again(self, gates: set[str]) -> None:
        """Grant free slots of these gates to waiters that others had locked."""

    def tell(self, run: Runner) -> None:
        """Wake those for whom there is news in what was committed."""
        if run.woken or run.ended:
            self.dialect.announce(run.woken, run.ended)

    @abstractmethod
    def follow(self, run: Runner, steps: Sequence[Step]) -> None:
        """Do what follows from steps, in the same transaction."""

    def clock(self, run: Runner) -> int:
        """Return the database's clock."""
        return self.database.clock(run)

    def settings_in(self, run: Runner, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Return the settings of these queues; defaults for one that has no row yet."""
        return {queue: self.queue_row(run, queue)[0] for queue in set(queues)}

    def now(self) -> int:
        """Return the store's clock."""
        return self.database.now()

    def queue_row(self, run: Runner, queue: str, *, lock: bool = False) -> tuple[QueueSettings, Row | None]:
        """Return a queue's settings and its whole row."""
        statement = self.statements.queue_locked if lock else self.statements.queue
        rows = run.rows(statement, {"queue": queue})
        return (settings_of(rows[0]), rows[0]) if rows else (QueueSettings(queue), None)

    def live(self, run: Runner, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return these live jobs, locked until the end of the transaction."""
        return {row[0]: JobRow(*row) for row in run.rows(self.statements.live_locked, {"ids": json.dumps(sorted(ids))})}

    def tally(self, run: Runner, counted: Iterable[tuple[str, str]], sign: int = 1) -> None:
        """Count what happened, as (queue, what); with -1, take it back."""
        totals = Counter(counted)
        run.send_each(
            self.statements.tally,
            [{"queue": queue, "what": what, "n": sign * n} for (queue, what), n in sorted(totals.items())],
        )

    def store(self, run: Runner, before: Sequence[JobRow], after: Sequence[Transition]) -> None:
        """Write the rows that locked live jobs have become, count the steps, and do what follows from them."""
        self.put(run, before, after)
        self.follow(run, [Step(row, *step) for row, step in zip(before, after, strict=True)])

    def put(self, run: Runner, before: Sequence[JobRow], after: Sequence[Transition]) -> None:
        """Write the rows that locked live jobs have become, and count the steps; what follows is the caller's."""
        left = {row.queue for row in before if row.state == JobState.RUNNING}
        settings = self.settings_in(run, left | {step.row.queue for step in after if step.final})
        run.woken.update(queue for queue in left if settings[queue].max_running is not None)  # a place is free
        run.ended.update(step.row.id for step in after if step.state(0).final)
        ended = [step.row for step in after if step.final]
        live = [step.row for step in after if not step.final]
        run.send_each(
            self.statements.keep,
            [kept(row) for row in ended if settings[row.queue].history_ttl > 0],
        )
        self.remove(run, [row.id for row in ended])
        elsewhere = {step.row.queue for step in after if not step.final} - {row.queue for row in before}
        run.send_each(self.statements.insert_queue, [queue_values(queue) for queue in sorted(elsewhere)])
        self.mark_letters(run, live)
        moved = zip(before, (step.row for step in after), strict=True)
        self.make_laned(run, {row.queue for was, row in moved if row.lane and (row.queue, row.lane) != was[1:3]})
        self.rewrite(run, live)
        self.tally(run, [(row.queue, step.counted) for row, step in zip(before, after, strict=True)])

    def mark_letters(self, run: Runner, rows: Iterable[JobRow]) -> None:
        """Note of the queues that get dead letters that they have some, for those who look for dead jobs."""
        for queue in sorted({row.queue for row in rows if is_letter(row)}):
            run.change(self.statements.mark_letters, {"queue": queue})

    def make_laned(self, run: Runner, queues: Iterable[str]) -> None:
        """See that claims look into the lanes of these queues: jobs come there, whatever the settings say by now."""
        for queue in sorted(queues):
            settings, row = self.queue_row(run, queue)
            if row is None:
                run.change(self.statements.insert_queue, queue_values(queue))
            if not settings.laned:
                run.change(self.statements.configure["laned"], {"queue": queue, "value": True})

    def remove(self, run: Runner, ids: Sequence[str]) -> None:
        """Delete live jobs."""
        run.send_each(self.statements.remove, [{"job": one} for one in ids])

    def rewrite(self, run: Runner, rows: Sequence[JobRow]) -> None:
        """Write live jobs as they are now."""
        run.send_each(
            self.statements.rewrite,
            [
                {"job": row.id} | {f"new_{name}": value for name, value in live_values(row).items() if name != "id"}
                for row in rows
            ],
        )


def kept(row: JobRow) -> dict[str, object]:
    """Return the parameters that store a finished job."""
    return dict(zip(FIELDS, row, strict=True))


def live_values(row: JobRow) -> dict[str, object]:
    """Return the parameters that store a live job."""
    return dict(zip(LIVE_COLUMNS, row, strict=False))  # the last fields are those of finished jobs


def settings_of(row: Row) -> QueueSettings:
    """Return the settings in a row of stanchion_queues."""
    given = dict(zip(_SETTINGS, row, strict=False))
    declared = json.loads(given["declared"]) if given["declared"] else {}
    return QueueSettings(**{**given, **{name: bool(given[name]) for name in _FLAGS}, "declared": declared})


def began_in(stored: str | None) -> tuple[str, ...] | None:
    """Return what a worker said to have begun."""
    return None if stored is None else tuple(json.loads(stored))


def in_order(rows: Iterable[Row]) -> list[JobRow]:
    """Return claimed rows as jobs, in the order in which they are handed out."""
    return sorted((JobRow(*row) for row in rows), key=lambda job: (-job.priority, job.run_at, job.id))


def queue_values(queue: str) -> dict[str, object]:
    """Return the parameters that store a new queue: the default settings, an empty bucket of its rate."""
    settings = QueueSettings(queue)
    at_first = {**{column.name: 0 for column in queues.columns}, "letters": False}
    return {**{name: getattr(settings, name, value) for name, value in at_first.items()}, "declared": None}


def is_id(text: str) -> bool:
    """Tell whether this can be an id: a database with a type for them refuses to compare anything else."""
    return _ID.fullmatch(text) is not None


_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
