"""The bodies of requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, get_args

from stanchion.context.shard import MAX_LANES
from stanchion.core.checks import MAX_LIMITS, MAX_PRIORITY, MIN_PRIORITY
from stanchion.core.ids import NAME_MAX
from stanchion.core.names.partition_names import MAX_PARTITIONS
from stanchion.core.retry import MOST_ATTEMPTS
from stanchion.core.service_levels import BANDS
from stanchion.core.text.error_texts import MAX_ERROR
from stanchion.jobs.options import OnDuplicate, RateBy
from stanchion.ops.web.api.operation import Schema
from stanchion.ops.web.api.schemas.kinds import (
    anything,
    body,
    choice,
    flag,
    maybe,
    name,
    of,
    ref,
    seconds,
    several,
    table,
    text,
    time,
    whole,
)
from stanchion.stores.fields.jobs import OPTIONS, Kind, Option
from stanchion.stores.fields.queues import SETTABLE, Setting

PUSHED_MAX: Final = 1000
"""Jobs of one push."""

RESERVED_MAX: Final = 100
"""Jobs of one reserve."""

WAIT_MAX: Final = 20.0
"""Maximum seconds that a reserve may wait."""

CHOSEN_MAX: Final = 500
NOTE_MAX: Final = 300

_TOKEN: Final = text("The fencing token of the reservation.", minLength=1, maxLength=100)
_PAYLOAD: Final = anything(
    "Replaces the payload for the next attempt; a task keeps its arguments, and finds it as its checkpoint. "
    "Leave it out to keep the payload."
)
_DELAY: Final = seconds("Seconds from now until it is due.")
_NOTE: Final = text("Why, for the audit log.", maxLength=NOTE_MAX)

_OPTIONS: Final[dict[str, Callable[[str], Schema]]] = {
    "priority": lambda about: {
        "description": about,
        "oneOf": [whole(least=MIN_PRIORITY, most=MAX_PRIORITY), choice(band.name for band in BANDS)],
    },
    "on_duplicate": partial(choice, get_args(OnDuplicate)),
    "limits": partial(several, name(), maxItems=MAX_LIMITS),
    "headers": partial(table, anything("Any JSON value.")),
    "max_attempts": partial(whole, least=1, most=MOST_ATTEMPTS),
    "timeout": lambda about: seconds(f"Seconds {about}", exclusiveMinimum=0),
}
_OF_KIND: Final[dict[Kind, Callable[[str], Schema]]] = {
    Kind.NAME: name,
    Kind.MICROS: time,
    Kind.REAL: lambda about: seconds(f"Seconds {about}"),
    Kind.INT: whole,
    Kind.FLAG: flag,
}


def _option(one: Option) -> Schema:
    """Return the schema of an option of a push."""
    schema = (_OPTIONS.get(one.name) or _OF_KIND[one.kind])(one.about)
    return maybe(schema) if one.optional else schema


_NEW_JOB: Final = body(
    "A job: a payload, or the call of a task, `task` with `args` and `kwargs`.",
    payload=anything("Any JSON value."),
    task=name("The task to call."),
    args=several(anything("An argument."), "The positional arguments of the call."),
    kwargs=table(anything("An argument."), "The keyword arguments of the call."),
    **{one.name: _option(one) for one in OPTIONS},
    rate=maybe(
        {
            "description": "Starts per second of the jobs that share the rate, or such as 100/m.",
            "oneOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": 1e6}, text(maxLength=40)],
        }
    ),
    rate_by=maybe(choice(get_args(RateBy), "Which jobs share the rate.")),
    rate_key=maybe(name("All jobs with this key share the rate.")),
)  # fmt: skip

_MOST: Final = {"lanes": MAX_LANES, "lanes_per_tenant": MAX_LANES, "partitions": MAX_PARTITIONS}


def _setting(one: Setting) -> Schema:
    """Return the schema of a setting of a queue."""
    match one.kind:
        case Kind.FLAG:
            schema = flag(one.about)
        case Kind.INT:
            schema = whole(one.about, 1, _MOST.get(one.name, 1_000_000_000))
        case Kind.REAL if one.is_time:
            schema = seconds(one.about, **({} if one.name == "history_ttl" else {"exclusiveMinimum": 0}))
        case Kind.REAL:
            schema = of("number", one.about, exclusiveMinimum=0, maximum=1e9)
        case Kind.WORD:
            schema = choice(["tenant"], one.about)
        case _:
            schema = name(one.about)
    return schema if one.required else maybe(schema)


_SETTINGS: Final = {one.name: _setting(one) for one in SETTABLE if one.name != "paused"}

BODIES: Final[dict[str, Schema]] = {
    "NewJob": _NEW_JOB,
    "PushBody": body("Jobs to store, in one step.", "jobs",
                     jobs=several(ref("NewJob"), minItems=1, maxItems=PUSHED_MAX)),
    "ReserveBody": body(
        "How many jobs to reserve, and how long to wait for the first.",
        limit=whole("Jobs at most; by default 1.", 1, RESERVED_MAX),
        wait=seconds("Seconds to wait for the first job; by default 0.", maximum=WAIT_MAX),
        lease=seconds("Seconds of the reservation; by default the queue's.", exclusiveMinimum=0),
        first_lane=whole("Only jobs of lanes from this one on; lane 0 includes jobs in no lane.", 0, MAX_LANES - 1),
        last_lane=whole("Only jobs of lanes up to this one.", 0, MAX_LANES - 1),
        holder=name("A name shown as the holder of the jobs; by default the name of the caller.", NAME_MAX),
    ),
    "CommitBody": body("How the job was done.", "token", token=_TOKEN, result=anything("Kept with the job."),
                       payload=_PAYLOAD),
    "RollbackBody": body(
        "The attempt failed: run the job again.", "token", token=_TOKEN, payload=_PAYLOAD,
        delay=maybe(seconds("Seconds from now until it is due; null, or left out: by the retry policy.")),
        error=text("What went wrong; then the attempt counts as a failure.", maxLength=MAX_ERROR),
    ),
    "ReleaseBody": body("Give the job back; the attempt does not count.", "token", token=_TOKEN, payload=_PAYLOAD,
                        delay=_DELAY),
    "MoveBody": body(
        "Commit here, and enqueue in another queue under the same id, in one step.", "token queue", token=_TOKEN,
        queue=name("The other queue."), payload=anything("The new payload; leave it out to keep the present one."),
        delay=_DELAY, keep_entry=flag("Keep the payload of the entry, if this is the first change of it."),
        keep_arrival=flag("Keep the payload with which it came to the queue that it leaves."),
    ),
    "BuryBody": body("End the job as dead.", "token", token=_TOKEN, reason=text("Why.", maxLength=MAX_ERROR)),
    "AbandonBody": body("End the job as cancelled.", "token", token=_TOKEN, reason=text("Why.", maxLength=MAX_ERROR)),
    "ExtendBody": body("Renew the lease.", "token seconds", token=_TOKEN,
                       seconds=seconds("It ends so many seconds from now.", exclusiveMinimum=0)),
    "ProgressBody": body("Report progress.", "token progress", token=_TOKEN,
                         progress={"type": "number", "minimum": 0, "maximum": 1, "description": "The share done."}),
    "NoteBody": body("A note for the audit log.", note=_NOTE),
    "SettingsBody": {**body("Settings to change; the others stay.", **_SETTINGS), "minProperties": 1},
    "CapacityBody": body("The new capacity.", "capacity", note=_NOTE,
                         capacity=whole("Maximum number of concurrent holders; 0: closed.", 0, 1_000_000)),
    "BulkBody": body(
        "Which jobs, and what to do with them: `ids`, or a filter as of the list of jobs.", "act",
        act=choice(["retry", "cancel", "replay"]),
        ids=several(name(), "Jobs chosen one by one.", minItems=1, maxItems=CHOSEN_MAX),
        where=ref("JobFilter"),
        rate=whole("Jobs a second; 0: no limit, which is the default.", 0, 10_000),
    ),
    "OnItBody": body("An alert by its key.", "key", key=name("`key` of the alert.")),
}  # fmt: skip
