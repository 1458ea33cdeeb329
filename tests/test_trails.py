"""A trail is bounded, and keeps what a replay must know of the stops that it drops."""

from typing import Any

import pytest

from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion.stores.rules.lifecycle.trail import (
    STOPS_MAX,
    arrivals_of,
    cut_trail,
    entry_payload,
    moved_job,
    own_stops_of,
    payload_at,
    split_trail,
    stops_of,
    was_split,
)


def item(queue: str, payload: str = "0", **fields: Any) -> JobRow:
    return created(NewJob("1", queue, payload, **fields), 0)


def rounds(row: JobRow, *, changes: bool) -> JobRow:
    """Move a job to and fro between two queues, more often than a trail has stops."""
    for number in range(STOPS_MAX + 20):
        row = moved_job(row, "ab"[number % 2], number, str(number) if changes else row.payload, keep_entry=True)
    return row


@pytest.mark.parametrize("changes", [False, True])
def test_one_that_goes_round_keeps_its_entry(changes: bool) -> None:
    row = rounds(moved_job(item("entry"), "b", 0, "first", keep_entry=True), changes=changes)
    stops = [stop.queue for stop in stops_of(row)]
    assert (len(stops), stops[0], stops[-2:]) == (STOPS_MAX, "entry", ["a", "b"])
    assert (payload_at(row, "entry"), entry_payload(row)) == ("0", "0")
    assert payload_at(row, "b") == row.payload
    assert payload_at(row, "a") == (None if changes else "first")


@pytest.mark.parametrize("changes", [False, True])
def test_one_that_was_split_from_another_may_lose_its_entry(changes: bool) -> None:
    row = rounds(item("part", trail=split_trail(item("raw"))), changes=changes)
    assert was_split(row)
    assert len(stops_of(row)) == STOPS_MAX
    assert [payload_at(row, one) for one in ("raw", "part")] == [None, None]
    assert payload_at(row, "b") == row.payload
    assert payload_at(row, "a") == (None if changes else "0")


def test_one_whose_only_change_was_dropped_keeps_its_entry() -> None:
    row = moved_job(moved_job(item("entry"), "b", 0, "0"), "b", 0, "first", keep_entry=True)
    row = rounds(row, changes=False)
    assert [payload_at(row, one) for one in ("entry", "a", "b")] == ["0", "first", "first"]


def test_a_part_that_stays_did_not_arrive_there_itself() -> None:
    chunk = moved_job(item("raw"), "clean", 5, "1")
    part = item("clean", "2", trail=cut_trail(chunk))
    assert [stop[:2] for stop in own_stops_of(part)] == [("clean", 5)]
    assert (arrivals_of(part), payload_at(part, "clean"), payload_at(part, "raw")) == ([], "2", None)
    letter = item("dead", "2", trail=cut_trail(chunk, left=True))
    assert [stop.queue for stop in own_stops_of(letter)] == ["clean", "dead"]
    assert ([stop.queue for stop in arrivals_of(letter)], payload_at(letter, "clean")) == (["dead"], "2")
    for number in range(STOPS_MAX + 20):  # also while its first stops are dropped
        part = moved_job(part, "ab"[number % 2], 6 + number, "2")
        assert {stop.queue for stop in arrivals_of(part)} <= {"a", "b"}
        assert was_split(part)
