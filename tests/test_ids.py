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
