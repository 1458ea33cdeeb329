"""Retry policies: how long a job waits after a failure, and how many attempts it gets."""

from __future__ import annotations

import builtins
import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from stanchion.core.callables import refuse_async
from stanchion.core.checks import number, shown, whole
from stanchion.errors import InvalidInput

log = logging.getLogger("stanchion.worker")

DEFAULT_MAX_ATTEMPTS = 25
MOST_ATTEMPTS = 1_000_000
_LONGEST = 30 * 86_400.0

# Functions of this module, so that a policy can be pickled.


def _by_default(failures: int, _error: BaseException | None) -> float:
    return float(failures**4 + 5)


def _constant(seconds: float, _failures: int, _error: BaseException | None) -> float:
    return seconds


def _linear(seconds: float, failures: int, _error: BaseException | None) -> float:
    return seconds * failures


def _exponential(base: float, factor: float, most: float, failures: int, _error: BaseException | None) -> float:
    try:
        return base * factor ** (failures - 1)
    except OverflowError:
        return most


@dataclass(frozen=True, slots=True)
class Retry:
    """When and how often a failed job is retried.

    The default waits `failures**4 + 5` seconds, ± 10 %, up to 25 attempts (about 21 days in all).
    """

    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    jitter: float = 0.1
    min: float = 0.0
    max: float = _LONGEST
    curve: Callable[[int, BaseException | None], float] = _by_default

    def __post_init__(self) -> None:
        whole(self.max_attempts, "max_attempts", 1, MOST_ATTEMPTS)
        if number(self.jitter, "jitter", 0, 1) == 1:
            raise InvalidInput("jitter must be a share from 0 up to, but not including, 1")
        if not callable(self.curve):
            raise InvalidInput(f"curve must be a function of failures and error, not {shown(self.curve)}")
        if number(self.min, "min") > number(self.max, "max"):
            raise InvalidInput(f"need 0 <= min <= max seconds, not min={self.min!r}, max={self.max!r}")

    @classmethod
    def constant(cls, seconds: float, *, jitter: float = 0.1, max_attempts: int = DEFAULT_MAX_ATTEMPTS) -> Retry:
        """Wait the same number of seconds after every failure."""
        number(seconds, "seconds")
        return cls(max_attempts, jitter, curve=partial(_constant, seconds))

    @classmethod
    def linear(
        cls,
        seconds: float,
        *,
        min: float = 0.0,
        max: float = _LONGEST,
        jitter: float = 0.1,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    ) -> Retry:
        """Wait `seconds * failures`, clamped to `min` and `max`."""
        number(seconds, "seconds")
        return cls(max_attempts, jitter, min, max, partial(_linear, seconds))

    @classmethod
    def exponential(
        cls,
        base: float = 1.0,
        *,
        factor: float = 2.0,
        min: float = 0.0,
        max: float = _LONGEST,
        jitter: float = 0.1,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    ) -> Retry:
        """Wait `base * factor**(failures - 1)` seconds, clamped to `min` and `max`."""
        number(base, "base"), number(factor, "factor")
        return cls(max_attempts, jitter, min, max, partial(_exponential, base, factor, max))

    @classmethod
    def custom(
        cls,
        seconds: Callable[[int, BaseException | None], float],
        *,
        jitter: float = 0.0,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    ) -> Retry:
        """Wait the seconds that `seconds(failures, error)` returns."""
        refuse_async(seconds, "a retry policy")
        return cls(max_attempts, jitter, curve=seconds)

    def times(self, max_attempts: int) -> Retry:
        """Return the same policy with another number of attempts."""
        return replace(self, max_attempts=max_attempts)

    def delay(self, failures: int, error: BaseException | None = None) -> float:
        """Return the seconds to wait after the `failures`-th failure (1 for the first)."""
        seconds = self.curve(failures, error)
        if seconds < 0:
            raise InvalidInput(f"a retry policy returns seconds from 0 up, not {seconds!r}")
        seconds = builtins.min(builtins.max(seconds, self.min), self.max)
        if self.jitter:
            seconds *= 1 + random.uniform(-self.jitter, self.jitter)  # noqa: S311 - spreading load, no secret
        return seconds

    def delay_or_default(self, failures: int, error: BaseException, whose: str | None) -> float:
        """Return the seconds to wait. If a custom policy fails, log that and use the default policy."""
        try:
            seconds = self.delay(failures, error)
            if math.isfinite(seconds):
                return seconds
            log.error("the retry policy of %s returned %r; the default is used", whose, seconds)
        except Exception:
            log.exception("the retry policy of %s failed; the default is used", whose)
        return Retry().delay(failures, error)
