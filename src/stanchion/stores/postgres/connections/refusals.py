"""The error code of a refused connection.

libpq passes on only the words of such an error, in the language of the server, and so does psycopg. But libpq can trace
the messages of the protocol, which carry the code: from release 18 on all of them, before that those after the
authentication, and on Linux only. So a refused connection is tried once more, to read its code. Without a code, a
caller keeps trying until its deadline.
"""

from __future__ import annotations

import os
import re
import select
import socket
import time

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

_SECONDS = 2.0
_FRESH_SECONDS, _MOST = 60.0, 64
"""Seconds that the cause of one message is remembered, and messages: while a server is away, all threads fail over
and over, and psycopg never frees the stream of a trace."""
_CODE = re.compile(rb'^[^\n]*\tErrorResponse\t(?: [SV] "[^"\n]*")* C "([0-9A-Z]{5})"', re.MULTILINE)


class Refusals:
    """Adds the code, or the failure of the resolver, to errors of refused connections."""

    def __init__(self) -> None:
        self._causes: dict[str, tuple[float, str | socket.gaierror | None]] = {}

    def explain(self, error: psycopg.OperationalError, conninfo: str) -> None:
        """Set `sqlstate` or `__cause__` of the error, if that can be learned."""
        if error.sqlstate is None:
            cause = self._cause(str(error), conninfo)
            if isinstance(cause, socket.gaierror):
                error.__cause__ = cause
            else:
                error.sqlstate = cause

    def _cause(self, said: str, conninfo: str) -> str | socket.gaierror | None:
        learned, cause = self._causes.get(said, (0.0, None))
        if not learned or time.monotonic() - learned > _FRESH_SECONDS:
            cause = _unresolved(conninfo) or code_of_refusal(conninfo)
            if len(self._causes) >= _MOST:
                self._causes.clear()
            self._causes[said] = (time.monotonic(), cause)
        return cause


def code_of_refusal(conninfo: str) -> str | None:
    """Return the SQLSTATE of the server's refusal of this connection; None if it accepts, or none can be read."""
    if not hasattr(os, "memfd_create"):
        return None
    with os.fdopen(os.memfd_create("stanchion-trace"), "rb") as trace:  # it may hold the password
        attempt = pq.PGconn.connect_start(conninfo.encode())
        try:
            attempt.trace(trace.fileno())
            _finish(attempt)
        except psycopg.Error:  # another system, or an old libpq
            return None
        finally:
            attempt.untrace()  # writes the rest, before the file is closed
            attempt.finish()
        trace.seek(0)
        codes = _CODE.findall(trace.read())
    return codes[-1].decode() if codes else None


def _finish(attempt: pq.abc.PGconn) -> None:
    """Run a connection attempt to its end, or to the time limit."""
    deadline = time.monotonic() + _SECONDS
    while (left := deadline - time.monotonic()) > 0:
        state = attempt.connect_poll()
        if state not in (pq.PollingStatus.READING, pq.PollingStatus.WRITING):
            return
        waiting = select.poll()
        waiting.register(attempt.socket, select.POLLIN if state == pq.PollingStatus.READING else select.POLLOUT)
        waiting.poll(left * 1000)


def _unresolved(conninfo: str) -> socket.gaierror | None:
    """Return the resolver's error, if it knows no host of them."""
    given = conninfo_to_dict(conninfo)
    hosts = [host for host in str(given.get("host") or "").split(",") if not host.startswith("/")]
    if given.get("hostaddr") or not any(hosts):
        return None
    found: socket.gaierror | None = None
    for host in hosts:
        try:
            socket.getaddrinfo(host or None, 0)
        except socket.gaierror as error:
            found = error
        else:
            return None
    return found
