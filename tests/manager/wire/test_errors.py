"""Errors arrive as the same class, with the same message and fields."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stanchion import errors
from stanchion.core import spark_errors
from stanchion.errors import InvalidInput, StanchionError, StoreUnavailable
from stanchion.stores.wire.messages import pb, read, written
from stanchion.stores.wire.statuses import (
    METADATA,
    STATUSES,
    Status,
    error_of,
    status_of,
    text_of,
    to_message,
    to_metadata,
)

KINDS = [
    kind
    for module in (errors, spark_errors)
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if kind.__module__ == module.__name__ and issubclass(kind, StanchionError)
]

EXAMPLES: list[StanchionError] = [
    errors.StanchionError("any"),
    errors.InvalidInput("no"),
    errors.ArgumentMisfit("t", "order", "Order", "id", "is missing"),
    errors.ResultMisfit("t", "Order", "id", "is missing"),
    errors.PayloadMisfit("q", 2, "lines[1].`a b`", "is a string, not int", 3),
    spark_errors.JobsMisfit("q", 2, 3, 100, "1", "field id is missing"),
    errors.SchemaRefused("q", 2, "id", "is bigint, and declared as int"),
    errors.UnknownTask("no task 'a'"),
    errors.DuplicateKey("q", "k 😀", "1", finished=True),
    errors.SearchTooWide(1000, ["1", "2"], "2"),
    errors.LeaseLost("1"),
    spark_errors.LeasesLost("q", 3, 2),
    errors.BatchLeasesLost(["1", "2"], 3),
    spark_errors.StagedJobsLost("w", 3, 2),
    spark_errors.StreamTaken("s"),
    spark_errors.ForeignCheckpoint("s", "it is old"),
    spark_errors.BatchNotKept("s", 3, 2, 1),
    spark_errors.StreamStopped("s", "1", "ValueError: 'x'"),
    spark_errors.HistoryPurged("q", "2031-05-01", "2031-05-02"),
    spark_errors.ArchiveBusy("/a"),
    spark_errors.TableRefused("/a", "it has no column n"),
    errors.CannotJoin("no"),
    errors.StoreUnavailable("gone"),
    errors.StoreUnavailable("wrong password", lasting=True),
    errors.NotPermitted("not in this role"),
    errors.SchemaMismatch("old"),
    errors.MissingExtra("redis", "the Redis store"),
    errors.JobNotFound("1", "q", "p"),
    errors.JobFailed("dead"),
    errors.JobCancelled("cancelled"),
    errors.FlowNotFound("f"),
    errors.FlowFailed("f", None, "x"),
    errors.FlowCancelled("f"),
    errors.FlowClosed("f"),
    errors.ResultTimeout("late"),
    errors.TaskTimeout("late"),
]


def arrived(error: StanchionError) -> StanchionError:
    return error_of(status_of(error), text_of(error), to_metadata(error))


def test_each_error_has_a_status() -> None:
    assert set(KINDS) == STATUSES.keys()
    assert set(KINDS) == {type(one) for one in EXAMPLES}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_error(error: StanchionError) -> None:
    found = arrived(error)
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)
    assert status_of(found) not in (Status.OK, Status.INTERNAL)


@given(st.sampled_from(KINDS), st.text(max_size=200), st.dictionaries(st.text(max_size=5), st.text(max_size=50)))
@settings(max_examples=60, deadline=None)
def test_any_text(kind: Any, text: str, details: dict[str, str]) -> None:
    error = kind.__new__(kind, text)
    error.args = (text,)
    vars(error).update(details)
    found = arrived(error)
    assert (type(found), str(found)) == (kind, str(error))
    assert set(vars(found)) <= set(vars(error))


def test_errors_of_a_newer_release() -> None:
    class DuplicateName(errors.DuplicateKey):
        pass

    class Other(Exception):
        pass

    found = arrived(DuplicateName("q", "k", "1"))
    assert type(found) is errors.DuplicateKey
    assert vars(found) == {"queue": "q", "key": "k", "job_id": "1"}
    assert status_of(DuplicateName("q", "k", "1")) == Status.ALREADY_EXISTS
    assert (status_of(Other("secret")), "secret" in text_of(Other("secret"))) == (Status.INTERNAL, False)
    unknown = pb.Error(type="Newest", bases=["Newer"], message="m")
    assert type(error_of(9, "", [(METADATA, written(unknown))])) is StanchionError


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (errors.BatchLeasesLost([f"{number:036}" for number in range(10_000)], 10_000), set()),
        (errors.DuplicateKey("q", "😀" * 5000, "1"), {"queue", "job_id"}),
        (errors.FlowFailed("f", "1", "Ä" * 100_000), {"flow_id", "job_id"}),
    ],
)
def test_large_errors_fit_into_metadata(error: StanchionError, kept: set[str]) -> None:
    found = arrived(error)
    assert vars(found).keys() == kept
    assert str(found)[:50] == str(error)[:50]
    [(_, data)] = to_metadata(error)
    percent = sum(1 if 32 <= byte < 127 else 3 for byte in text_of(error).encode())
    assert len(data) * 4 / 3 + percent < 8000, "gRPC refuses more than 8 KiB"


def test_details_that_no_message_carries() -> None:
    error = errors.StoreUnavailable("gone")
    error.add_note("seen here")
    vars(error)["connection"] = object()
    assert vars(arrived(error)) == {"lasting": False}


def test_a_peer_sets_no_more_than_fields() -> None:
    odd = pb.Error(type="LeaseLost", message="m", details={"__class__": pb.Value(text="x"), "args": pb.Value(text="y")})
    found = error_of(10, "", [(METADATA, written(odd))])
    assert type(found) is errors.LeaseLost
    assert found.args == ("m",)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status.UNAVAILABLE, StoreUnavailable),
        (Status.DEADLINE_EXCEEDED, StoreUnavailable),
        (Status.INVALID_ARGUMENT, InvalidInput),
        (Status.RESOURCE_EXHAUSTED, InvalidInput),
        (Status.UNIMPLEMENTED, errors.SchemaMismatch),
        (Status.INTERNAL, StanchionError),
        (99, StanchionError),
    ],
)
def test_statuses_alone(status: int, kind: type) -> None:
    for metadata in ([], [("other", "x")], [(METADATA, b"\xff\xff")]):
        found = error_of(status, "why", metadata)
        assert (type(found), str(found)) == (kind, "why")


def test_a_refused_token_is_lasting() -> None:
    error = error_of(Status.UNAUTHENTICATED, "why")
    assert isinstance(error, StoreUnavailable)
    assert error.lasting
    busy = error_of(Status.UNAVAILABLE, "why")
    assert isinstance(busy, StoreUnavailable)
    assert not busy.lasting


def test_the_status_travels_in_streams() -> None:
    message = read(pb.Error, written(to_message(InvalidInput("no"))))
    assert (message.status, list(message.bases)) == (3, ["StanchionError"])
    assert to_message(StoreUnavailable("full"), Status.RESOURCE_EXHAUSTED).status == 8
