"""A station with a watermark: its options, and their checks."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple, Self

from stanchion.core.checks import checked_name, seconds_of, shown
from stanchion.core.text.durations import duration
from stanchion.errors import InvalidInput
from stanchion.schemas.ddl import struct_of
from stanchion.schemas.kinds import Plain

_UNITS = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}
_SPELLED = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})s?\s*", re.IGNORECASE)


class Windows(NamedTuple):
    """How a station on Spark waits for late items. `column`: the field with an item's time; `delay`: seconds.

    `late`: the station that late items go to; None: they are dead letters. `checkpoint`: the folder of the query's
    state, which has to last.
    """

    column: str
    delay: float
    late: str | None
    checkpoint: str

    @classmethod
    def of(cls, schema: str, to: Collection[str], watermark: Any, late: str | None, checkpoint: Any) -> Self | None:
        """Return the checked options, None: the station has no watermark. Raises InvalidInput."""
        if watermark is None:
            if late is not None or checkpoint is not None:
                raise InvalidInput("late= and checkpoint= are for stations with a watermark=")
            return None
        if not (isinstance(watermark, tuple) and len(watermark) == 2 and isinstance(watermark[0], str)):
            raise InvalidInput(f"watermark must be a field and a delay: ('at', '10 minutes'), not {shown(watermark)}")
        if not isinstance(checkpoint, (str, Path)) or not str(checkpoint):
            raise InvalidInput(
                "a station with a watermark needs checkpoint=, a folder that lasts: it has the rows of open windows"
            )
        column, delay = watermark
        kinds = {field.name: field.kind for field in struct_of(schema).fields}
        if kinds.get(column) != Plain("timestamp"):
            raise InvalidInput(f"the watermark is of {column!r}, which is no timestamp of the schema: {schema}")
        if not any(one != late for one in to):
            raise InvalidInput("a station with a watermark sends new items to another station: name it in to=")
        if late is not None:
            checked_name(late, "the station for late items")
        return cls(column, _seconds(delay), late, str(checkpoint))


def _seconds(delay: Any) -> float:
    if not isinstance(delay, str):
        return seconds_of(delay, "the delay of the watermark")
    spelled = _SPELLED.fullmatch(delay)
    text = f"{spelled[1]}{_UNITS[spelled[2].lower()]}" if spelled else delay
    return duration(text, "the delay of the watermark")
