"""Who looks after an alert."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Final

from stanchion.core.times import moment
from stanchion.errors import InvalidInput
from stanchion.ops.web.visit import Visit

ON_IT: Final = "web-on-it"
"""Kind of the versioned values that say who is on an alert; by its key."""

LASTS: Final = timedelta(hours=4)


def be_on_it(visit: Visit, key: str) -> None:
    """Write down that the caller looks after an alert; it hides nothing. Raises InvalidInput."""
    if not 0 < len(key) <= 300 or not key.isprintable():
        raise InvalidInput("which alert?")
    store = visit.store
    visit.audit("on it", key, 0)
    known = {value.name: value for value in store.values(ON_IT)}
    for name, value in known.items():
        if name != key and _read(value.text, visit.now) is None:
            store.compare_and_set(ON_IT, name, None, value.version)
    text = json.dumps([visit.session.caller.name, visit.now])
    store.compare_and_set(ON_IT, key, text, known[key].version if key in known else 0)


def who_is_on_it(visit: Visit) -> dict[str, tuple[str, int] | None]:
    """Return who looks after each alert, and since when, by its key; None for one of long ago."""
    return {value.name: _read(value.text, visit.now) for value in visit.store.values(ON_IT)}


def _read(text: str, now: int) -> tuple[str, int] | None:
    who, at = json.loads(text)
    return (str(who), int(at)) if moment(now) - moment(int(at)) < LASTS else None
