"""Errors as gRPC statuses, with their class and fields as metadata, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from stanchion import errors
from stanchion.core import spark_errors
from stanchion.errors import InvalidInput, StanchionError, StoreUnavailable
from stanchion.stores.wire.messages import build, pb, read, written
from stanchion.stores.wire.values import value_fields, value_in

METADATA: Final = "stanchion-error-bin"
"""The key of the trailing metadata with the error."""

MESSAGE_MAX, TEXT_MAX, DETAILS_MAX = 2000, 1000, 1000
"""Bytes of an error's message, of the text of its status, and of its details, that pass whole; larger details are left
out, the largest first. Encoded, all of it stays below the 8 KiB of metadata that gRPC takes."""


class Status(IntEnum):
    """The statuses of gRPC that calls end with."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


STATUSES: Final[dict[type[StanchionError], Status]] = {
    errors.StanchionError: Status.UNKNOWN,
    errors.InvalidInput: Status.INVALID_ARGUMENT,
    errors.PayloadMisfit: Status.INVALID_ARGUMENT,
    errors.SchemaRefused: Status.FAILED_PRECONDITION,
    spark_errors.JobsMisfit: Status.FAILED_PRECONDITION,
    errors.ArgumentMisfit: Status.INVALID_ARGUMENT,
    errors.ResultMisfit: Status.INVALID_ARGUMENT,
    errors.UnknownTask: Status.NOT_FOUND,
    errors.DuplicateKey: Status.ALREADY_EXISTS,
    errors.SearchTooWide: Status.OUT_OF_RANGE,
    errors.LeaseLost: Status.ABORTED,
    spark_errors.LeasesLost: Status.ABORTED,
    errors.BatchLeasesLost: Status.ABORTED,
    spark_errors.StagedJobsLost: Status.ABORTED,
    spark_errors.StreamTaken: Status.ABORTED,
    spark_errors.ArchiveBusy: Status.ABORTED,
    spark_errors.ForeignCheckpoint: Status.FAILED_PRECONDITION,
    spark_errors.BatchNotKept: Status.FAILED_PRECONDITION,
    spark_errors.StreamStopped: Status.FAILED_PRECONDITION,
    spark_errors.TableRefused: Status.FAILED_PRECONDITION,
    spark_errors.HistoryPurged: Status.FAILED_PRECONDITION,
    errors.CannotJoin: Status.FAILED_PRECONDITION,
    errors.SchemaMismatch: Status.FAILED_PRECONDITION,
    errors.MissingExtra: Status.FAILED_PRECONDITION,
    errors.JobFailed: Status.FAILED_PRECONDITION,
    errors.JobCancelled: Status.FAILED_PRECONDITION,
    errors.FlowFailed: Status.FAILED_PRECONDITION,
    errors.FlowCancelled: Status.FAILED_PRECONDITION,
    errors.FlowClosed: Status.FAILED_PRECONDITION,
    errors.StoreUnavailable: Status.UNAVAILABLE,
    errors.NotPermitted: Status.PERMISSION_DENIED,
    errors.JobNotFound: Status.NOT_FOUND,
    errors.FlowNotFound: Status.NOT_FOUND,
    errors.ResultTimeout: Status.DEADLINE_EXCEEDED,
    errors.TaskTimeout: Status.DEADLINE_EXCEEDED,
}
"""The status of each error."""

_CLASSES: Final = {kind.__name__: kind for kind in STATUSES}

_OF_STATUS: Final[dict[Status, type[StanchionError]]] = {
    Status.INVALID_ARGUMENT: InvalidInput,
    Status.UNAVAILABLE: StoreUnavailable,
    Status.DEADLINE_EXCEEDED: StoreUnavailable,
    Status.CANCELLED: StoreUnavailable,
    Status.RESOURCE_EXHAUSTED: InvalidInput,
    Status.UNAUTHENTICATED: StoreUnavailable,
    Status.PERMISSION_DENIED: errors.NotPermitted,
    Status.UNIMPLEMENTED: errors.SchemaMismatch,
}
"""The error of a status that came without one, from gRPC itself or from a proxy: such as RESOURCE_EXHAUSTED, for a
message over the limit."""

_LASTING: Final = (Status.UNAUTHENTICATED,)


def status_of(error: BaseException) -> Status:
    """Return the status of an error; INTERNAL if it is not one of Stanchion."""
    return next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), Status.INTERNAL)


def to_message(error: StanchionError, status: Status | None = None) -> pb.Error:
    """Return the message for an error. A long text is cut, and large details are left out."""
    bases = [kind.__name__ for kind in type(error).__mro__[1:] if issubclass(kind, StanchionError)]
    return build(
        pb.Error,
        {
            "type": type(error).__name__,
            "message": _cut(str(error), MESSAGE_MAX),
            "details": _details(vars(error)),
            "bases": bases,
            "status": status_of(error) if status is None else status,
        },
    )


def to_metadata(error: StanchionError, status: Status | None = None) -> tuple[tuple[str, bytes], ...]:
    """Return the trailing metadata of a call that an error ends."""
    return ((METADATA, written(to_message(error, status))),)


def text_of(error: BaseException) -> str:
    """Return the text of the status of an error."""
    if isinstance(error, StanchionError):
        return _cut(str(error), TEXT_MAX)
    return f"the manager failed, and its log has more: {type(error).__name__}"


def _cut(text: str, at_most: int) -> str:
    data = text.encode(errors="replace")
    return data.decode() if len(data) <= at_most else data[: at_most - 3].decode(errors="ignore") + "..."


def _details(fields: Mapping[str, object]) -> dict[str, pb.Value]:
    found = {}
    for name, value in fields.items():
        if name.startswith("_"):
            continue
        try:
            found[name] = build(pb.Value, value_fields(value))
        except InvalidInput:
            continue  # of no use to another process
    while sum(one.ByteSize() for one in found.values()) > DETAILS_MAX:
        del found[max(found, key=lambda name: found[name].ByteSize())]
    return found


def error_in(message: pb.Error) -> StanchionError:
    """Return the error in a message: of its class, else of the nearest base that this release knows."""
    names = (message.type, *message.bases)
    kind = next((_CLASSES[name] for name in names if name in _CLASSES), StanchionError)
    error = kind.__new__(kind, message.message)
    error.args = (message.message,)
    for name, value in message.details.items():
        found = value_in(value)
        vars(error)[name] = list(found) if isinstance(found, tuple) else found
    return error


def error_of(status: int, text: str, metadata: Iterable[tuple[str, str | bytes]] = ()) -> StanchionError:
    """Return the error that ended a call: from its trailing metadata, else from its status."""
    for key, value in metadata:
        if key == METADATA and isinstance(value, bytes):
            try:
                return error_in(read(pb.Error, value))
            except InvalidInput:
                break
    known = Status(status) if status in set(Status) else Status.UNKNOWN
    kind = _OF_STATUS.get(known, StanchionError)
    if kind is StoreUnavailable:
        return StoreUnavailable(text, lasting=known in _LASTING)
    return kind(text)
