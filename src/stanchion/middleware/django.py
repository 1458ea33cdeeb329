"""Connections of Django's databases in workers."""

from __future__ import annotations

from typing import Any

from stanchion.errors import MissingExtra
from stanchion.tasks.middleware import AsyncCallNext, Attempt, CallNext


class DjangoConnections:
    """Middleware that closes unusable and outdated database connections of Django around each attempt.

    Django does so around each request. Without it, a worker never recovers from a restart of the database. The log of
    queries, which Django keeps if DEBUG is on, is cleared as well. Raises MissingExtra without Django.
    """

    def __init__(self) -> None:
        try:
            from django.db import close_old_connections, reset_queries
        except ModuleNotFoundError:
            raise MissingExtra("django", "stanchion.middleware.DjangoConnections") from None
        self._close, self._reset = close_old_connections, reset_queries

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def run(self, _attempt: Attempt, call_next: CallNext) -> Any:
        """Run the rest of a sync attempt."""
        self._begin()
        try:
            return call_next()
        finally:
            self._close()

    async def arun(self, _attempt: Attempt, call_next: AsyncCallNext) -> Any:
        """Run the rest of an async attempt; its connections belong to the thread of Django's async queries."""
        from asgiref.sync import sync_to_async

        await sync_to_async(self._begin)()
        try:
            return await call_next()
        finally:
            await sync_to_async(self._close)()

    def _begin(self) -> None:
        self._reset()
        self._close()
