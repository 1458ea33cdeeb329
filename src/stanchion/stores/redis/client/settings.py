"""Queue settings in stored form: a hash of texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, get_args, get_type_hints

from stanchion.stores.fields.queues import MERGED
from stanchion.stores.records.queues import STORED_SETTINGS, QueueSettings


def stored_setting(name: str, value: object) -> list[str]:
    """Return the fields and values of a setting in stored form; one that is merged has a field for each of its keys."""
    if isinstance(value, Mapping):
        return [text for key, its in value.items() for text in (f"{name} {key}", json.dumps(its))]
    if value is None:
        return [name, ""]
    return [name, str(int(value)) if isinstance(value, bool) else str(value)]


def settings_in(queue: str, stored: Mapping[bytes, bytes]) -> QueueSettings:
    """Return the settings in the hash of a queue."""
    given: dict[str, Any] = {name: {} for name in MERGED}
    for field, value in stored.items():
        name, space, key = field.decode().partition(" ")
        if space:
            given[name][key] = json.loads(value)
        elif name in _KINDS:
            given[name] = _KINDS[name](value.decode())
    return QueueSettings(queue, **given)


def _reader(hint: object) -> Callable[[str], object]:
    """Return the function that reads a value of this type; an empty text is None."""
    if hint is bool:
        return lambda text: text == "1"
    kinds = set(get_args(hint)) - {NoneType}
    kind = next((one for one in (int, float) if one in {hint, *kinds}), str)
    return (lambda text: kind(text) if text else None) if kinds else kind


_KINDS = {
    name: _reader(hint)
    for name, hint in get_type_hints(QueueSettings).items()
    if name in STORED_SETTINGS and name not in ("name", *MERGED)
}
