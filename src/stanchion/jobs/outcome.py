"""Outcomes: what a task may return or raise, besides a result, to decide how its job continues."""

from __future__ import annotations

from datetime import timedelta

from stanchion.core.checks import seconds_of

UNCHANGED: object = object()
"""Stands for "the payload as it is"."""


class Outcome(Exception):
    """An instruction from a task to its worker. Returning it and raising it have the same effect."""

    _unmet: str | None = None


def unmet_by(outcome: Outcome) -> str | None:
    """Return the condition that the item of a station did not meet; None if that is not why the job ends so."""
    return outcome._unmet


def for_unmet(outcome: Outcome, condition: str) -> Outcome:
    """Return the outcome of an item that did not meet this condition."""
    outcome._unmet = condition
    return outcome


class _Delayed(Outcome):
    def __init__(self, seconds: float | timedelta, *, payload: object = UNCHANGED) -> None:
        super().__init__(seconds)
        self.seconds = seconds_of(seconds, f"the delay of {type(self).__name__}")
        self.payload = payload


class Snooze(_Delayed):
    """Run the job again in `seconds`; this attempt does not count.

    `payload`: the checkpoint that the next attempt sees, see `Reservation.rollback`.
    """


class RetryAfter(_Delayed):
    """Run the job again in `seconds`; this attempt counts as a failure.

    `payload`: the checkpoint that the next attempt sees, see `Reservation.rollback`.
    """


class _Final(Outcome):
    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Cancel(_Final):
    """End the job as cancelled."""


class Bury(_Final):
    """End the job as dead, even if it has attempts left."""
