"""Wake-up across the processes of a PostgreSQL database by LISTEN/NOTIFY.

A NOTIFY inside a writing transaction takes a lock over the whole server at its commit. So the signal goes out on a
connection of its own, after the commit.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import sqlalchemy
from sqlalchemy import String, bindparam, func

from stanchion.stores.broadcast import Broadcast

if TYPE_CHECKING:
    import psycopg

CHANNEL = "stanchion"
NOTIFY = sqlalchemy.select(func.pg_notify(CHANNEL, bindparam("queue", type_=String)))
_LOOK_SECONDS = 1.0
_TUPLES_OK = 2  # ExecStatus.TUPLES_OK, without the import for those who have no psycopg


class Notifications(Broadcast):
    """Signals as notifications that carry the name of a queue."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        super().__init__()

    def begin(self) -> None:
        """Send to and listen for nobody; the connection is the parent's."""
        super().begin()
        self._sender: psycopg.Connection[Any] | None = None

    def send(self, queues: set[str]) -> None:
        self._sender = self._sender or self._connect()
        for queue in queues:
            _notify(self._sender, queue)

    def hang_up(self) -> None:
        sender, self._sender = self._sender, None
        _close(sender)

    def receive(self) -> None:
        connection = self._connect()
        try:
            connection.execute(f"LISTEN {CHANNEL}")
            self.ready()
            while self.wanted():
                if queues := _signalled(connection, _LOOK_SECONDS):
                    self.listeners.wake(queues)
        finally:
            _close(connection)

    def announce_after_commit(self, session: Any, queues: Iterable[str]) -> None:
        """Announce once the session's outermost transaction is committed; never if it is rolled back."""
        from sqlalchemy import event

        waiting = session.info.setdefault("stanchion_announce", set())
        waiting.update(queues)
        if session.info.get("stanchion_hooked"):
            return
        session.info["stanchion_hooked"] = True

        def committed(session: Any) -> None:
            names = session.info.pop("stanchion_announce", None)
            if names:
                self.announce(names)

        def rolled_back(session: Any) -> None:
            session.info.pop("stanchion_announce", None)

        event.listen(session, "after_commit", committed)
        event.listen(session, "after_rollback", rolled_back)


# A signal is on the way from an enqueue to the start of its job, so these two go to the C library directly:
# psycopg's own calls take twice as long.


def _notify(connection: psycopg.Connection[Any], queue: str) -> None:
    result = connection.pgconn.exec_params(b"SELECT pg_notify($1, $2)", [CHANNEL.encode(), queue.encode()])
    if result.status != _TUPLES_OK:
        raise ConnectionError(result.error_message.decode(errors="replace"))


def _signalled(connection: psycopg.Connection[Any], seconds: float) -> set[str]:
    """Return the queues that signals have come for, waiting for the first of them."""
    session = connection.pgconn
    waiting = select.poll()
    waiting.register(session.socket, select.POLLIN)
    waiting.poll(seconds * 1000)
    session.consume_input()
    return {signal.extra.decode() for signal in iter(session.notifies, None)}


def _close(connection: psycopg.Connection[Any] | None) -> None:
    if connection is not None:
        with suppress(Exception):
            connection.close()
