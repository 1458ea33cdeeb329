"""Delays of retry policies."""

from __future__ import annotations

import pickle
import time
from datetime import timedelta
from email.utils import formatdate
from typing import Any

import pytest

from stanchion import Retry
from stanchion.core.retry import PROGRAMMING_ERRORS_MAX, delay_anyway, delay_or_default
from stanchion.errors import InvalidInput
from stanchion.stores.rules.lifecycle.error_entries import KEPT_ERRORS


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
    delay = delay_or_default(policy, 3, ValueError(), "t")
    assert delay is not None
    assert delay > 70  # as by the default policy
    assert "the retry policy of t failed" in caplog.text


class Overloaded(Exception):
    def __init__(self, retry_after: Any) -> None:
        super().__init__("overloaded")
        self.retry_after = retry_after


class TestByError:
    def test_retry_on_names_the_only_errors_that_are_retried(self) -> None:
        policy = Retry.constant(5, jitter=0, retry_on=(ConnectionError, TimeoutError))
        errors = [ConnectionResetError(), TimeoutError(), ValueError(), OSError()]
        assert [policy.delay(1, error) for error in errors] == [5, 5, None, None]
        assert policy.delay(1) == 5

    def test_give_up_on_goes_before_retry_on(self) -> None:
        policy = Retry(jitter=0, retry_on=OSError, give_up_on=FileNotFoundError)
        assert [policy.delay(1, error) for error in (OSError(), FileNotFoundError(), KeyError())] == [6, None, None]

    def test_nothing_is_retried(self) -> None:
        assert Retry(retry_on=()).delay(1, ValueError()) is None

    def test_a_group_counts_as_each_of_its_errors(self) -> None:
        policy = Retry.constant(5, jitter=0, retry_on=OSError, give_up_on=FileNotFoundError)

        def of(*errors: Exception) -> float | None:
            return policy.delay(1, ExceptionGroup("both", [ExceptionGroup("some", list(errors)), OSError()]))

        assert of(ConnectionError()) == 5
        assert of(ConnectionError(), ValueError()) is None
        assert of(FileNotFoundError()) is None

    @pytest.mark.parametrize("option", ["retry_on", "give_up_on"])
    @pytest.mark.parametrize("wrong", ["ValueError", (ValueError, "KeyError"), ValueError(), int, None])
    def test_what_is_no_exception_class_is_refused(self, option: Any, wrong: Any) -> None:
        if option == "retry_on" and wrong is None:
            assert Retry(retry_on=None).delay(1, ValueError()) is not None
            return
        with pytest.raises(InvalidInput, match=f"{option} takes exception classes"):
            Retry(**{option: wrong})

    @pytest.mark.parametrize("wrong", [0, 11, -1, 2.5, "3"])
    def test_a_wrong_number_of_programming_errors_is_refused(self, wrong: Any) -> None:
        with pytest.raises(InvalidInput, match="programming_errors"):
            Retry(programming_errors=wrong)

    def test_the_last_errors_are_enough_to_count_them(self) -> None:
        assert PROGRAMMING_ERRORS_MAX <= KEPT_ERRORS

    def test_survives_a_pickle(self) -> None:
        policy = Retry(retry_on=OSError, give_up_on=(KeyError,), programming_errors=None)
        assert pickle.loads(pickle.dumps(policy)) == policy  # noqa: S301 - made here


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("asked", "seconds"),
        [
            *((30, 30), (2.5, 2.5), (timedelta(minutes=2), 120), ("45", 45), (0, 0), (-3, 0)),
            *((10**9, 600), ("Fri, 31 Dec 9999 23:59:59 GMT", 600), ("Thu, 01 Jan 1970 00:00:00 GMT", 0)),
        ],
    )
    def test_sets_the_delay_within_the_bounds(self, asked: Any, seconds: float) -> None:
        policy = Retry.exponential(7, max=600, jitter=0)
        assert policy.delay(1, Overloaded(asked)) == seconds

    @pytest.mark.parametrize("asked", [None, True, "soon", float("nan"), float("inf"), 10**400, [], lambda: 5])
    def test_what_is_no_time_is_ignored(self, asked: Any) -> None:
        assert Retry.constant(7, jitter=0).delay(1, Overloaded(asked)) == 7

    def test_a_faulty_property_is_ignored(self) -> None:
        class Faulty(Exception):
            @property
            def retry_after(self) -> float:
                raise RuntimeError

        assert Retry.constant(7, jitter=0).delay(1, Faulty()) == 7

    def test_a_date_is_a_time_from_now(self) -> None:
        seconds = Retry.constant(7, jitter=0).delay(1, Overloaded(formatdate(time.time() + 1000, usegmt=True)))
        assert seconds is not None
        assert 0 < seconds <= 1000

    def test_the_jitter_spreads_the_returns_and_none_is_early(self) -> None:
        delays = [Retry(jitter=0.5).delay(1, Overloaded(100)) or 0 for _ in range(100)]
        assert 100 <= min(delays) < max(delays) <= 150

    def test_is_at_least_min(self) -> None:
        assert Retry.linear(20, min=15, jitter=0).delay(1, Overloaded(1)) == 15

    def test_does_not_bring_back_an_error_that_is_given_up(self) -> None:
        assert Retry(give_up_on=Overloaded).delay(1, Overloaded(1)) is None


def test_a_policy_may_give_up() -> None:
    policy = Retry.custom(lambda failures, _error: 5 if failures < 3 else None)
    assert [policy.delay(failures) for failures in (1, 2, 3)] == [5, 5, None]
    assert delay_anyway(policy, 3, ValueError(), "t") == 86  # as by the default policy
