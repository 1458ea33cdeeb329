"""Wake-up across the processes of a PostgreSQL database by LISTEN/NOTIFY.

A NOTIFY inside a writing transaction takes a server-wide lock at its commit. So the signal is sent over a separate
connection, after the commit.
"""

from __future__ import annotations

import secrets
import select
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import sqlalchemy
from sqlalchemy import String, bindparam, func

from stanchion.stores.wakeup.broadcast import MOST_ENDS, Broadcast, Kind, Reception

if TYPE_CHECKING:
    import psycopg

_CHANNELS = {Kind.WORK: "stanchion", Kind.ENDS: "stanchion_flow_ends"}
NOTIFY = sqlalchemy.select(func.pg_notify(bindparam("channel", type_=String), bindparam("payload", type_=String)))
_ANY = "*"
"""The payload of a signal for more ended jobs than it can name."""

_PROBE = "\x01"
"""Prefix of a signal that a listener sends to itself, to test whether signals arrive; a pooler may prevent that."""

_POLL_SECONDS = 1.0
_TUPLES_OK = 2  # ExecStatus.TUPLES_OK, without an import of psycopg, which may be absent


class Notifications(Broadcast):
    """Signals as notifications that carry the name of a queue, or ids of jobs."""

    def __init__(self, connect: Callable[[], psycopg.Connection[object]], schema: str | None = None) -> None:
        self._connect = connect
        # Programs name the schema public or leave it out, and reach the same tables.
        behind = "" if schema in (None, "public") else f":{schema}"
        self.channels = {kind: name + behind for kind, name in _CHANNELS.items()}
        """The channels of the store: PostgreSQL has one set of names for a whole database."""
        super().__init__()

    def begin(self) -> None:
        """Drop all listeners and the connection, which after a fork is the parent's."""
        super().begin()
        self._sender: psycopg.Connection[object] | None = None
        self._sender_pid = 0
        self._probes: list[tuple[str, str]] = []

    def send(self, queues: set[str], finished: set[str] | None) -> None:
        if self._sender is None:
            self._sender = self._connect()
            self._sender_pid = self._sender.info.backend_pid
        with self._state:
            probes, self._probes = self._probes, []
        for channel, payload in (*probes, *self.signals_of(queues, finished)):
            _notify(self._sender, channel, payload)

    def hang_up(self) -> None:
        sender, self._sender = self._sender, None
        _close(sender)

    def receive(self, reception: Reception) -> None:
        connection = self._connect()
        probe = _PROBE + secrets.token_hex(8)
        try:
            connection.execute(f'LISTEN "{self.channels[reception.kind]}"')
            reception.ready(connected=False)
            self._probe(self.channels[reception.kind], probe)
            while reception.wanted():
                signals = _signalled(connection, _POLL_SECONDS)
                if any(payload == probe for _, payload in signals):
                    reception.connected = True
                # Listeners of this process were woken when its own signals were announced.
                others = {payload for sender, payload in signals if sender != self._sender_pid}
                news = {payload for payload in others if not payload.startswith(_PROBE)}
                if news and reception.kind is Kind.WORK:
                    self.listeners.wake(news)
                elif news:
                    self.listeners.wake((), None if _ANY in news else {one for ids in news for one in ids.split(",")})
        finally:
            _close(connection)

    def _probe(self, channel: str, payload: str) -> None:
        with self._state:
            self._probes.append((channel, payload))
            self._send_soon()

    def signals_of(self, queues: Iterable[str], finished: Collection[str] | None) -> Iterator[tuple[str, str]]:
        """Yield the channels and payloads of the signals for these queues and ended jobs."""
        for queue in queues:
            yield self.channels[Kind.WORK], queue
        if finished is None or len(finished) > MOST_ENDS:
            yield self.channels[Kind.ENDS], _ANY
        elif finished:
            yield self.channels[Kind.ENDS], ",".join(finished)

    def _has_unsent(self) -> bool:
        return bool(self._probes) or super()._has_unsent()


# A signal lies between a push and the start of the job, so these two call the C library directly: psycopg's own calls
# take twice as long.


def _notify(connection: psycopg.Connection[object], channel: str, payload: str) -> None:
    result = connection.pgconn.exec_params(b"SELECT pg_notify($1, $2)", [channel.encode(), payload.encode()])
    if result.status != _TUPLES_OK:
        raise ConnectionError(result.error_message.decode(errors="replace"))


def _signalled(connection: psycopg.Connection[object], seconds: float) -> set[tuple[int, str]]:
    """Wait up to `seconds` for a signal; return the senders of signals received by then, and their contents."""
    session = connection.pgconn
    waiting = select.poll()
    waiting.register(session.socket, select.POLLIN)
    waiting.poll(seconds * 1000)
    session.consume_input()
    return {(signal.be_pid, signal.extra.decode()) for signal in iter(session.notifies, None)}


def _close(connection: psycopg.Connection[object] | None) -> None:
    if connection is not None:
        with suppress(Exception):
            connection.close()
