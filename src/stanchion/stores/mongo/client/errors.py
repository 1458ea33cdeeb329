"""The meaning of a driver error for the call that it ended."""

from __future__ import annotations

from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DuplicateKeyError,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    WaitQueueTimeoutError,
)

from stanchion.stores.cas.faults import Fault

DUPLICATE = 11000
MAX_DOCUMENT = 16 << 20
"""Maximum bytes of a document in MongoDB."""
TOO_LARGE = (
    f"this takes more than the limit of {MAX_DOCUMENT:,} bytes in one document of MongoDB, which holds a job with its "
    f"payload, headers, result, errors and the jobs that it continues as, or a node of a flow; store large values "
    f"elsewhere and pass a reference"
)

# BSONObjectTooLarge, and the code for an update
_TOO_LARGE = frozenset({10334, 17419})
_TOO_LARGE_WORDS = ("too large", "larger than", "Size must be between")
# WriteConflict, LockTimeout, LockBusy, SnapshotUnavailable, TooManyLogicalSessions
_BUSY = frozenset({112, 24, 46, 246, 261})
# HostUnreachable, HostNotFound, NetworkTimeout, ShutdownInProgress, WriteConcernFailed, MaxTimeMSExpired,
# CursorNotFound, PrimarySteppedDown, ExceededTimeLimit, SocketException, NotWritablePrimary, Interrupted and its
# kin, NotPrimaryNoSecondaryOk, CursorKilled, QueryPlanKilled, ReadConcernMajorityNotAvailableYet
_LOST = frozenset({6, 7, 89, 91, 64, 50, 43, 189, 262, 9001, 10107, 11600, 11601, 11602, 13435, 13436, 237, 175, 134})
# PrimarySteppedDown, NotWritablePrimary, InterruptedDueToReplStateChange, NotPrimaryNoSecondaryOk and its kin
_NOT_PRIMARY = frozenset({189, 10107, 11602, 13435, 13436})
# Unauthorized, AuthenticationFailed, Atlas' own, UserNotFound, MechanismUnavailable
_HOPELESS = frozenset({13, 18, 8000, 11, 334})


def fault_of(error: PyMongoError) -> Fault:
    """Return the kind of an error."""
    if isinstance(error, DuplicateKeyError):
        return Fault.OTHER
    if isinstance(error, BulkWriteError):
        return _fault_of_bulk(error)
    if isinstance(error, OperationFailure):
        return Fault.LOST if error.has_error_label("RetryableWriteError") else _fault_of_code(error.code)
    if isinstance(error, ConfigurationError):
        return Fault.HOPELESS
    lost = isinstance(error, (AutoReconnect, ConnectionFailure, WaitQueueTimeoutError)) or error.timeout
    return Fault.LOST if lost else Fault.OTHER


def is_too_large(error: PyMongoError) -> bool:
    """Return True if a document would exceed the server's maximum size."""
    if isinstance(error, BulkWriteError):
        return any(_about_size(one["code"], one["errmsg"]) for one in error.details["writeErrors"])
    return isinstance(error, OperationFailure) and _about_size(error.code, str(error))


def _about_size(code: int | None, text: str) -> bool:
    # Insertions are refused with generic codes, 2 by MongoDB and 8 by others: only the words distinguish them.
    return code in _TOO_LARGE or (code in (2, 8) and any(words in text for words in _TOO_LARGE_WORDS))


def without_documents(error: PyMongoError) -> PyMongoError:
    """Return the error without its documents: it is logged, and they contain payloads."""
    details = getattr(error, "details", None) or {}
    for one in (details, *details.get("writeErrors", ())):
        for field in ("op", "errInfo"):
            one.pop(field, None)
    if details:
        what = str(error).partition(", full error:")[0]
        error.args = (f"{what}, full error: {details}",)
    return error


def duplicates(error: BulkWriteError) -> set[int]:
    """Return the batch positions refused by a unique index; raise on any other error."""
    errors = error.details["writeErrors"]
    if error.details["writeConcernErrors"] or any(one["code"] != DUPLICATE for one in errors):
        raise error
    return {one["index"] for one in errors}


def reason_of(error: PyMongoError) -> str:
    """Return the driver's message, in one line and without its topology description."""
    text = str(error)
    for verbose in (", full error:", " (configured timeouts:", ", Timeout:", ", Topology Description:"):
        text = text.partition(verbose)[0]
    return " ".join(text.split())


def way_out(error: PyMongoError) -> str:
    """Return advice on the error."""
    if isinstance(error, OperationFailure) and error.code == 13:
        return "give the user of the URL the role readWrite on the database"
    if isinstance(error, NotPrimaryError) or (isinstance(error, OperationFailure) and error.code in _NOT_PRIMARY):
        return "this member is read-only, as during an election: wait until it is over, and name all members in the URL"
    if fault_of(error) is Fault.BUSY:
        return "other transactions were in the way all the time: make them shorter, then try again"
    return "check hosts, ports, user, password and authSource in the URL, and that a primary is up"


def _fault_of_bulk(error: BulkWriteError) -> Fault:
    if error.details["writeConcernErrors"]:
        return Fault.LOST
    faults = {_fault_of_code(one["code"]) for one in error.details["writeErrors"] if one["code"] != DUPLICATE}
    # Part of the batch is done, so the caller must check, as after a lost reply.
    return Fault.LOST if faults and faults <= {Fault.BUSY, Fault.LOST} else Fault.OTHER


def _fault_of_code(code: int | None) -> Fault:
    for codes, fault in ((_BUSY, Fault.BUSY), (_LOST, Fault.LOST), (_HOPELESS, Fault.HOPELESS)):
        if code in codes:
            return fault
    return Fault.OTHER
