"""Values of types that no job has: another program has inserted the document.

Its row has the types of `JobRow` all the same, and a payload that says which fields are wrong: a claim ends such a job
for that reason. See `claims/mending.py` for fields with which the server computes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

from bson import Int64

from stanchion.stores.records.jobs import QUEUED, UNLANED, JobRow, JobState
from stanchion.stores.rules.unreadable import OfWrongTypes

_ALSO: Final[dict[type, tuple[type, ...]]] = {int: (int, Int64), float: (float, int, Int64)}
_HINTS: Final = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(JobRow).items()}
_TYPES: Final = {name: {one for hint in hints for one in _ALSO.get(hint, (hint,))} for name, hints in _HINTS.items()}
"""The types of each field of a row, as the driver returns them."""

_STATES: Final = frozenset({QUEUED, *JobState})
_OTHERWISE: Final = {"lane": UNLANED, "state": QUEUED}

_KNOWN_MAX: Final = 10_000
_known: set[tuple[type, ...]] = set()
"""Types of whole rows that fit."""


def fitted(row: JobRow, mended: Iterable[str], *, whole: bool) -> JobRow:
    """Return a row with the right types; `mended`: fields written anew. Unless it is `whole`, fields may be missing."""
    types = tuple(map(type, row))
    if types in _known and not mended and row.state in _STATES:
        return row
    values: dict[str, Any] = {}
    wrong = dict.fromkeys(map(str, mended))
    for name, value in zip(JobRow._fields, row, strict=True):
        if value is None and not whole:
            continue
        if type(value) in _TYPES[name] and (name != "state" or value in _STATES):
            continue
        if isinstance(value, float) and value.is_integer() and int in _TYPES[name]:
            values[name] = int(value)  # a driver that knows only such numbers
            continue
        wrong[name] = None
        values[name] = _instead(name, value)
    if wrong:
        values["payload"] = OfWrongTypes(values.get("payload", row.payload) or "null", wrong)
    elif not values and None not in map(_required, JobRow._fields, row):
        if len(_known) >= _KNOWN_MAX:
            _known.clear()
        _known.add(types)
    return row._replace(**values) if values else row


def _required(name: str, value: Any) -> Any:
    return value if NoneType not in _TYPES[name] else True


def _instead(name: str, value: Any) -> Any:
    """Return what a row has in place of a value of a wrong type."""
    if name in _OTHERWISE:
        return _OTHERWISE[name]
    if name == "payload":
        return json.dumps(value, ensure_ascii=False, default=str)
    if str in _TYPES[name]:
        return None if NoneType in _TYPES[name] else str(value)
    return JobRow._field_defaults.get(name, 0)
