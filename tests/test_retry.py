"""Delays of retry policies."""

from __future__ import annotations

from stanchion import Retry


def test_a_delay_is_clamped_from_both_sides() -> None:
    policy = Retry.linear(10, min=15, max=25, jitter=0)
    assert [policy.delay(failures) for failures in (1, 2, 3)] == [15, 20, 25]
