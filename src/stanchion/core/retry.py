"""Retry policies: how long a job waits after a failure, and how many attempts it gets."""

from __future__ import annotations

import builtins
import logging
import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, TypedDict, Unpack

from stanchion.core.checks import brief, number, whole
from stanchion.core.functions import refuse_async
from stanchion.errors import InvalidInput

log = logging.getLogger("stanchion.worker")

DEFAULT_MAX_ATTEMPTS = 25
MOST_ATTEMPTS = 1_000_000
_LONGEST = 30 * 86_400.0

PROGRAMMING_ERRORS: Final = 3
"""Programming errors in a row after which a job is dead, by default."""

PROGRAMMING_ERRORS_MAX: Final = 10
"""Maximum of the setting: a job keeps its last ten errors, and they are counted there."""

Kinds = type[BaseException] | tuple[type[BaseException], ...]
"""An exception class, or several."""

Curve = Callable[[int, BaseException | None], float | None]
"""Returns the seconds to wait after the n-th failure, by that error; None: give up."""


class ByError(TypedDict, total=False):
    """The options of a retry policy about the kinds of errors; see `Retry`."""

    retry_on: Kinds | None
    give_up_on: Kinds
    programming_errors: int | None


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

    `retry_on`: exception classes to retry; any other error ends the job as dead. None: all. `give_up_on`: exception
    classes that end the job, even if `retry_on` has them too. `programming_errors`: number of programming errors in a
    row that end the job, from 1 to 10: a TypeError, NameError or AttributeError that the task's own code raises. None:
    they are retried like other errors.

    An error with an attribute `retry_after` sets the delay itself, within `min` and `max`: seconds, a timedelta, or the
    text of an HTTP header of that name.
    """

    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    jitter: float = 0.1
    min: float = 0.0
    max: float = _LONGEST
    _curve: Curve = _by_default
    retry_on: Kinds | None = None
    give_up_on: Kinds = ()
    programming_errors: int | None = PROGRAMMING_ERRORS

    def __post_init__(self) -> None:
        whole(self.max_attempts, "max_attempts", 1, MOST_ATTEMPTS)
        if number(self.jitter, "jitter", 0, 1) == 1:
            raise InvalidInput("jitter must be a share from 0 up to, but not including, 1")
        if not callable(self._curve):
            raise InvalidInput(f"a retry policy needs a function of failures and error, not {brief(self._curve)}")
        if number(self.min, "min") > number(self.max, "max"):
            raise InvalidInput(f"need 0 <= min <= max seconds, not min={self.min!r}, max={self.max!r}")
        if self.retry_on is not None:
            object.__setattr__(self, "retry_on", _kinds(self.retry_on, "retry_on"))
        object.__setattr__(self, "give_up_on", _kinds(self.give_up_on, "give_up_on"))
        if self.programming_errors is not None:
            whole(self.programming_errors, "programming_errors", 1, PROGRAMMING_ERRORS_MAX)

    @classmethod
    def constant(
        cls,
        seconds: float,
        *,
        jitter: float = 0.1,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        **errors: Unpack[ByError],
    ) -> Retry:
        """Wait the same number of seconds after every failure."""
        number(seconds, "seconds")
        return cls(max_attempts, jitter, _curve=partial(_constant, seconds), **errors)

    @classmethod
    def linear(
        cls,
        seconds: float,
        *,
        min: float = 0.0,
        max: float = _LONGEST,
        jitter: float = 0.1,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        **errors: Unpack[ByError],
    ) -> Retry:
        """Wait `seconds * failures`, clamped to `min` and `max`."""
        number(seconds, "seconds")
        return cls(max_attempts, jitter, min, max, partial(_linear, seconds), **errors)

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
        **errors: Unpack[ByError],
    ) -> Retry:
        """Wait `base * factor**(failures - 1)` seconds, clamped to `min` and `max`."""
        number(base, "base"), number(factor, "factor")
        return cls(max_attempts, jitter, min, max, partial(_exponential, base, factor, max), **errors)

    @classmethod
    def custom(
        cls,
        seconds: Curve,
        *,
        jitter: float = 0.0,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        **errors: Unpack[ByError],
    ) -> Retry:
        """Wait the seconds that `seconds(failures, error)` returns. If it returns None or raises Bury, the job is dead.

        If the worker of a job died, the error is a LeaseLost, and None has no effect.
        """
        refuse_async(seconds, "a retry policy")
        return cls(max_attempts, jitter, _curve=seconds, **errors)

    def delay(self, failures: int, error: BaseException | None = None) -> float | None:
        """Return the seconds to wait after the `failures`-th failure (1 for the first); None: the job is dead."""
        if error is not None:
            if not _retries(self, error):
                return None
            if (asked := _asked_for(error)) is not None:
                later = random.uniform(1, 1 + self.jitter) if self.jitter else 1  # noqa: S311 - no secret
                return builtins.min(builtins.max(asked * later, self.min), self.max)
        return self._waited(failures, error)

    def _waited(self, failures: int, error: BaseException | None) -> float | None:
        seconds = self._curve(failures, error)
        if seconds is None:
            return None
        if seconds < 0:
            raise InvalidInput(f"a retry policy returns seconds from 0 up, or None, not {seconds!r}")
        seconds = builtins.min(builtins.max(seconds, self.min), self.max)
        if self.jitter:
            seconds *= 1 + random.uniform(-self.jitter, self.jitter)  # noqa: S311 - spreading load, no secret
        return seconds


def is_named(policy: Retry, error: BaseException) -> bool:
    """Return whether `retry_on` names this kind of error."""
    return policy.retry_on is not None and isinstance(error, policy.retry_on)


def delay_or_default(
    policy: Retry,
    failures: int,
    error: BaseException,
    whose: str | None,
    through: type[BaseException] | tuple[()] = (),
) -> float | None:
    """Return what `delay` does. If a custom policy fails, log that and use the default policy.

    `through`: an exception that a policy may raise to end a job.
    """
    return _or_default(policy.delay, failures, error, whose, through)


def delay_anyway(policy: Retry, number: int, error: BaseException, whose: str | None) -> float:
    """Return the seconds to wait after the `number`-th failure that ends no job, such as a lost lease."""
    seconds = _or_default(policy._waited, number, error, whose, ())
    return _by_default(number, error) if seconds is None else seconds


def _or_default(
    asked: Curve,
    failures: int,
    error: BaseException,
    whose: str | None,
    through: type[BaseException] | tuple[()],
) -> float | None:
    try:
        seconds = asked(failures, error)
        if seconds is None or math.isfinite(seconds):
            return seconds
        log.error("the retry policy of %s returned %r; the default is used", whose, seconds)
    except through:
        raise
    except Exception:
        log.exception("the retry policy of %s failed; the default is used", whose)
    return Retry()._waited(failures, error)


def _retries(policy: Retry, error: BaseException) -> bool:
    """Return whether a policy retries this kind of error. A group of errors counts as each of its errors."""
    kinds, gives_up = policy.retry_on, policy.give_up_on
    if kinds is None and not gives_up:
        return True
    found = [error, *_within(error)]
    if any(isinstance(one, gives_up) for one in found):
        return False
    return kinds is None or isinstance(error, kinds) or (len(found) > 1 and _all_of(found[1:], kinds))


def _kinds(given: object, what: str) -> tuple[type[BaseException], ...]:
    """Return exception classes as a tuple. Raises InvalidInput."""
    kinds = tuple(given) if isinstance(given, (tuple, list, set, frozenset)) else (given,)
    for one in kinds:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise InvalidInput(f"{what} takes exception classes, such as (TimeoutError, OSError), not {brief(one)}")
    return kinds


def _within(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group of errors, and of groups in it."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _within(one)
            if not isinstance(one, BaseExceptionGroup):
                yield one


def _all_of(errors: list[BaseException], kinds: Kinds) -> bool:
    return all(isinstance(one, kinds) for one in errors)


def _asked_for(error: BaseException) -> float | None:
    """Return the seconds in the attribute `retry_after` of an error; None if there is none that can be read."""
    try:
        asked = getattr(error, "retry_after", None)
        seconds = _seconds_in(asked)
    except Exception:  # a faulty property must not hide the error
        return None
    return None if seconds is None or not math.isfinite(seconds) else builtins.max(seconds, 0.0)


def _seconds_in(asked: object) -> float | None:
    if asked is None or isinstance(asked, bool):
        return None
    if isinstance(asked, timedelta):
        return asked.total_seconds()
    if isinstance(asked, (int, float)):
        return float(asked)
    if not isinstance(asked, str):
        return None
    try:
        return float(asked)
    except ValueError:
        from email.utils import parsedate_to_datetime

        return parsedate_to_datetime(asked).timestamp() - time.time()
