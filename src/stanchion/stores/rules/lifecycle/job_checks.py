"""The checks of jobs that another program has made: new ones, and stored ones to adopt.

Whatever way jobs come in, the same values are refused. Python's options are checked by the functions of `core.checks`
that this module uses, the texts of `stanchion_push` are filled with their bounds by `rules.plain_push`; managers and
copies call this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, Final, NoReturn

from stanchion.core.checks import (
    LONGEST_DELAY,
    MAX_HEADERS,
    brief,
    checked_name,
    number,
    whole,
)
from stanchion.core.ids import ID
from stanchion.core.values.codec import is_sealed
from stanchion.core.values.framing import MAX_ITEMS, Content, items_in
from stanchion.errors import InvalidInput
from stanchion.stores.fields.jobs import DEATH, FIELDS, KEPT, KINDS, LIMITS, SPANS, WAITS, WITHIN, Kind
from stanchion.stores.records.jobs import QUEUED, JobRow, JobState, NewJob
from stanchion.stores.records.slots import NODE, ORDER, SEMAPHORE
from stanchion.stores.rules.capacity.limits import checked_limits
from stanchion.stores.rules.lifecycle.past_waits import lines_of, wait_in
from stanchion.stores.rules.lifecycle.trail import Stop, are_kept
from stanchion.stores.rules.undeliverable import misfit

_SEALED: Final = re.compile(r"enc:[A-Za-z0-9_=-]+")

_ADOPTED: Final = (QUEUED, JobState.DONE, JobState.DEAD, JobState.CANCELLED)


def check_new(job: NewJob) -> None:
    """Raise InvalidInput for a new job that no store should keep."""
    for value, check in zip(job, _NEW_CHECKS, strict=True):
        if value is not None and check is not None:
            check(value)
    if job.key_ttl is not None and job.key is None:
        raise InvalidInput("key_ttl says how long a key holds; give the key too")
    if job.on_duplicate not in ("return", "raise", "replace"):
        raise InvalidInput(f"on_duplicate must be return, raise or replace, not {brief(job.on_duplicate)}")
    if (slot := job.waits_for) is None:
        return
    if slot[:2] != (NODE, ""):
        raise InvalidInput(
            f"a new job waits for a node of its flow or for nothing, not for {brief(slot.kind)} of queue "
            f"{brief(slot.queue)}: leave waits_kind out; {' and '.join(LIMITS)} make a job wait for others"
        )
    check_id(slot.name, "the node that a job waits for")


def check_stored(row: JobRow) -> None:
    """Raise InvalidInput for a job of another store that can't be adopted."""
    if fault := misfit(row):
        raise InvalidInput(fault)
    if row.state not in _ADOPTED or (row.state == QUEUED) != (row.finished_at is None):
        raise InvalidInput(
            f"a job to adopt is queued, or {', '.join(_ADOPTED[1:])} with finished_at, not {brief(row.state)} with "
            f"finished_at={row.finished_at}"
        )
    for value, check in zip(row, _STORED_CHECKS, strict=True):
        if value is not None and check is not None:
            check(value)
    if row.items != items_in(row.payload) and (row.items != 0 or row.finished_at is None):
        raise InvalidInput(f"a job to adopt has as many items as its payload, or 0 once it is divided, not {row.items}")
    if len({value is None for value in _death(row)}) > 1:
        raise InvalidInput(f"a dead letter has all of {', '.join(DEATH)}, and another job none of them")
    for line in lines_of(row):
        if wait_in(line) is None:
            raise InvalidInput(f"a past wait must be [kind, queue, name, since, until], not {brief(line)}")
    if row.waits_kind not in (None, *_WAITED) or (row.state == QUEUED and row.waits_kind is not None):
        raise InvalidInput(f"a job to adopt waits for nothing, not for {brief(row.waits_kind)}: leave waits_kind out")


_death: Final = attrgetter(*DEATH)
_WAITED: Final = (ORDER, SEMAPHORE, NODE)


def check_id(value: str, what: str = "a job") -> None:
    """Raise InvalidInput unless this is the id of a job, or of another client-made thing."""
    if not ID.fullmatch(value):
        raise InvalidInput(f"the id of {what} is a UUID in small letters, not {brief(value)}")


def check_payload(text: Content | None, what: str = "the payload") -> None:
    """Raise InvalidInput for a text that is neither JSON nor encrypted, and for bytes that begin like no chunk.

    What the rest of a chunk holds is up to its writer.
    """
    if isinstance(text, bytes):
        if not 1 <= (items_in(text) or 0) <= MAX_ITEMS:
            raise InvalidInput(f"{what} is a chunk, which begins with the number of its items: 4 bytes, big-endian")
    elif text is not None and not (_SEALED.fullmatch(text) if is_sealed(text) else _is_json(text)):
        raise InvalidInput(f'{what} must be JSON, such as {{"id": 1}}, not {brief(text)}')


def check_headers(text: str | None) -> None:
    """Raise InvalidInput for headers that are no JSON object, or too large."""
    _check_json(text, "the headers", lambda value: isinstance(value, dict), "a JSON object")


def check_json(text: str | None, what: str) -> None:
    """Raise InvalidInput for a text that is no JSON."""
    _check_json(text, what, lambda _: True, "JSON")


def _check_span(value: float, name: str) -> None:
    if number(value, name, 0, LONGEST_DELAY) == 0:
        raise InvalidInput(f"{name} must be more than 0 seconds; leave it out for none")


def _check_trail(text: str) -> None:
    _check_json(text, "the trail", _is_trail, f"a JSON list of [{', '.join(Stop._fields)}]")


def _check_errors(text: str) -> None:
    _check_json(text, "the errors", _are_errors, "a JSON list of objects, each with an error")


def _check_kept(text: str) -> None:
    _check_json(text, "the kept payloads", are_kept, "a JSON object of [entered_at, payload]")


def _check_json(text: str | None, what: str, fits: Callable[[object], bool], form: str) -> None:
    if text is None:
        return
    if len(text) > MAX_HEADERS and what in ("the headers", "the trail"):
        raise InvalidInput(f"{what} take {len(text):,} characters, more than {MAX_HEADERS:,}")
    try:
        fitting = fits(_decode(text))
    except (ValueError, RecursionError):
        fitting = False
    if not fitting:
        raise InvalidInput(f"{what} must be {form}, not {brief(text)}")


def _is_json(text: str) -> bool:
    try:
        _decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_decode: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _is_trail(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(stop, list)
        and len(stop) in (2, 4)
        and isinstance(stop[0], str)
        and all(isinstance(one, int) for one in stop[1:])
        for stop in value
    )


def _are_errors(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("error"), str)
        and all(isinstance(entry.get(name, kinds[0]()), kinds) for name, kinds in _OF_ERRORS.items())
        for entry in value
    )


_OF_ERRORS: Final[dict[str, tuple[type, ...]]] = {
    **dict.fromkeys(("attempt", "times"), (int,)),
    **dict.fromkeys(("at", "since", "started", "until"), (int, float)),
    **dict.fromkeys(("group", "traceback", "worker"), (str,)),
}

_Check = Callable[[Any], object]
_BY_NAME: Final[dict[str, _Check]] = {
    "id": check_id,
    "queue": partial(checked_name, what="the queue of a job"),
    "headers": check_headers,
    "limits": checked_limits,
    **{name: partial(_check_span, name=name) for name in SPANS},
    "errors": _check_errors,
    "trail": _check_trail,
    KEPT: _check_kept,
}
_OF_TEXT: Final[dict[Kind, Callable[[str, str], object]]] = {
    Kind.ID: check_id,
    Kind.MARKED_ID: lambda value, name: check_id(value.removesuffix("*"), name),
    Kind.NAME: checked_name,
    Kind.TOKEN: checked_name,
    Kind.CONTENT: lambda value, name: check_payload(value, f"the {name}"),
}


def _check_of(name: str) -> _Check | None:
    """Return the check of the values of a field; None: other functions check it, or it can't be wrong."""
    kind = KINDS[name]
    if name in _BY_NAME or name in WAITS:
        return _BY_NAME.get(name)
    if (check := _OF_TEXT.get(kind)) is not None:
        return lambda value: check(value, name)
    if (within := _WITHIN.get(name, WITHIN.get(kind))) is None:
        return None
    if kind is Kind.REAL:
        return lambda value: number(value, name, *within)
    return lambda value: whole(value, name, int(within[0]), int(within[1]))


_WITHIN: Final = {field.name: field.within for field in FIELDS if field.within is not None}
_NEW_CHECKS: Final = tuple(map(_check_of, NewJob._fields))
_STORED_CHECKS: Final = tuple(map(_check_of, JobRow._fields))
