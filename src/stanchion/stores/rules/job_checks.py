"""The checks of jobs that another program has made: new ones, and stored ones to adopt.

Whatever way jobs come in, the same values are refused. Python's options are checked by the functions of `core.checks`
that this module uses, the texts of `stanchion_push` are filled with their bounds by `rules.plain_push`; managers and
copies call this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from stanchion.core.checks import (
    LONGEST_DELAY,
    MAX_HEADERS,
    MAX_LIMITS,
    MAX_PRIORITY,
    MIN_PRIORITY,
    checked_name,
    number,
    shown,
    whole,
)
from stanchion.core.ids import ID
from stanchion.core.retry import MOST_ATTEMPTS
from stanchion.core.values.codec import is_sealed
from stanchion.errors import InvalidInput
from stanchion.stores.fields.jobs import WAITS, Kind, names
from stanchion.stores.records.jobs import QUEUED, UNLANED, JobRow, JobState, NewJob
from stanchion.stores.records.slots import NODE, ORDER, SEMAPHORE
from stanchion.stores.rules.dead_letters import check_story, headers_in
from stanchion.stores.rules.limits import checked_limits
from stanchion.stores.rules.past_waits import lines_of, wait_in
from stanchion.stores.rules.unreadable import misfit

LATEST: Final = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""

LANES_MAX: Final = 1_000_000

_SEALED: Final = re.compile(r"enc:[A-Za-z0-9_=-]+")
_MEMBERS_MAX: Final = 2**31 - 1

_ADOPTED: Final = (QUEUED, JobState.DONE, JobState.DEAD, JobState.CANCELLED)
_NAMES: Final = tuple(name for name in names(Kind.NAME, Kind.TOKEN) if name not in {"queue", *WAITS})
_NEW_NAMES: Final = tuple(name for name in _NAMES if name in NewJob._fields)
_TIMES: Final = names(Kind.MICROS)
_CONTENTS: Final = names(Kind.CONTENT)
_IDS: Final = names(Kind.ID)[1:]


def check_new(job: NewJob) -> None:
    """Raise InvalidInput for a new job that no store should keep."""
    check_id(job.id)
    checked_name(job.queue, "the queue of a job")
    for name in _NEW_NAMES:
        if (value := getattr(job, name)) is not None:
            checked_name(value, name)
    check_payload(job.payload)
    _check_schedule(job)
    _check_flow(job)
    _check_texts(job)
    if job.run_at is not None:
        whole(job.run_at, "run_at", 0, LATEST)
    for name in ("delay", "key_ttl"):
        if (value := getattr(job, name)) is not None:
            number(value, name, 0, LONGEST_DELAY)
    if job.key_ttl is not None and job.key is None:
        raise InvalidInput("key_ttl says how long a key holds; give the key too")
    if job.on_duplicate not in ("return", "raise", "replace"):
        raise InvalidInput(f"on_duplicate must be return, raise or replace, not {shown(job.on_duplicate)}")
    if (job.waits_kind, job.waits_queue or "") not in ((None, ""), (NODE, "")):
        raise InvalidInput(
            f"a new job waits for a node of its flow or for nothing, not for {shown(job.waits_kind)} of queue "
            f"{shown(job.waits_queue)}: leave waits_kind out; limits and order_key make a job wait for others"
        )
    if job.waits_kind is not None:
        check_id(job.waits_name or "", "the node that a job waits for")


def check_stored(row: JobRow) -> None:
    """Raise InvalidInput for a job of another store that can't be adopted."""
    if fault := misfit(row):
        raise InvalidInput(fault)
    check_id(row.id)
    checked_name(row.queue, "the queue of a job")
    if row.state not in _ADOPTED or (row.state == QUEUED) != (row.finished_at is None):
        raise InvalidInput(
            f"a job to adopt is queued, or {', '.join(_ADOPTED[1:])} with finished_at, not {shown(row.state)} with "
            f"finished_at={row.finished_at}"
        )
    for name in _NAMES:
        if (value := getattr(row, name)) is not None:
            checked_name(value, name)
    for name in _TIMES:
        if (value := getattr(row, name)) is not None:
            whole(value, name, 0, LATEST)
    for name in _CONTENTS:
        if (value := getattr(row, name)) is not None:
            check_payload(value, f"the {name}")
    for name in ("attempts", "failures", "lost_leases", "lost_in_all"):
        whole(getattr(row, name), name, 0, MOST_ATTEMPTS)
    whole(row.slots_held, "slots_held", 0, MAX_LIMITS + 1)
    if row.progress is not None:
        number(row.progress, "progress", 0, 1)
    _check_schedule(row)
    _check_flow(row)
    _check_texts(row)
    _check_json(row.errors, "the errors", _are_errors, "a JSON list of objects, each with an error")
    for line in lines_of(row):
        if wait_in(line) is None:
            raise InvalidInput(f"a past wait must be [kind, queue, name, since, until], not {shown(line)}")
    if row.waits_kind not in (None, *_KINDS) or (row.state == QUEUED and row.waits_kind is not None):
        raise InvalidInput(f"a job to adopt waits for nothing, not for {shown(row.waits_kind)}: leave waits_kind out")


_KINDS: Final = (ORDER, SEMAPHORE, NODE)


def check_id(value: str, what: str = "a job") -> None:
    """Raise InvalidInput unless this is the id of a job, or of another client-made thing."""
    if not ID.fullmatch(value):
        raise InvalidInput(f"the id of {what} is a UUID in small letters, not {shown(value)}")


def check_payload(text: str | None, what: str = "the payload") -> None:
    """Raise InvalidInput for a text that is neither JSON nor encrypted."""
    if text is not None and not (_SEALED.fullmatch(text) if is_sealed(text) else _is_json(text)):
        raise InvalidInput(f'{what} must be JSON, such as {{"id": 1}}, not {shown(text)}')


def check_headers(text: str | None) -> None:
    """Raise InvalidInput for headers that are no JSON object, or too large."""
    _check_json(text, "the headers", lambda value: isinstance(value, dict), "a JSON object")
    check_story(headers_in(text))


def check_json(text: str | None, what: str) -> None:
    """Raise InvalidInput for a text that is no JSON."""
    _check_json(text, what, lambda _: True, "JSON")


def _check_schedule(job: NewJob | JobRow) -> None:
    whole(job.priority, "priority", MIN_PRIORITY, MAX_PRIORITY)
    whole(job.max_attempts, "max_attempts", 1, MOST_ATTEMPTS)
    whole(job.lane, "lane", UNLANED, LANES_MAX)
    if job.timeout is not None and number(job.timeout, "timeout", 0, LONGEST_DELAY) == 0:
        raise InvalidInput("timeout must be more than 0 seconds; leave it out for none")


def _check_flow(job: NewJob | JobRow) -> None:
    for name in _IDS:
        if (value := getattr(job, name)) is not None:
            check_id(value, name)
    if job.flow_index is not None:
        whole(job.flow_index, "flow_index", 0, _MEMBERS_MAX)
    if job.flow_after is not None:
        check_id(job.flow_after.removesuffix("*"), "flow_after")


def _check_texts(job: NewJob | JobRow) -> None:
    check_headers(job.headers)
    if job.limits is not None:
        checked_limits(job.limits)
    _check_json(job.trail, "the trail", _is_trail, "a JSON list of [queue, entered_at, attempts, left]")


def _check_json(text: str | None, what: str, fits: Callable[[Any], bool], form: str) -> None:
    if text is None:
        return
    if len(text) > MAX_HEADERS and what in ("the headers", "the trail"):
        raise InvalidInput(f"{what} take {len(text):,} characters, more than {MAX_HEADERS:,}")
    try:
        fitting = fits(_decode(text))
    except (ValueError, RecursionError):
        fitting = False
    if not fitting:
        raise InvalidInput(f"{what} must be {form}, not {shown(text)}")


def _is_json(text: str) -> bool:
    try:
        _decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_decode: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _is_trail(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(stop, list)
        and len(stop) in (2, 4)
        and isinstance(stop[0], str)
        and all(isinstance(one, int) for one in stop[1:])
        for stop in value
    )


def _are_errors(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("error"), str)
        and all(isinstance(entry.get(name, kinds[0]()), kinds) for name, kinds in _OF_ERRORS.items())
        for entry in value
    )


_OF_ERRORS: Final[dict[str, Any]] = {
    **dict.fromkeys(("attempt", "times"), (int,)),
    **dict.fromkeys(("at", "since", "started", "until"), (int, float)),
    **dict.fromkeys(("group", "traceback", "worker"), (str,)),
}
