"""What a task may return or raise, besides a result, to say how its job goes on."""

from __future__ import annotations

from datetime import timedelta

from stanchion.core.checks import seconds_of


class Outcome(Exception):
    """A word from a task to its worker; return it or raise it, the effect is the same."""


class _Delayed(Outcome):
    def __init__(self, seconds: float | timedelta) -> None:
        super().__init__(seconds)
        self.seconds = seconds_of(seconds, f"the delay of {type(self).__name__}")


class Snooze(_Delayed):
    """Run the job again in `seconds`; this attempt is not counted."""


class RetryAfter(_Delayed):
    """Run the job again in `seconds`; this attempt counts as a failure."""


class _Final(Outcome):
    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Cancel(_Final):
    """End the job as cancelled."""


class Bury(_Final):
    """End the job as dead, without the attempts it had left."""
