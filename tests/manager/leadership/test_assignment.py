"""Which session a slice belongs to, against frozen vectors and a second implementation; and slices of lanes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stanchion.core.checks import MAX_NAME
from stanchion.manager.leadership.assignment import assignment
from stanchion.manager.leadership.slices import SLICES_MAX, slices_of, value_name

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "slice_assignments.json").read_text("utf-8"))

queues = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=MAX_NAME)
counts = st.integers(1, SLICES_MAX)
some_sessions = st.sets(st.text("0123456789abcdef", min_size=1, max_size=32), min_size=1, max_size=9).map(
    lambda found: tuple(sorted(found))
)


@pytest.mark.parametrize(
    "vector", VECTORS, ids=lambda one: f"{one['queue'][:20]}-{one['slices']}-{len(one['sessions'])}"
)
def test_is_what_it_always_was(vector: dict[str, Any]) -> None:
    queue, count, sessions, owners = vector.values()
    assert [sessions.index(one) for one in assignment(queue, count, tuple(sessions))] == owners


@settings(deadline=None)
@given(queues, counts, some_sessions)
def test_is_what_a_second_implementation_says(queue: str, count: int, sessions: tuple[str, ...]) -> None:
    assert list(assignment(queue, count, sessions)) == assigned(queue, count, sessions)


@settings(deadline=None)
@given(queues, counts, some_sessions)
def test_is_even(queue: str, count: int, sessions: tuple[str, ...]) -> None:
    number_of = Counter(assignment(queue, count, sessions))
    numbers = [number_of[session] for session in sessions]
    assert sum(numbers) == count
    assert max(numbers) - min(numbers) <= 1


def test_few_slices_change_hands() -> None:
    moved = dict.fromkeys((2, 4, 16), 0)
    for queue in range(20):
        for number in moved:
            sessions = [f"{n:032x}" for n in range(number + 1)]
            before = assignment(f"queue-{queue}", 64, tuple(sessions[:-1]))
            after = assignment(f"queue-{queue}", 64, tuple(sessions))
            moved[number] += sum(one != other for one, other in zip(before, after, strict=True))
    # 0.36, 0.24 and 0.14 of all with a bound of `ceil(S / n)` alone, and slices by number.
    shares = [number / 20 / 64 for number in moved.values()]
    assert all(share <= most for share, most in zip(shares, (0.37, 0.26, 0.14), strict=True)), shares


def test_single_slices_spread_over_all_sessions() -> None:
    number_of = Counter(assignment(f"queue-{n}", 1, ("a", "b", "c"))[0] for n in range(3000))
    assert all(900 < number_of[session] < 1100 for session in "abc")


@pytest.mark.parametrize("lanes", [0, 1, 2, 5, 63, 64, 65, 100, 1024])
def test_slices_have_each_lane_once(lanes: int) -> None:
    slices = slices_of("orders", lanes)
    assert [one.number for one in slices] == list(range(min(64, max(1, lanes))))
    served = [lane for one in slices for lane in range(one.lanes[0], one.lanes[1] + 1)]
    assert served == list(range(-1, 1024))
    sizes = [last - max(first, 0) + 1 for first, last in (one.lanes for one in slices[:-1])]
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_a_slice_of_64_lanes_is_a_lane() -> None:
    assert [one.lanes for one in slices_of("orders", 64)][:3] == [(-1, 0), (1, 1), (2, 2)]
    assert [one.lanes for one in slices_of("orders", 100)][:3] == [(-1, 0), (1, 2), (3, 3)]
    assert slices_of("orders", 64)[63].lanes == (63, 1023)


def test_names_fit() -> None:
    assert value_name("orders", 63) == "orders/63"
    assert value_name("q" * 197, 63) == f"{'q' * 197}/63"
    digest = hashlib.sha256(b"q" * 198).hexdigest()[:32]
    assert value_name("q" * 198, 3) == f"{'q' * 198}/3"
    assert value_name("q" * 198, 63) == f"{'q' * 100}#{digest}/63"
    assert len(value_name("東" * 200, 63)) <= MAX_NAME


def assigned(queue: str, count: int, sessions: tuple[str, ...]) -> list[str]:
    """Give the best pair again and again, of those that are left."""
    pairs = {
        (number, session): hashlib.sha256(f"{session}\n{value_name(queue, number)}".encode()).hexdigest()[:16]
        for number in range(count)
        for session in sessions
    }
    found: dict[int, str] = {}
    while len(found) < count:
        numbers = Counter(found.values())
        least = count // len(sessions)
        above = sum(numbers[session] > least for session in sessions)
        room = {one for one in sessions if numbers[one] < least + (above < count % len(sessions))}
        left = [(score, number, one) for (number, one), score in pairs.items() if number not in found and one in room]
        _, number, session = max(left, key=lambda one: (one[0], -one[1]))
        found[number] = session
    return [found[number] for number in range(count)]
