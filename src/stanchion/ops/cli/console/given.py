"""Parsing command-line arguments. Wrong ones raise InvalidInput."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from stanchion.core.checks import aware
from stanchion.core.text.durations import duration, spelled
from stanchion.errors import InvalidInput
from stanchion.stores.fields.jobs import Kind
from stanchion.stores.fields.queues import SETTABLE

SHELL_QUOTES = """; quote it for the shell: '{"id": 1}', or '"text"' for a string"""
DAY = 86_400.0
_DURATIONS = frozenset(one.name for one in SETTABLE if one.is_time)
_TEXTS = frozenset(one.name for one in SETTABLE if one.kind in (Kind.NAME, Kind.WORD))


def optional_duration(text: str | None, what: str) -> float | None:
    """Return the seconds, or None if the option was not given."""
    return None if text is None else duration(text, what)


def spacing(text: str, what: str, shortest: float = 0.01) -> float:
    """Return the seconds between two rounds of a command that repeats: neither so few that it does nothing else, nor
    more than a day.
    """
    seconds = duration(text, what)
    if seconds < shortest:
        raise InvalidInput(f"{what} must be at least {spelled(shortest)}, not {text!r}")
    return min(seconds, DAY)


def moment(text: str, what: str) -> datetime:
    """Return an ISO 8601 time; UTC unless it names an offset."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{what} must be an ISO 8601 time, such as 2031-05-01T12:30Z, not {text!r}") from None
    return aware(found if found.tzinfo else found.replace(tzinfo=UTC), what)


def past(text: str | None, now: datetime, what: str) -> datetime | None:
    """Return the time given as `2h` (ago) or in ISO 8601."""
    if text is None:
        return None
    try:
        return now - timedelta(seconds=duration(text, what))
    except OverflowError:
        raise InvalidInput(f"{what} {text!r} is before year 1") from None
    except InvalidInput:
        pass
    try:
        return moment(text, what)
    except InvalidInput:
        raise InvalidInput(
            f"{what} must be a duration, such as 90s, 2h or 7d, or an ISO 8601 time, not {text!r}"
        ) from None


def json_value(text: str, what: str, hint: str = "") -> object:
    """Return the value of a JSON text. `hint` is added to the error message."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} is not JSON ({error}){hint}") from None


def loose_value(text: str) -> object:
    """Return a JSON value, or the text itself if it does not look like JSON."""
    if text.startswith(("{", "[", '"')):
        return json_value(text, f"the argument {text!r}", SHELL_QUOTES)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def pairs(given: Iterable[str], what: str) -> dict[str, str]:
    """Return `name=value` texts as a mapping."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput(f"{what} must be name=value, not {text!r}")
        found[name] = value
    return found


def queue_settings(given: Iterable[str]) -> dict[str, Any]:
    """Return queue settings of `name=value` texts; `none` lifts a limit."""
    return {name: _setting(name, value) for name, value in pairs(given, "a setting").items()}


def _setting(name: str, value: str) -> object:
    if value.lower() in ("none", "null", ""):
        return None
    if name in _DURATIONS and not value.startswith("{"):  # not a history_ttl by outcome
        return duration(value, name)
    if name in _TEXTS:
        return value
    return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(
        value.lower(), loose_value(value)
    )


def names(given: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return the names in comma-separated lists; None without lists."""
    return tuple(name.strip() for one in given for name in one.split(",")) if given else None


def job_ids(given: Iterable[str]) -> list[str]:
    """Return job ids in their stored form, each once."""
    found: dict[str, None] = {}
    for text in given:
        try:
            found[str(UUID(text))] = None
        except ValueError:
            raise InvalidInput(f"{text!r} is not a job id; `stanchion jobs` lists them") from None
    return list(found)


def account() -> str:
    """Return the name of the account that runs this command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # an id without a name, as in a container
        return "someone"
