"""The options of a station, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple, Self, get_args

from stanchion.context.queues.settings import checked_settings
from stanchion.core.checks import checked_name, seconds_of, several, whole
from stanchion.core.retry import Retry
from stanchion.errors import InvalidInput
from stanchion.jobs.options import limits_names
from stanchion.pipelines.outputs import KeyOf, checked_key
from stanchion.pipelines.windows import Windows
from stanchion.stores.rules.limits import Limits, limits_text
from stanchion.tasks.task import task_options

PayloadMode = Literal["replace", "merge"]

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
    `stanchion.pipelines.outputs`.
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
        max_rounds: Any,
        settings: Mapping[str, Any],
        key: Any = None,
    ) -> Self:
        """Return checked options. Raises InvalidInput for options that are wrong."""
        if payload not in get_args(PayloadMode):
            raise InvalidInput(f"payload must be one of {', '.join(get_args(PayloadMode))}, not {payload!r}")
        attempts = {} if max_attempts is None else {"max_attempts": max_attempts}
        targets = [] if to is None else [to] if isinstance(to, str) else several(to, "to", "['short', 'long']")
        return cls(
            to=tuple(dict.fromkeys(checked_name(target, "a station in to=") for target in targets)),
            entry=entry,
            payload=payload,
            retry=task_options({"retry": retry, **attempts}, Retry())[0],
            limits=limits_text(Limits(limits_names(limits))),
            timeout=None if timeout is None else seconds_of(timeout, "timeout"),
            max_rounds=whole(max_rounds, "max_rounds"),
            max_rate=checked_settings(settings).get("max_rate"),
            key=checked_key(key),
        )
