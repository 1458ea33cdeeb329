"""Changing one setting of a queue, with a note of who did it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from stanchion.context.queues.settings import checked_settings
from stanchion.core.text.durations import duration, written
from stanchion.errors import InvalidInput
from stanchion.ops.web.visit import Visit
from stanchion.stores.fields.jobs import Kind
from stanchion.stores.fields.queues import SETTABLE, SETTINGS
from stanchion.stores.records.queues import QueueSettings

KIND: Final = "web-settings"
"""Kind of the versioned values that say who changed settings of a queue last, by its name."""

_CHANGEABLE: Final = {
    one.name: one for one in SETTABLE if one in SETTINGS and one.kind in (Kind.REAL, Kind.INT, Kind.NAME)
}
HELP: Final[Mapping[str, str]] = {name: one.about for name, one in _CHANGEABLE.items()}
"""The settings that can be changed here, and what each does."""


class Change(NamedTuple):
    """Last change of a setting on the page: user, time, and the former value."""

    who: str
    at: int
    before: str


def changes_of(visit: Visit, queue: str) -> dict[str, Change]:
    """Return who changed the settings of a queue last on the page, by setting."""
    return _changes(next((value.text for value in visit.store.values(KIND, [queue])), "{}"))


def change(visit: Visit, queue: QueueSettings, name: str, text: str, note: str) -> QueueSettings:
    """Change one setting; return all of them. Raises InvalidInput for a wrong value, and then changes nothing."""
    return change_all(visit, queue, {name: value_of(name, text)}, note)


def change_all(visit: Visit, queue: QueueSettings, values: Mapping[str, Any], note: str = "") -> QueueSettings:
    """Change settings together; return all of them. Raises InvalidInput for a wrong value, and then changes nothing."""
    # A history_ttl for all outcomes takes away those by outcome: the audit says so.
    all_of = checked_settings(values)
    values = {name: one for name, one in all_of.items() if name in values or one != getattr(queue, name)}
    before = {name: text_of(name, getattr(queue, name)) for name in values}
    handle = visit.site.app.queue(queue.name)
    said = ", ".join(f"{name} {before[name]} → {text_of(name, value)}" for name, value in values.items())
    first = next(iter(values))
    text = said.removeprefix(f"{first} ") if len(values) == 1 else said
    act = f"set {first}" if len(values) == 1 else "set settings"
    visit.audit(act, queue.name, 0, f"{text}{f': {note}' if note else ''}")
    after = handle.configure(**values)
    stored = next(iter(visit.store.values(KIND, [queue.name])), None)
    known = {} if stored is None else json.loads(stored.text)
    known |= {name: Change(visit.session.caller.name, visit.now, one) for name, one in before.items()}
    visit.store.compare_and_set(KIND, queue.name, json.dumps(known), 0 if stored is None else stored.version)
    return after


def value_of(name: str, text: str) -> object:
    """Return the value of a setting as a person writes it. Raises InvalidInput."""
    if name not in HELP:
        raise InvalidInput(f"the setting {name[:40]!r} can't be changed here")
    given = text.strip()
    if given.lower() in ("", "none"):
        if _CHANGEABLE[name].required:
            raise InvalidInput(f"{name} needs a value")
        return None
    setting = _CHANGEABLE[name]
    if setting.is_time:
        return duration(given, name)
    if setting.kind is Kind.NAME:
        return given
    try:
        return float(given) if setting.kind is Kind.REAL else int(given)
    except ValueError:
        raise InvalidInput(f"{name} is a number, not {given[:40]!r}") from None


def text_of(name: str, value: object) -> str:
    """Return the value of a setting as it is written into the form."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return written(value) if _CHANGEABLE[name].is_time else f"{value:g}"
    return str(value)


def _changes(text: str) -> dict[str, Change]:
    return {name: Change(*row) for name, row in json.loads(text).items()}
