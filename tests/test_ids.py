"""Ids are UUIDs of version 7, each above the one before."""

import os
import time
from itertools import pairwise
from uuid import RFC_4122, UUID

import pytest

from stanchion.core import ids


def counted(text: str) -> int:
    """Return the number in an id, without its version and variant."""
    value = UUID(text).int
    return (value >> 80) << 74 | (value >> 64 & 0xFFF) << 62 | value & (1 << 62) - 1


@pytest.mark.parametrize("random_octet", [b"\x00", b"\x5a", b"\xff"], ids=["lowest", "middle", "with a carry"])
def test_ascending_and_of_version_7(monkeypatch: pytest.MonkeyPatch, random_octet: bytes) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: random_octet * count)
    monkeypatch.setattr(ids, "_last", 0)
    before = time.time_ns() // 1_000_000
    found = ids.new_ids(1000)
    after = time.time_ns() // 1_000_000
    assert found == sorted(set(found))
    assert [str(UUID(one)) for one in found] == found
    assert {(UUID(one).version, UUID(one).variant) for one in found} == {(7, RFC_4122)}
    assert before <= UUID(found[0]).int >> 80 <= after
    assert {b - a for a, b in pairwise(map(counted, found))} == {1}


def test_above_the_last_one_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    last = ids.new_id()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert ids.new_id() > last


def test_none() -> None:
    assert ids.new_ids(0) == []


def test_the_room_of_an_id_is_for_the_ids_of_parts_in_order() -> None:
    whole, behind = ids.new_id_with_room(), ids.new_id_with_room()
    parts = [ids.id_within(whole, place) for place in (0, 1, 5, 10_000, ids.PLACES - 1, ids.PLACES + 5)]
    of_parts = [ids.id_within(part, place) for part, place in zip(parts[:4], (0, 3, 7, 10_002), strict=True)]
    found = sorted([whole, behind, ids.new_id(), *parts, *of_parts])
    assert found[:11] == [whole, parts[0], of_parts[0], parts[1], of_parts[1], parts[2], of_parts[2], *found[7:11]]
    assert found[7:9] == [parts[3], of_parts[3]]
    assert found[11] == behind
    assert all(ids.ID.fullmatch(one) for one in found)


def test_no_id_of_a_room_returns() -> None:
    found = [ids.new_id_with_room()]
    for _ in range(1000):
        found.append(ids.id_within(found[-1], 0))
    assert found == sorted(set(found))
    assert len({ids.id_within(found[0], 7) for _ in range(3)}) > 1


def test_rooms_of_other_processes_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made in the same millisecond, each by a process of its own."""
    monkeypatch.setattr(ids, "_lock", ids._lock)
    monkeypatch.setattr(ids, "_last", ids._last)
    monkeypatch.setattr(ids, "_random", b"")
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    found = set()
    for _ in range(3000):
        ids._in_forked_child()
        found.add(ids.new_id_with_room())
    assert len(found) == 3000


def test_tokens_are_drawn_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of the system for each would let another thread go first, and the claimer wait."""
    calls = []
    urandom = os.urandom

    def drawn(count: int) -> bytes:
        calls.append(count)
        return urandom(count)

    monkeypatch.setattr(ids, "_tokens", [])
    monkeypatch.setattr(os, "urandom", drawn)
    tokens = [ids.new_token() for _ in range(128)]
    assert len(calls) == 2
    assert len({*tokens}) == 128
    assert {len(token) for token in tokens} == {16}


def test_a_forked_child_draws_tokens_of_its_own() -> None:
    ids.new_token()
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.write(writes, ids.new_token().encode())
        os._exit(0)
    found = os.read(reads, 100).decode()
    os.wait()
    assert len(found) == 16
    assert found not in [ids.new_token() for _ in range(128)]
