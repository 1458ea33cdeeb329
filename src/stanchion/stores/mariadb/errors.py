"""The error numbers of MariaDB and MySQL, and their meaning for a call."""

from __future__ import annotations

import socket

import pymysql

from stanchion.stores.sql.engine.dialect import Fault

_BUSY = {
    1020: "record has changed since last read: innodb_snapshot_isolation",
    1205: "lock wait timeout",
    1213: "deadlock",
    1317: "cancelled by KILL QUERY",
    1412: "table definition has changed",
    1969: "cancelled by max_statement_time",
    3024: "cancelled by max_execution_time",
}
_DATA = {
    1118: "row too large",
    1153: "larger than max_allowed_packet",
    1264: "out of range",
    1265: "truncated",
    1301: "larger than max_allowed_packet, as the result of a function",
    1366: "not in the character set",
    1406: "too long",
}
SMALLER_PACKET = "store large values elsewhere and pass a reference, or raise max_allowed_packet"
_READ_ONLY = {
    1290: "read only, as after a failover",
    1836: "read only",
}
_LOST = {
    0: "the connection is closed",
    1021: "disk full",
    1030: "error from the storage engine",
    1040: "too many connections",
    1041: "out of memory",
    1042: "bad host",
    1043: "bad handshake",
    1053: "server shutdown",
    1114: "table full",
    1129: "host blocked for its many errors",
    1135: "can't create a thread",
    1156: "packets out of order",
    1158: "error while reading a packet",
    1159: "timeout while reading a packet",
    1160: "error while writing a packet",
    1161: "timeout while writing a packet",
    1180: "error during commit",
    1203: "too many connections of this user",
    1226: "a limit of this user",
    1927: "connection killed",
    2002: "can't connect through the socket",
    2003: "can't connect",
    2005: "unknown host",
    2006: "server has gone away",
    2013: "lost connection",
    2014: "commands out of sync",
    2026: "TLS failed",
    2027: "malformed packet",
    2055: "lost connection",
    3169: "session killed",
    4031: "idle for too long",
}
_HOPELESS = {
    1044: "no access to the database",
    1045: "wrong user or password",
    1049: "no such database",
    1130: "not from this host",
    1142: "no right to the table",
    1143: "no right to the column",
    1227: "no right to do this",
    1370: "no right to the procedure",
    1698: "wrong user or password",
    1820: "the password has expired",
    1862: "the password has expired",
    3118: "account locked",
    4151: "account locked",
}
_FORBIDDEN = frozenset({1044, 1142, 1143, 1227, 1370})


def fault(error: BaseException) -> Fault:
    """Classify an error of the driver."""
    number = _number(error)
    if number in _BUSY:
        return Fault.BUSY
    if number in _DATA:
        return Fault.DATA
    if number in _LOST or number in _READ_ONLY or number in _HOPELESS or isinstance(error, pymysql.err.InterfaceError):
        return Fault.LOST
    return Fault.OTHER


def advice(error: BaseException) -> str | None:
    """Return the remedy for an error; None: nothing beyond its message."""
    return SMALLER_PACKET if _number(error) in (1153, 1301) else None


def is_forbidden(error: BaseException) -> bool:
    """Return whether a right is missing."""
    return _number(error) in _FORBIDDEN


def is_read_only(error: BaseException) -> bool:
    """Return whether the server takes no writes at present."""
    return _number(error) in _READ_ONLY


def worth_retrying(error: BaseException) -> bool:
    """Return False for an error that time does not fix."""
    cause = getattr(error, "original_exception", None)
    return _number(error) not in _HOPELESS and not isinstance(cause, socket.gaierror)


def _number(error: BaseException) -> int | None:
    """Return the number of an error raised by the driver or the server; None if it has none."""
    if isinstance(error, pymysql.err.Error) and error.args and isinstance(error.args[0], int):
        return error.args[0]
    return None
