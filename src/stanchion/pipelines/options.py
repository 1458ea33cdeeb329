"""The options of a station, and their checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, Self, get_args

from stanchion.context.context import Context
from stanchion.context.queues.settings import checked_settings
from stanchion.core.checks import brief, checked_name, seconds_of, several, whole
from stanchion.core.retry import Retry
from stanchion.core.text.durations import duration
from stanchion.errors import InvalidInput
from stanchion.jobs.options import limits_names
from stanchion.pipelines.chunks.ends import Takes
from stanchion.pipelines.outputs import KeyOf, checked_key
from stanchion.pipelines.tables.table import Table
from stanchion.schemas.ddl import struct_of
from stanchion.schemas.kinds import Plain
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.tasks.task import task_options

_UNITS = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}
_SPELLED = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})s?\s*", re.IGNORECASE)


class Run(Protocol):
    """Runs a worker in this process until it is stopped."""

    def __call__(self, context: Context, queues: Collection[str], threads: int, /, **options: object) -> None: ...


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
        cls, schema: str, options: StationOptions, watermark: object, late: str | None, checkpoint: object
    ) -> Self | None:
        """Return the checked options, None: the station has no watermark. Raises InvalidInput."""
        if watermark is not None and options.tables:
            raise InvalidInput(
                "a station with a watermark makes new items, and rows of a table end items: write them from the "
                "station behind it"
            )
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
        if not any(one != late for one in options.to):
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


Targets = str | Table | Collection[str | Table] | None
"""Where the items of a station may go: to other stations, by their names, and to tables."""

PayloadMode = Literal["replace", "merge"]

Stored = Literal["needed", "always"]
"""Where items are stored between stations: where a station or its queue needs it, or always."""

MAX_ROUNDS = 1000
"""Default for how often an item may enter a station by a loop."""


PER_BATCH: Final = 10_000
"""Items of the first micro-batch of a Spark station."""

GROW_TO: Final = 160_000
"""Items to which full micro-batches grow."""


class Frame(NamedTuple):
    """A function that processes batches of items on Spark, as a DataFrame of this schema (DDL).

    `windows`: of a station with a watermark, whose function gets the stream of its items. `rows_per_job`: how many of
    the new items that it makes a job carries at most; None: one. `grow_to`: see `streams.sizing.Growth`.
    """

    function: Callable[..., Any]
    schema: str
    max_per_batch: int
    windows: Windows | None = None
    rows_per_job: int | None = None
    grow_to: int | None = None

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        schema: str,
        max_per_batch: int | None,
        windows: Windows | None,
        rows_per_job: int | None,
    ) -> Self:
        """Return the checked function. Raises InvalidInput."""
        if rows_per_job is not None:
            whole(rows_per_job, "rows_per_job")
            if windows is not None:
                raise InvalidInput("rows_per_job is for stations without a watermark; leave it out")
        if max_per_batch is not None:
            return cls(function, schema, max_per_batch, windows, rows_per_job)
        return cls(function, schema, PER_BATCH, windows, rows_per_job, GROW_TO if windows is None else None)


class StationOptions(NamedTuple):
    """The options of a station: where its items come from and go to, and how they are processed.

    `limits`: the semaphores, as stored with an item; `timeout` in seconds; `max_rate` in items per second. `key`: see
    `stanchion.pipelines.outputs`. `stored`: items are stored before and after it. `settings`: those declared with
    it. `on_spark`: it has a function of DataFrames; `in_batches`: which gets micro-batches, and no stream. `takes`: the
    tables that its function takes in place of items. `is_async`: its function for workers is async. `tables`: to which
    it may write rows. `keep_arrival`: the payload is kept with which each item arrives. `folders`: the tables in
    folders among its targets, each of which is a station, also in `to`. `writes`: of such a station, the address of its
    table.
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
    in_batches: bool = False
    takes: Takes | None = None
    is_async: bool = False
    tables: tuple[Table, ...] = ()
    keep_arrival: bool = False
    folders: tuple[Table, ...] = ()
    writes: str | None = None

    @property
    def ends(self) -> bool:
        """True if what its function returns is the result of an item: it sends nothing on."""
        return not (self.to or self.tables)

    @classmethod
    def of(
        cls,
        to: Targets,
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
        keep_arrival: object = False,
    ) -> Self:
        """Return checked options. Raises InvalidInput for options that are wrong."""
        if takes is not None and takes not in get_args(Takes):
            raise InvalidInput(f"takes must be one of {', '.join(get_args(Takes))}, not {brief(takes)}")
        if takes is not None and key is not None:
            raise InvalidInput("key belongs to a function of one item: leave takes out, or make the key a column")
        _refuse_no_flags(stored=stored, keep_arrival=keep_arrival)
        if payload not in get_args(PayloadMode):
            raise InvalidInput(f"payload must be one of {', '.join(get_args(PayloadMode))}, not {payload!r}")
        attempts = {} if max_attempts is None else {"max_attempts": max_attempts}
        declared = replace(QueueSettings(""), **checked_settings(settings))
        listed = [] if to is None else [to] if isinstance(to, str | Table) else several(to, "to", "['short', 'long']")
        tables = tuple(dict.fromkeys(target for target in listed if isinstance(target, Table)))
        if tables and key is not None:
            raise InvalidInput(
                "a station with key= has one current output of each key, and a table gets all of its rows: leave key "
                "out, or write to the table from a station of its own"
            )
        folders = tuple(table for table in tables if table.in_folder)
        targets = [target for target in listed if isinstance(target, str)]
        for table in tables:
            if table.name in targets or any(one is not table and one.name == table.name for one in tables):
                raise InvalidInput(
                    f"two targets in to= are named {table.name!r}; give the table another name: "
                    f"Table({table.address!r}, name='...')"
                )
        names = [*(checked_name(target, "a station in to=") for target in targets), *(one.name for one in folders)]
        return cls(
            to=tuple(dict.fromkeys(names)),
            entry=entry,
            payload=payload,
            retry=task_options({"retry": retry, **attempts}, Retry())[0],
            limits=limits_text(Limits(limits_names(limits))),
            timeout=None if timeout is None else seconds_of(timeout, "timeout"),
            max_rounds=whole(max_rounds, "max_rounds"),
            max_rate=declared.max_rate,
            key=checked_key(key),
            stored=bool(stored),
            settings=declared,
            takes=takes,
            tables=tuple(table for table in tables if not table.in_folder),
            folders=folders,
            keep_arrival=bool(keep_arrival),
        )


def _refuse_no_flags(**flags: object) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise InvalidInput(f"{name} of a station must be True or False, not {brief(flag)}")
