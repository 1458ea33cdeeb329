"""The options of a station, and their checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

from stanchion.context.queues.settings import checked_settings
from stanchion.core.checks import brief, checked_name, seconds_of, several, whole
from stanchion.core.retry import Retry
from stanchion.core.text.durations import duration
from stanchion.errors import InvalidInput
from stanchion.jobs.options import limits_names
from stanchion.pipelines.chunks.ends import Takes
from stanchion.pipelines.outputs import KeyOf, checked_key
from stanchion.schemas.ddl import struct_of
from stanchion.schemas.kinds import Plain
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.tasks.task import task_options

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
    def of(
        cls, schema: str, to: Collection[str], watermark: object, late: str | None, checkpoint: object
    ) -> Self | None:
        """Return the checked options, None: the station has no watermark. Raises InvalidInput."""
        if watermark is None:
            if late is not None or checkpoint is not None:
                raise InvalidInput("late= and checkpoint= are for stations with a watermark=")
            return None
        if not (isinstance(watermark, tuple) and len(watermark) == 2 and isinstance(watermark[0], str)):
            raise InvalidInput(f"watermark must be a field and a delay: ('at', '10 minutes'), not {brief(watermark)}")
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


def _seconds(delay: object) -> float:
    if not isinstance(delay, str):
        return seconds_of(delay, "the delay of the watermark")
    spelled = _SPELLED.fullmatch(delay)
    text = f"{spelled[1]}{_UNITS[spelled[2].lower()]}" if spelled else delay
    return duration(text, "the delay of the watermark")


PayloadMode = Literal["replace", "merge"]

Stored = Literal["needed", "always"]
"""Where items are stored between stations: where a station or its queue needs it, or always."""

MAX_ROUNDS = 1000
"""Default for how often an item may enter a station by a loop."""


class Frame(NamedTuple):
    """A function that processes batches of items on Spark, as a DataFrame of this schema (DDL).

    `windows`: of a station with a watermark, whose function gets the stream of its items.
    """

    function: Callable[..., Any]
    schema: str
    max_per_batch: int
    windows: Windows | None = None


class StationOptions(NamedTuple):
    """The options of a station: where its items come from and go to, and how they are processed.

    `limits`: the semaphores, as stored with an item; `timeout` in seconds; `max_rate` in items per second. `key`: see
    `stanchion.pipelines.outputs`. `stored`: items are stored before and after it. `settings`: those declared with
    it. `on_spark`: it has a function of batches. `takes`: the tables that its function takes in place of items.
    `is_async`: its function for workers is async.
    """

    to: tuple[str, ...]
    entry: bool
    payload: PayloadMode
    retry: Retry
    limits: str | None
    timeout: float | None
    max_rounds: int
    max_rate: float | None
    key: KeyOf | None = None
    stored: bool = False
    settings: QueueSettings = QueueSettings("")
    on_spark: bool = False
    takes: Takes | None = None
    is_async: bool = False

    @classmethod
    def of(
        cls,
        to: str | Collection[str] | None,
        entry: bool,
        payload: PayloadMode,
        retry: Retry | None,
        max_attempts: int | None,
        limits: Collection[str],
        timeout: float | timedelta | None,
        max_rounds: object,
        settings: Mapping[str, object],
        key: object = None,
        stored: object = False,
        takes: Takes | None = None,
    ) -> Self:
        """Return checked options. Raises InvalidInput for options that are wrong."""
        if takes is not None and takes not in get_args(Takes):
            raise InvalidInput(f"takes must be one of {', '.join(get_args(Takes))}, not {brief(takes)}")
        if takes is not None and key is not None:
            raise InvalidInput("key belongs to a function of one item: leave takes out, or make the key a column")
        if not isinstance(stored, bool):
            raise InvalidInput(f"stored of a station must be True or False, not {brief(stored)}")
        if payload not in get_args(PayloadMode):
            raise InvalidInput(f"payload must be one of {', '.join(get_args(PayloadMode))}, not {payload!r}")
        attempts = {} if max_attempts is None else {"max_attempts": max_attempts}
        declared = replace(QueueSettings(""), **checked_settings(settings))
        targets = [] if to is None else [to] if isinstance(to, str) else several(to, "to", "['short', 'long']")
        return cls(
            to=tuple(dict.fromkeys(checked_name(target, "a station in to=") for target in targets)),
            entry=entry,
            payload=payload,
            retry=task_options({"retry": retry, **attempts}, Retry())[0],
            limits=limits_text(Limits(limits_names(limits))),
            timeout=None if timeout is None else seconds_of(timeout, "timeout"),
            max_rounds=whole(max_rounds, "max_rounds"),
            max_rate=declared.max_rate,
            key=checked_key(key),
            stored=stored,
            settings=declared,
            takes=takes,
        )
