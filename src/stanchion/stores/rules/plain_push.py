"""Common names and limits of all texts of `stanchion_push`, by which programs without the package push.

A word in angle brackets in such a text stands for a value of this module. A part between `<each LIST>` and `<end>` is
repeated for each name in a list, as `<it>`; the list itself, as `<LIST>`, is its names in quotes.
"""

from __future__ import annotations

import re

from stanchion.core.checks import LONGEST_DELAY, MAX_HEADERS, MAX_LIMITS, MAX_NAME, MAX_PRIORITY, MIN_PRIORITY
from stanchion.core.names.partition_names import MAX_PARTITIONS
from stanchion.core.retry import MOST_ATTEMPTS
from stanchion.core.values.codec import MAX_PAYLOAD
from stanchion.stores.fields import jobs as fields
from stanchion.stores.fields.jobs import SPANS, Kind
from stanchion.stores.records.jobs import UNLANED, NewJob

NAME = "stanchion_push"

UNPRINTABLE = (
    *((0x1, 0x1F), (0x7F, 0xA0), (0xAD, 0xAD), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD), (0x70F, 0x70F)),
    *((0x890, 0x891), (0x8E2, 0x8E2), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200F), (0x2028, 0x202F)),
    *((0x205F, 0x206F), (0x3000, 0x3000), (0xE000, 0xF8FF), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB)),
)
"""Characters, from first to last, that no name may contain: controls, separators except space, format and private-use
characters."""

OPTIONS = tuple(sorted((one for one in fields.OPTIONS if one.plain), key=lambda one: one.name != "priority"))
"""The options from the table of fields, in the order of PostgreSQL's parameters."""
_LISTS = {
    "options": ("task", *(one.name for one in OPTIONS)),
    "names": ("task", *(one.name for one in OPTIONS if one.kind is Kind.NAME)),
    "spans": SPANS,
}
"""Options that the table of fields has: all of them, names, and the spans of time that a job keeps."""
_EACH = re.compile(r"<each (\w+)>(.*?)<end>", re.DOTALL)

_VALUES: dict[str, object] = {
    **{name: ", ".join(f"'{one}'" for one in listed) for name, listed in _LISTS.items()},
    "name": NAME,
    "max_name": MAX_NAME,
    "max_payload": MAX_PAYLOAD,
    "max_headers": MAX_HEADERS,
    "max_limits": MAX_LIMITS,
    "max_partitions": MAX_PARTITIONS,
    "max_attempts": NewJob._field_defaults["max_attempts"],
    "most_attempts": MOST_ATTEMPTS,
    "min_priority": MIN_PRIORITY,
    "max_priority": MAX_PRIORITY,
    "longest_delay": int(LONGEST_DELAY),
    "unlaned": UNLANED,
}


def filled(text: str, /, **values: object) -> str:
    """Return the text with the words in angle brackets replaced by `values` of the database."""
    known = {**_VALUES, **values}
    whole = _EACH.sub(lambda part: "".join(part[2].replace("<it>", name) for name in _LISTS[part[1]]), text)
    return re.sub(r"<(\w+)>", lambda word: str(known[word[1]]), whole)
