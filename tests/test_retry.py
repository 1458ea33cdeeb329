"""Delays of retry policies."""

from __future__ import annotations

import pytest

from stanchion import Retry
from stanchion.errors import InvalidInput


def test_a_delay_is_clamped_from_both_sides() -> None:
    policy = Retry.linear(10, min=15, max=25, jitter=0)
    assert [policy.delay(failures) for failures in (1, 2, 3)] == [15, 20, 25]


@pytest.mark.parametrize("seconds", [-1.0, -0.001, float("-inf")])
def test_a_custom_policy_that_returns_a_negative_number_is_refused(
    caplog: pytest.LogCaptureFixture, seconds: float
) -> None:
    policy = Retry.custom(lambda _failures, _error: seconds)
    with pytest.raises(InvalidInput, match="from 0 up"):
        policy.delay(1)
    assert policy.delay_or_default(3, ValueError(), "t") > 70  # as by the default policy
    assert "the retry policy of t failed" in caplog.text
