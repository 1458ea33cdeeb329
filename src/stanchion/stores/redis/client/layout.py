"""The order of the fields in a job's texts, and the functions that read and write these texts.

A job has a state, whose fields change often and which the scripts read by position, and a body, which is all the rest.
Contents that are bytes, which may hold the separators, are texts here.
The functions are compiled from the table of fields, once: a loop over the fields takes 1.7 times as long, and each
claimed job is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from stanchion.core.values.framing import MARK, as_content, as_text
from stanchion.stores.cas.entries import slot_of
from stanchion.stores.fields.jobs import FIELDS, UNCLAIMED, WAITS, Field, Kind
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.redis.client.scripts import script_texts

FIELD: Final = "\x1f"
"""Separates fields: none can hold it."""


def _state() -> tuple[str, ...]:
    """Return the names of the fields of a state, as the scripts number them."""
    found = re.search(r"^local (REV\b[^=]*)=", script_texts()["prelude"], re.MULTILINE)
    assert found is not None  # noqa: S101 - a file of this package
    return tuple(found[1].lower().replace(",", " ").split())


STATE: Final = _state()
"""The fields of a state, which is between the id and the body. `rev`, `waits_for` and `bound` are made of others."""
_APART: Final = ("id", "queue", *UNCLAIMED, *WAITS)
BODY: Final = tuple(field.name for field in FIELDS if field.name not in {*STATE, *_APART})
"""The fields of a body."""

_NUMBERS: Final = dict.fromkeys((Kind.SMALL, Kind.INT, Kind.MICROS), "int") | {Kind.REAL: "float"}
_BY_NAME: Final = {field.name: field for field in FIELDS}
_TEXTS: Final = (*STATE, *BODY)


def _written(name: str) -> str:
    """Return the expression for the text of a field, whose value is in a variable of its name."""
    field = _BY_NAME.get(name)
    if field is None:
        return name
    if field.kind is Kind.FLAG:
        return f'"1" if {name} else ""'
    if field.kind is Kind.CONTENT:
        return f'as_text({name}) if {name}.__class__ is bytes else {name} or ""'
    if field.kind not in _NUMBERS:
        return name if field.required else f'{name} or ""'
    return f"str({name})" if field.required else f'"" if {name} is None else str({name})'


def _read(field: Field) -> str:
    """Return the expression for the value of a field, whose text is in a variable of its name."""
    name = field.name
    if name in UNCLAIMED:
        return "None"
    if field.kind is Kind.FLAG:
        return f'{name} == "1"'
    if field.kind is Kind.CONTENT:
        text = name if field.required else f"{name} or None"
        return f"as_content({name}) if {name}[:1] == MARK else {text}"
    number = _NUMBERS.get(field.kind)
    if field.required or name in WAITS:
        text = f"{name} or 0" if field.default == 0 else name
        return f"{number}({text})" if number else name
    return f"{number}({name}) if {name} else None" if number else f"{name} or None"


def _joined(names: tuple[str, ...], known: tuple[str, ...]) -> str:
    """Return the expression for the text of these fields; those that are not known are empty."""
    return f"FIELD.join(({', '.join(_written(name) if name in known else repr('') for name in names)},))"


_SOURCE: Final = f"""
def write_state(row, rev, waits_for, bound):
    {", ".join(JobRow._fields)} = row
    rev = str(rev)
    return {_joined(STATE, (*JobRow._fields, "rev", "waits_for", "bound"))}

def write_body(row):
    {", ".join(JobRow._fields)} = row
    return {_joined(BODY, JobRow._fields)}

def write_new_body(job):
    {", ".join(NewJob._fields)} = job
    return {_joined(BODY, NewJob._fields)}

def read_row(texts, queue):
    if len(texts) <= {len(_TEXTS)}:  # stored before a body had all fields
        texts = texts + [""] * ({len(_TEXTS) + 1} - len(texts))
    id, {", ".join(_TEXTS)} = texts
    {", ".join(WAITS)} = slot_of(waits_for) if waits_for else {(None,) * len(WAITS)}
    return make(JobRow, ({", ".join(map(_read, FIELDS))}))
"""
_MADE: Final[dict[str, Any]] = {
    "FIELD": FIELD,
    "MARK": MARK,
    "JobRow": JobRow,
    "make": tuple.__new__,
    "slot_of": slot_of,
    "as_text": as_text,
    "as_content": as_content,
}
exec(_SOURCE, _MADE)  # noqa: S102 - made of names in the table

write_state: Final[Callable[[JobRow, int, str, str], str]] = _MADE["write_state"]
"""Returns the text of a job's state, given its number of changes, and the fields `waits_for` and `bound`."""
write_body: Final[Callable[[JobRow], str]] = _MADE["write_body"]
"""Returns the text of a job's body."""
write_new_body: Final[Callable[[NewJob], str]] = _MADE["write_new_body"]
"""Returns the text of a new job's body."""
read_row: Final[Callable[[list[str], str], JobRow]] = _MADE["read_row"]
"""Returns the job of a queue, from the texts of its id, its state and its body."""
