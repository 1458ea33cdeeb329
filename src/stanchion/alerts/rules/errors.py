"""The error that is behind an alert about a queue."""

from __future__ import annotations

from typing import NamedTuple

from stanchion.alerts.records import Action
from stanchion.alerts.snapshot import ErrorSample, Snapshot
from stanchion.alerts.words import command, number


class Cause(NamedTuple):
    """What an alert says of an error: the key of its group, a sentence, and what can be done."""

    error: str | None = None
    evidence: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()


def cause_of(seen: Snapshot, queue: str, *, dead: bool = False) -> Cause:
    """Return the error of a queue with most failed attempts in the last hour.

    `dead`: the error with most dead jobs.
    """
    known = [one for one in seen.errors.get(queue, ()) if one.dead or not dead]
    if not known:
        return Cause()
    heaviest = max(known, key=lambda one: (one.dead if dead else one.failed, one.failed))
    again = command(f"retry --error {heaviest.key} --queue", queue)
    retry = (Action("Once its cause is gone, run its dead jobs again", again),) if heaviest.dead else ()
    see = Action("See the errors", command("errors --queue", queue))
    return Cause(heaviest.key, (_sentence(heaviest),), (see, *retry))


def _sentence(one: ErrorSample) -> str:
    return (
        f"{one.task or 'A job without a task'} fails most, with {one.type or 'one error'}: "
        f"{number(one.failed, 'attempt')} within the last hour, error {one.key}."
    )
