"""The limits of a job: its semaphores and its keyed rate, and their text.

    {"hold": ["crm", "smtp"], "rate": ["task:shop.welcome", 20.0]}

`hold`: names of semaphores, each once, in ascending order of their code points. All jobs take their semaphores in this
order, so that no two of them wait for each other. `rate`: a name, and the starts per second of all jobs with that name.
Either may be missing.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final, NamedTuple

from stanchion.core.checks import MAX_LIMITS, brief, checked_name, number, refuse_unknown
from stanchion.errors import InvalidInput

SLOWEST, FASTEST = 1 / (366 * 86_400), 1e6
"""The bounds of a rate, in starts per second."""

MAX_RATE_NAME: Final = 450
"""Characters of the name of a rate, which may consist of the names of a queue or task and of a tenant."""


class Rate(NamedTuple):
    """At most `per_second` starts of jobs that share `name`."""

    name: str
    per_second: float


class Limits(NamedTuple):
    """Semaphores that a job must hold, by name, and its rate.

    `fault`: the reason why the stored text can't be read; such a job must not run. None: it was read.
    """

    semaphores: tuple[str, ...] = ()
    rate: Rate | None = None
    fault: str | None = None


def limits_in(text: str | None) -> Limits:
    """Return the limits stored with a job. It never raises: other jobs are claimed together with this one."""
    return Limits() if text is None else _read(text)


@lru_cache(maxsize=65_536)
def _read(text: str) -> Limits:
    try:
        return checked_limits(text)
    except InvalidInput as error:
        return Limits(fault=str(error))


def checked_limits(text: str) -> Limits:
    """Return the limits in a text. Raises InvalidInput for a text of another form."""
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        stored = None
    if not isinstance(stored, dict):
        raise InvalidInput(
            f'limits must be a JSON object, such as {{"hold": ["smtp"], "rate": ["key:crm", 5]}}, not {brief(text)}'
        )
    refuse_unknown(stored, ("hold", "rate"), "field of limits")
    return Limits(_semaphores(stored.get("hold", [])), _rate(stored["rate"]) if "rate" in stored else None)


def _semaphores(names: object) -> tuple[str, ...]:
    if not isinstance(names, list):
        raise InvalidInput(
            f'hold in limits must be a list of names of semaphores, such as ["smtp"], not {brief(names)}'
        )
    for name in names:
        checked_name(name, "the name of a semaphore in limits")
    if len(names) > MAX_LIMITS:
        raise InvalidInput(f"limits names {len(names)} semaphores; a job may need at most {MAX_LIMITS}")
    if names != sorted(set(names)):
        raise InvalidInput(f"hold in limits must name each semaphore once, in ascending order, not {brief(names)}")
    return tuple(names)


def _rate(rate: object) -> Rate:
    if not isinstance(rate, list) or len(rate) != 2:
        raise InvalidInput(
            f'rate in limits must be a name and starts per second, such as ["key:crm", 5], not {brief(rate)}'
        )
    name, per_second = rate
    checked_name(name, "the name of a rate in limits", MAX_RATE_NAME)
    return Rate(name, number(per_second, "the starts per second of a rate in limits", SLOWEST, FASTEST))


def limits_text(limits: Limits) -> str | None:
    """Return limits in the form stored with a job."""
    stored: dict[str, object] = {}
    if limits.semaphores:
        stored["hold"] = sorted(set(limits.semaphores))
    if limits.rate is not None:
        stored["rate"] = list(limits.rate)
    return json.dumps(stored, separators=(",", ":"), ensure_ascii=False) if stored else None
