"""What an error of the driver means for the call that it ended."""

from __future__ import annotations

from enum import Enum, auto

from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DuplicateKeyError,
    InvalidOperation,
    OperationFailure,
    PyMongoError,
    WaitQueueTimeoutError,
)

DUPLICATE = 11000
MAX_DOCUMENT = 16 << 20
"""The bytes that MongoDB stores in one document."""
TOO_LARGE = (
    f"this takes more than the limit of {MAX_DOCUMENT:,} bytes in one document of MongoDB, which holds a job with its "
    f"payload, headers, result, errors and the jobs that it goes on as, or a part of a flow; store large values "
    f"elsewhere and pass a reference"
)


class Fault(Enum):
    """Why the server did not do what it was asked."""

    LOST = auto()
    """The connection broke, or its node lost its part; it may have been done."""
    BUSY = auto()
    """The server can't for the moment; nothing was done."""
    HOPELESS = auto()
    """It won't, however often it is asked."""
    OTHER = auto()
    """An error of another kind."""


# BSONObjectTooLarge, and that of an update
_TOO_LARGE = frozenset({10334, 17419})
_WORDS_FOR_IT = ("too large", "larger than", "Size must be between")
# WriteConflict, LockTimeout, LockBusy, SnapshotUnavailable, TooManyLogicalSessions
_BUSY = frozenset({112, 24, 46, 246, 261})
# HostUnreachable, HostNotFound, NetworkTimeout, ShutdownInProgress, WriteConcernFailed, MaxTimeMSExpired,
# CursorNotFound, PrimarySteppedDown, ExceededTimeLimit, SocketException, NotWritablePrimary, Interrupted and its
# kin, NotPrimaryNoSecondaryOk, CursorKilled, QueryPlanKilled, ReadConcernMajorityNotAvailableYet
_LOST = frozenset({6, 7, 89, 91, 64, 50, 43, 189, 262, 9001, 10107, 11600, 11601, 11602, 13435, 13436, 237, 175, 134})
# Unauthorized, AuthenticationFailed, Atlas' own, UserNotFound, MechanismUnavailable
_HOPELESS = frozenset({13, 18, 8000, 11, 334})


def fault_of(error: PyMongoError) -> Fault:
    """Tell what an error means."""
    if isinstance(error, DuplicateKeyError):
        return Fault.OTHER
    if isinstance(error, BulkWriteError):
        return _fault_of_bulk(error)
    if isinstance(error, OperationFailure):
        return Fault.LOST if error.has_error_label("RetryableWriteError") else _fault_of_code(error.code)
    if isinstance(error, ConfigurationError):
        return Fault.HOPELESS
    if isinstance(error, InvalidOperation) and "after close" in str(error):  # another thread has closed the store
        return Fault.LOST
    lost = isinstance(error, (AutoReconnect, ConnectionFailure, WaitQueueTimeoutError)) or error.timeout
    return Fault.LOST if lost else Fault.OTHER


def is_too_large(error: PyMongoError) -> bool:
    """Tell whether a document would have been larger than the server stores."""
    if isinstance(error, BulkWriteError):
        return any(_about_size(one["code"], one["errmsg"]) for one in error.details["writeErrors"])
    return isinstance(error, OperationFailure) and _about_size(error.code, str(error))


def _about_size(code: int | None, text: str) -> bool:
    # Insertions are refused under codes of many meanings: 2 by MongoDB, 8 by others.
    return code in _TOO_LARGE or (code in (2, 8) and any(words in text for words in _WORDS_FOR_IT))


def without_documents(error: PyMongoError) -> PyMongoError:
    """Return an error that shows none of the documents that it was about: it goes into logs, and they hold payloads."""
    details = getattr(error, "details", None) or {}
    for one in (details, *details.get("writeErrors", ())):
        for told in ("op", "errInfo"):
            one.pop(told, None)
    if details:
        what = str(error).partition(", full error:")[0]
        error.args = (f"{what}, full error: {details}",)
    return error


def duplicates(error: BulkWriteError) -> set[int]:
    """Return the positions in the batch at which a unique index stood in the way; raise where anything else did."""
    errors = error.details["writeErrors"]
    if error.details["writeConcernErrors"] or any(one["code"] != DUPLICATE for one in errors):
        raise error
    return {one["index"] for one in errors}


def reason_of(error: PyMongoError) -> str:
    """Return the driver's words, in one line and without its state of the world."""
    text = str(error)
    for verbose in (", full error:", " (configured timeouts:", ", Timeout:", ", Topology Description:"):
        text = text.partition(verbose)[0]
    return " ".join(text.split())


def way_out(error: PyMongoError) -> str:
    """Say what to do."""
    if isinstance(error, OperationFailure) and error.code == 13:
        return "give the user of the URL the role readWrite on the database"
    if fault_of(error) is Fault.BUSY:
        return "other transactions were in the way all the time: make them shorter, then try again"
    return "check hosts, ports, user, password and authSource in the URL, and that a primary is up"


def _fault_of_bulk(error: BulkWriteError) -> Fault:
    if error.details["writeConcernErrors"]:
        return Fault.LOST
    faults = {_fault_of_code(one["code"]) for one in error.details["writeErrors"] if one["code"] != DUPLICATE}
    # Some of the batch is done: what follows must look, as after a lost reply.
    return Fault.LOST if faults and faults <= {Fault.BUSY, Fault.LOST} else Fault.OTHER


def _fault_of_code(code: int | None) -> Fault:
    for codes, fault in ((_BUSY, Fault.BUSY), (_LOST, Fault.LOST), (_HOPELESS, Fault.HOPELESS)):
        if code in codes:
            return fault
    return Fault.OTHER
