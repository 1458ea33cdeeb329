"""The transactions that a store in memory takes part in, by following their commits and rollbacks."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from weakref import WeakSet

from stanchion.errors import CannotJoin
from stanchion.stores.memory.joining.followers import Followers
from stanchion.stores.memory.joining.journal import Entry, Journal, ReplayClock, Writes

T = TypeVar("T")


class OwnTransaction:
    """A transaction that the store itself has opened, to be passed as `tx`."""

    def __init__(self, journal: Journal) -> None:
        self.journal: Journal | None = journal


class Transactions:
    """Answers the calls of open transactions, and applies them when these commit.

    `refusal`: the reason why the app's own store could join no transaction, if so. `changed`: called after a commit,
    without the lock.
    """

    def __init__(
        self,
        writes: Writes,
        lock: threading.Lock,
        clock: ReplayClock,
        kept: Callable[[], dict[int, object]],
        changed: Callable[[], None],
        refusal: str | None,
    ) -> None:
        """`kept`: the objects that a copy of the store shares with it, by id."""
        self._writes, self._lock, self._clock, self._kept = writes, lock, clock, kept
        self._changed, self._refusal = changed, refusal
        self._followers = Followers(self)
        self._journals: WeakSet[Journal] = WeakSet()
        """The journals of transactions that may be open."""
        self.changes = 0

    # -- calls

    def call(self, tx: object, call: Callable[[Writes], T]) -> T:
        """Make a call that becomes real when the transaction commits. Raises CannotJoin for one it can't follow."""
        if isinstance(tx, OwnTransaction):
            if tx.journal is None:
                raise CannotJoin("the transaction has ended: use it in the block of app.transaction() only")
            return self._added(tx.journal, call, tx.journal.entries.append)
        if self._refusal is not None:
            raise CannotJoin(self._refusal)
        follower = self._followers.of(tx)
        return self._added(follower.journal, call, follower.add)

    def _added(self, journal: Journal, call: Callable[[Writes], T], add: Callable[[Entry], None]) -> T:
        self._journals.add(journal)
        with self._lock:
            answer, entry = journal.answer(call, self._clock.now())
        add(entry)
        return answer

    @contextmanager
    def block(self) -> Iterator[OwnTransaction]:
        """Open a transaction of the store's own."""
        journal = Journal(self)
        tx = OwnTransaction(journal)
        try:
            yield tx
            journal.committed()
        finally:
            tx.journal = None

    @property
    def uncommitted(self) -> int:
        """The number of calls in open transactions."""
        return sum(len(journal.entries) for journal in self._journals)

    def close(self) -> None:
        """Stop following; transactions that are still open store nothing."""
        self._followers.close()

    # -- the store of the journals

    def copied(self) -> Writes:
        """Return a copy of the store."""
        return copy.deepcopy(self._writes, self._kept())

    def applied(self, call: Callable[[Writes], T], to: Writes, at: int) -> T:
        """Make a call as of a time."""
        self._clock.show(at)
        try:
            return call(to)
        finally:
            self._clock.show(None)

    def commit(self, entries: list[Entry]) -> None:
        """Apply the calls of a transaction; raise the first error at the end.

        There is one only if another transaction has stored a job with the same key meanwhile.
        """
        failed: Exception | None = None
        with self._lock:
            self.changes += 1
            for entry in entries:
                try:
                    self.applied(entry.call, self._writes, entry.at)
                except Exception as error:
                    failed = failed or error
        self._changed()
        if failed is not None:
            raise failed
