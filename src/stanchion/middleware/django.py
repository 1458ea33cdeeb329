"""Connections of Django's databases in workers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from stanchion.errors import MissingExtra
from stanchion.tasks.middleware import AsyncCallNext, Attempt, CallNext


class DjangoConnections:
    """Middleware that closes unusable and outdated database connections of Django around each attempt.

    Django does so around each request. Without it, a worker never recovers from a restart of the database. The log of
    queries, which Django keeps if DEBUG is on, is cleared as well. A connection whose transaction the caller has open
    stays, as in a drain within Django's TestCase. Raises MissingExtra without Django.
    """

    def __init__(self) -> None:
        try:
            from django.db import connections, reset_queries
        except ModuleNotFoundError:
            raise MissingExtra("django", "stanchion.middleware.DjangoConnections") from None
        self._connections, self._reset = connections, reset_queries

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), ()

    def run(self, _attempt: Attempt, call_next: CallNext) -> object:
        """Run the rest of a sync attempt."""
        with self.around():
            return call_next()

    async def arun(self, _attempt: Attempt, call_next: AsyncCallNext) -> object:
        """Run the rest of an async attempt; its connections belong to the thread of Django's async queries."""
        from asgiref.sync import sync_to_async

        block = self.around()
        await sync_to_async(block.__enter__)()
        try:
            return await call_next()
        finally:
            await sync_to_async(block.__exit__)(None, None, None)

    @contextmanager
    def around(self) -> Iterator[None]:
        """Close the connections of this thread that are of no more use, before and after the block."""
        self._reset()
        used = {one.alias for one in self._connections.all(initialized_only=True) if one.in_atomic_block}
        self._close(used)
        try:
            yield
        finally:
            self._close(used)

    def _close(self, used: Collection[str]) -> None:
        for one in self._connections.all(initialized_only=True):
            if one.alias not in used:
                one.close_if_unusable_or_obsolete()
