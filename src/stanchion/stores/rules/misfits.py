"""Values of types that no job has: another program has stored them, in a database that takes values of any type.

Its row has the types of `JobRow` all the same, and a payload that says which fields are wrong: a claim ends such a job
for that reason.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, repeat
from operator import contains, itemgetter
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

from stanchion.core.values.framing import as_text
from stanchion.stores.fields.jobs import FIELDS, Kind
from stanchion.stores.records.jobs import QUEUED, UNLANED, JobRow, JobState
from stanchion.stores.rules.undeliverable import OfWrongTypes

_HINTS: Final = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(JobRow).items()}
_STATES: Final = frozenset({QUEUED, *JobState})
_OTHERWISE: Final = {"lane": UNLANED, "state": QUEUED}
_KNOWN_MAX: Final = 10_000
SMALL: Final = tuple(one.name for one in FIELDS if one.kind in (Kind.SMALL, Kind.INT) and one.required)
"""Fields of 32 bits: not every database limits them."""
SMALL_MAX: Final = 2**31 - 1
_small_of = itemgetter(*map(JobRow._fields.index, SMALL))
_state_of = itemgetter(JobRow._fields.index("state"))


class RowTypes:
    """The types that the fields of a job have as a driver returns them."""

    def __init__(self, also: Mapping[type, tuple[type, ...]], *, chunks_as_text: bool = False) -> None:
        """`also`: further types of the driver, by the types of `JobRow`. `chunks_as_text`: it returns none as bytes."""
        never = {bytes} if chunks_as_text else set()
        self._types = {
            name: {one for hint in hints for one in (hint, *also.get(hint, ()))} - never
            for name, hints in _HINTS.items()
        }
        self._known: set[tuple[type, ...]] = set()
        """Types of rows that fit, or of their first columns."""

    def fit(self, rows: Sequence[tuple[object, ...]]) -> bool:
        """Return whether these rows, or their first columns, have types that are known to fit."""
        # Built-ins alone: a frame per row would cost as much again.
        return (
            self._known.issuperset(map(tuple, map(map, repeat(type), rows)))
            and _STATES.issuperset(map(_state_of, rows))
            and are_small({*chain.from_iterable(map(_small_of, rows))})
        )

    def fitted(self, row: JobRow, mended: Iterable[str] = (), *, whole: bool, columns: int = len(_HINTS)) -> JobRow:
        """Return a row with the right types.

        `mended`: rewritten fields. Unless it is `whole`, fields may be missing. `columns`: number of columns read.
        """
        types = tuple(map(type, row[:columns]))
        unframed = whole and type(row.payload) is bytes and row.items is None
        fits = types in self._known or (not unframed and all(map(contains, self._types.values(), types)))
        if fits and not mended and row.state in _STATES and are_small(_small_of(row)):
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known.add(types)
            return row
        values: dict[str, Any] = {}
        wrong = dict.fromkeys(map(str, mended))
        for name, value in zip(JobRow._fields[:columns], row, strict=False):
            if value is None and not whole:
                continue
            if type(value) in self._types[name] and _is_possible(name, value) and not (unframed and name == "payload"):
                continue
            if isinstance(value, float) and value.is_integer() and int in self._types[name]:
                values[name] = int(value)  # a driver that knows only such numbers
                continue
            wrong[name] = None
            values[name] = self._instead(name, value)
        if wrong:
            values["payload"] = OfWrongTypes(as_text(values.get("payload", row.payload) or "null"), wrong)
        return row._replace(**values) if values else row

    def fitted_columns(self, names: Sequence[str], rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
        """Return rows of some fields with the right types."""
        columns = list(zip(*rows, strict=True))
        fit = [{*map(type, column)} <= self._types[name] for name, column in zip(names, columns, strict=False)]
        if all(fit):
            return rows
        for place, name in enumerate(names):
            if not fit[place]:
                types = self._types[name]
                columns[place] = tuple(
                    one if type(one) in types else self._instead(name, one) for one in columns[place]
                )
        return list(zip(*columns, strict=True))

    def _instead(self, name: str, value: object) -> object:
        """Return the replacement for a row's value of a wrong type."""
        if name in _OTHERWISE:
            return _OTHERWISE[name]
        if isinstance(value, bytes) and str in self._types[name]:
            return value.decode(errors="replace")
        if name == "payload":
            return json.dumps(value, ensure_ascii=False, default=str)
        if str in self._types[name]:
            return None if NoneType in self._types[name] else str(value)
        return JobRow._field_defaults.get(name, 0)


def _is_possible(name: str, value: object) -> bool:
    """Return whether a value of the right type may be in a field."""
    if name == "state":
        return value in _STATES
    return name not in SMALL or not isinstance(value, int) or are_small((value,))


def are_small(numbers: Collection[float]) -> bool:
    """Return whether all of these numbers have at most 32 bits."""
    return max(numbers) <= SMALL_MAX and min(numbers) >= -SMALL_MAX
