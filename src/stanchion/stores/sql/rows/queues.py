"""The rows of queues: settings, the state of rate and lanes, and the last use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from sqlalchemy import BigInteger, Executable, String, false, select, true, update

from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.slots import NO_SLOTS, slot_needs
from stanchion.stores.rules.upkeep import Use
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.joining import must_be_here
from stanchion.stores.sql.engine.runner import Asked, Runner
from stanchion.stores.sql.engine.schema import queues
from stanchion.stores.sql.rows.queue_row import QueueRow, new_queue, queue_row

_QUEUE = param("queue", String)
_QUEUE_OF = attrgetter("queue")
_READ = select(*queues.columns).where(queues.c.name == _QUEUE)
_LOCK = _READ.with_for_update()
_LOCK_FREE = _READ.with_for_update(skip_locked=True)
_CHANGE = {
    column.name: update(queues).where(queues.c.name == _QUEUE).values({column: param("value", column.type)})
    for column in queues.columns
}
_WRITE_USE = (
    update(queues)
    .where(queues.c.name == _QUEUE)
    .values(active_events=param("events", BigInteger), active_at=param("at", BigInteger))
)
_USE_SLOTS = update(queues).where(queues.c.name == _QUEUE, queues.c.uses_slots == false()).values(uses_slots=true())
_MARK_LETTERS = (
    update(queues).where(queues.c.name == _QUEUE, queues.c.has_dead_letters == false()).values(has_dead_letters=true())
)


def _insert(dialect: Dialect) -> Executable:
    return dialect.insert_ignoring(queues, {column.name: param(column.name, column.type) for column in queues.columns})


class QueueRows:
    """Reads, makes and changes the rows of queues."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._insert = db.dialect.once(_insert)
        self._known: set[str] = set()
        """Queues known to this process to have a row."""
        self._with_slots: set[str] = set()
        """Queues known to this process to be stored as using slots."""

    # -- read

    def find(self, run: Runner, queue: str, *, lock: bool = False) -> QueueRow | None:
        """Return the row of a queue, or None; `lock`: until the end of the transaction."""
        rows = run.rows(_LOCK if lock else _READ, {"queue": queue})
        return queue_row(rows[0]) if rows else None

    def asks(self, queue: str, *, lock: bool = False) -> Asked:
        """Return the query for the row of a queue, to be sent together with others."""
        return _LOCK if lock else _READ, {"queue": queue}

    def settings(self, run: Runner, queue: str) -> QueueSettings:
        """Return the settings of a queue; the defaults if it has no row yet."""
        row = self.find(run, queue)
        return QueueSettings(queue) if row is None else row.settings

    def settings_of(self, run: Runner, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Return the settings of these queues."""
        return {queue: self.settings(run, queue) for queue in set(queues)}

    # -- make

    def insert(self, run: Runner, queues: Iterable[str]) -> None:
        """Make the missing rows of these queues."""
        run.send_each(self._insert, [new_queue(queue) for queue in sorted(queues)])

    def make(self, queues: Iterable[str]) -> None:
        """Make the missing rows of these queues; each queue is checked once per process."""
        if new := set(queues) - self._known:
            self._db.write(lambda run, _again: self.insert(run, new))
            self._known.update(new)

    def make_for(self, jobs: Sequence[NewJob]) -> None:
        """Make the missing rows of new jobs' queues, and store the shapes; each queue is checked once per process."""
        queues = set(map(_QUEUE_OF, jobs))
        using = {job.queue for job in jobs if slot_needs(job) != NO_SLOTS}
        if new := queues - self._known:
            self.make(new)
        if shaped := using - self._with_slots:
            # Apart from the insert: on MariaDB, two that meet the row share its lock, and deadlock if both write it.
            self._db.write(lambda run, _again: self.use_slots(run, shaped))
            self._with_slots.update(shaped)

    def make_in(self, run: Runner, queues: Iterable[str]) -> None:
        """Make the missing rows of these queues in a transaction that may be rolled back."""
        self.insert(run, [queue for queue in queues if queue not in self._known])

    def make_joined(self, run: Runner, jobs: Sequence[NewJob]) -> None:
        """Make the missing rows of the queues that a caller's transaction pushes to, and store their shapes.

        With a single writer, this happens inside that transaction. Otherwise it happens in a separate one, as others
        would wait for the rows until the caller commits. A row that the caller's transaction has made or changed, for
        example by a move, must not be waited for: it is changed there.
        """
        queues, using = set(map(_QUEUE_OF, jobs)), {job.queue for job in jobs if slot_needs(job) != NO_SLOTS}
        if self._db.dialect.single_writer:
            self.make_in(run, queues)
            self.use_slots(run, using)
            return
        if new := queues - self._known:
            found = self._found(run, new)
            self.make(new - found)
            if found:
                self._known |= self._db.read(lambda own: self._found(own, found))
        if left := using - self._with_slots:
            shaped = self._db.write(lambda own, _again: self._shape_unlocked(own, left))
            self._with_slots |= shaped
            if locked := left - shaped:
                if run.guarded:
                    must_be_here(self._db, run)
                self.use_slots(run, locked)

    def _found(self, run: Runner, queues: Iterable[str]) -> set[str]:
        return {queue for queue in queues if self.find(run, queue) is not None}

    def _shape_unlocked(self, run: Runner, queues: Iterable[str]) -> set[str]:
        """Store that these queues use slots, except for rows that others have locked; return the stored ones."""
        unlocked = {queue for queue in sorted(queues) if run.rows(_LOCK_FREE, {"queue": queue})}
        self.use_slots(run, unlocked)
        return unlocked

    def forget_shape(self, queue: str) -> None:
        """Forget that a queue is known to use slots."""
        self._with_slots.discard(queue)

    def forget(self, queue: str) -> None:
        """Forget a queue whose row was deleted, so that the next push makes it again."""
        self._known.discard(queue)
        self._with_slots.discard(queue)

    def forget_known(self) -> None:
        """Forget all known queues: they may be gone."""
        self._known.clear()
        self._with_slots.clear()

    # -- change

    def change(self, run: Runner, queue: str, column: str, value: object) -> None:
        """Write one column of a queue."""
        run.change(_CHANGE[column], {"queue": queue, "value": value})

    def write_use(self, run: Runner, queue: str, use: Use) -> None:
        """Write when a queue was last used."""
        run.change(_WRITE_USE, {"queue": queue, **use._asdict()})

    def use_slots(self, run: Runner, queues: Iterable[str]) -> None:
        """Store that jobs of these queues use slots, so that claims ask for them."""
        for queue in sorted(set(queues) - self._with_slots):
            run.change(_USE_SLOTS, {"queue": queue})

    def use_lanes(self, run: Runner, queues: Iterable[str]) -> None:
        """Store that jobs of these queues are in lanes, whatever the settings say, so that claims search the lanes."""
        for queue in sorted(queues):
            row = self.find(run, queue)
            if row is None:
                self.insert(run, [queue])
            if row is None or not row.settings.uses_lanes:
                self.change(run, queue, "uses_lanes", value=True)

    def mark_letters(self, run: Runner, rows: Iterable[JobRow | NewJob]) -> None:
        """Store which queues get dead letters, so that searches for dead jobs include them."""
        for queue in sorted({row.queue for row in rows if row.dead_from is not None}):
            run.change(_MARK_LETTERS, {"queue": queue})
