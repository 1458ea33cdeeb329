"""The error codes (SQLSTATE) of PostgreSQL, and their meaning for a call."""

from __future__ import annotations

import socket
from typing import Final

import psycopg

from stanchion.stores.sql.engine.dialect import Fault

_BUSY = {
    "25P04": "transaction_timeout",
    "40001": "serialization failure",
    "40P01": "deadlock",
    "55006": "object in use",
    "55P03": "lock not available",
    "57014": "cancelled: by statement_timeout, lock_timeout or an operator",
}
_POOLED_AWAY = {
    "26000": "the prepared statement is on another connection of the pooler",
    "42P05": "another client of the pooler has prepared a statement of this name",
}
READ_ONLY: Final = "25006"
_LOST = {
    "25P03": "idle_in_transaction_session_timeout",
    READ_ONLY: "read only, as after a failover: another connection may reach the new primary",
    "40003": "the connection broke during the commit",
    "55000": "not in this state, as during recovery",
}
_LOST_CLASSES = {
    "08": "connection",
    "53": "out of memory, disk or connections",
    "57": "shut down, starting up, or the session ended",
    "58": "error of the operating system",
    "XX": "internal error",
}
_DATA_CLASSES = {
    "22": "a value that does not fit, or that the encoding lacks",
    "54": "larger than a limit of the server",
}
_FORBIDDEN = {
    "42501": "no right to do this",
    "3F000": "no schema to make tables in: none exists, or the user has no right to use it",
}
_HOPELESS = {
    "28000": "no such user, or not from this host",
    "28P01": "wrong password",
    "3D000": "no such database",
    **_FORBIDDEN,
}
_UNTRANSLATABLE = "22P05"


def fault(error: BaseException) -> Fault:
    """Classify an error of the driver."""
    if not isinstance(error, psycopg.Error):
        return Fault.OTHER
    state = error.sqlstate
    if state is None:  # raised by the driver itself
        if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
            return Fault.LOST
        return Fault.DATA if isinstance(error, psycopg.DataError) else Fault.OTHER
    if state in _BUSY or state in _POOLED_AWAY:
        return Fault.BUSY
    if state in _LOST or state in _HOPELESS or state[:2] in _LOST_CLASSES:
        return Fault.LOST
    return Fault.DATA if state[:2] in _DATA_CLASSES else Fault.OTHER


def is_pooled_away(error: BaseException) -> bool:
    """Return whether a pooler has lost a prepared statement."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _POOLED_AWAY


def is_forbidden(error: BaseException) -> bool:
    """Return whether a right is missing."""
    return getattr(error, "sqlstate", None) in _FORBIDDEN


def worth_retrying(error: BaseException) -> bool:
    """Return False for an error that time does not fix."""
    if isinstance(error.__cause__, socket.gaierror):
        return False
    return getattr(error, "sqlstate", None) not in _HOPELESS


def advice(error: BaseException) -> str | None:
    """Return the next step after an error; None: the same as after most others."""
    state = getattr(error, "sqlstate", None)
    if state == _UNTRANSLATABLE:
        return "leave these characters out, or move the tables to a database whose encoding is UTF8"
    return None
