"""Conditions on the contents of payloads and headers.

A store can't evaluate them: a payload may be encrypted, and databases disagree about numbers, booleans and strange
keys. So a search reads the jobs that meet its other conditions, newest first, and this process checks each of them, up
to a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from stanchion.core.checks import brief
from stanchion.core.values.framing import Content
from stanchion.errors import InvalidInput, SearchTooWide
from stanchion.stores.paging import Selects, pages_by_size

if TYPE_CHECKING:
    from stanchion.core.values.codec import Codec
    from stanchion.stores.records.jobs import JobRow
    from stanchion.stores.records.query import Query

LOOKED_AT_MAX = 100_000
"""Maximum number of jobs that one search checks."""

_FIRST_PAGE, _PAGE_MAX = 200, 1000
"""Number of jobs in the first page; the maximum for a page."""

Path = tuple[str, ...]
"""The keys that lead to a value, outermost first; an index of a list is written in digits."""


class Inside(NamedTuple):
    """The value at a path must be equal to this one: a text, number, boolean or None."""

    path: Path
    value: object

    def is_met_by(self, content: object) -> bool:
        """Return True if the decoded content has the value there."""
        for step in self.path:
            if isinstance(content, dict) and step in content:
                content = content[step]
            elif isinstance(content, list) and (place := _place(step)) is not None and place < len(content):
                content = content[place]
            else:
                return False
        return _same(content, self.value)


def _place(step: str) -> int | None:
    """Return the position in a list that a step names, or None."""
    return int(step) if len(step) < 10 and step.isascii() and step.isdigit() else None


class Contents(NamedTuple):
    """All conditions of a search on the contents of its jobs."""

    payload: tuple[Inside, ...] = ()
    headers: tuple[Inside, ...] = ()

    def are_in(self, row: JobRow, codec: Codec) -> bool:
        """Return True if a job meets all. Raises StanchionError for a payload that this app can't decrypt."""
        return _all_met(self.headers, row.headers, codec) and _all_met(self.payload, row.payload, codec)


def _all_met(conditions: tuple[Inside, ...], text: Content | None, codec: Codec) -> bool:
    if not conditions:
        return True
    try:
        content = codec.decode(text)
    except ValueError:  # no JSON: stored by something else
        return False
    return all(one.is_met_by(content) for one in conditions)


def selected(store: Selects, query: Query, contents: Contents, codec: Codec) -> list[JobRow]:
    """Return up to `query.limit` jobs of a query with these contents. Raises SearchTooWide at LOOKED_AT_MAX."""
    found: list[JobRow] = []
    looked_at, last = 0, ""
    for rows in pages_by_size(store, replace(query, limit=_FIRST_PAGE), _PAGE_MAX):
        if looked_at >= LOOKED_AT_MAX:
            raise SearchTooWide(looked_at, [row.id for row in found], last)
        for row in rows:
            if contents.are_in(row, codec):
                found.append(row)
                if len(found) == query.limit:
                    return found
        looked_at, last = looked_at + len(rows), rows[-1].id
    return found


def checked_payload(value: object) -> tuple[Inside, ...]:
    """Return the conditions of `payload={"user.id": 4}`."""
    return tuple(Inside(_path(path), _scalar(path, one)) for path, one in _pairs(value, "payload", "{'user.id': 4}"))


def checked_headers(value: object) -> tuple[Inside, ...]:
    """Return the conditions of `headers={"source": "web"}`; names of headers are taken as they are."""
    return tuple(
        Inside((_name(name),), _scalar(name, one)) for name, one in _pairs(value, "headers", "{'source': 'web'}")
    )


def _pairs(value: object, what: str, example: str) -> list[tuple[object, object]]:
    if not isinstance(value, Mapping) or not value:
        raise InvalidInput(f"{what} must be a mapping of what the jobs must contain, such as {example}, not {value!r}")
    return list(value.items())


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidInput(f"the name of a header is text, not {brief(name)}")
    return name


def _path(path: object) -> Path:
    if isinstance(path, tuple) and path and all(isinstance(step, (str, int)) for step in path):
        return tuple(map(str, path))
    if not isinstance(path, str) or not path:
        raise InvalidInput(f"a path in the payload is text such as 'user.id', or a tuple of keys, not {brief(path)}")
    return tuple(_split(path))


def _split(path: str) -> list[str]:
    """Return the steps of a path; a backslash takes the dot or the backslash behind it as it is."""
    steps, step = [], ""
    escaped = False
    for character in path:
        if escaped:
            step += character if character in ".\\" else f"\\{character}"
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ".":
            steps.append(step)
            step = ""
        else:
            step += character
    return [*steps, step + "\\" * escaped]


def _scalar(name: object, value: object) -> object:
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise InvalidInput(
        f"a search compares texts, numbers, booleans and None, not {brief(value)}; for {name!r} give the path to one"
    )


def _same(value: object, wanted: object) -> bool:
    """Return True if two JSON values are the same: true is not 1, "4" is not 4, and 4.0 is 4."""
    if isinstance(value, bool) or isinstance(wanted, bool) or value is None or wanted is None:
        return value is wanted
    if isinstance(value, str) or isinstance(wanted, str):
        return isinstance(value, str) and isinstance(wanted, str) and value == wanted
    return isinstance(value, (int, float)) and bool(value == wanted)
