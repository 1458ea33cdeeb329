"""The verbs of the port as calls of unary methods: their arguments as requests, their results as replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from stanchion.errors import InvalidInput
from stanchion.stores.wire.codec import LIST, NAMES, SECONDS, Codec, Convert, M, Part, R
from stanchion.stores.wire.jobs import (
    CHANGES,
    CLAIM,
    CLAIMED,
    END,
    JOB,
    JOB_REF,
    NEW_JOB,
    NODE,
    PUSHED,
    REDRIVEN,
    STATES,
)
from stanchion.stores.wire.messages import METHODS, Message, Method, build
from stanchion.stores.wire.outcomes import OUTCOMES
from stanchion.stores.wire.store import (
    BEAT,
    CAPABILITIES,
    SEMAPHORE,
    SETTINGS,
    STAT_NAMES,
    STATS_BY_QUEUE,
    WORKER,
    change_fields,
    changes_in,
)
from stanchion.stores.wire.values import PUBLICATION, QUERY, VERSIONED, page_fields, page_in

Carry = Callable[[Any], Message]
Take = Convert
Arguments = dict[str, Any]
"""Arguments of a verb by name."""


class Call(NamedTuple):
    """A verb as a call; `names`: of its arguments that are carried.

    `request` makes the request from arguments by name, without `tx`; `arguments` returns the arguments of a request.
    `reply` makes the reply from the verb's return value; `result` restores it. All raise InvalidInput for values that
    the protocol can't carry.
    """

    method: Method
    names: tuple[str, ...]
    request: Callable[[Arguments], Message]
    arguments: Callable[[Any], Arguments]
    reply: Carry
    result: Take


class _Argument(NamedTuple):
    """An argument of a verb: its field in the request, and its part. `absent`: what holds if the field is absent."""

    field: str
    part: Part | None = None
    absent: Literal["default", "none", "refused"] = "default"


def _request(
    method: Method, given: Mapping[str, Part | _Argument | None]
) -> tuple[Callable[[Arguments], Message], Callable[[Message], Arguments]]:
    """Return the functions between arguments and a request with a field for each."""
    described = method.request.DESCRIPTOR.fields_by_name
    table = {name: one if isinstance(one, _Argument) else _Argument(name, one) for name, one in given.items()}
    takes = [(name, one, described[one.field].has_presence) for name, one in table.items()]

    def request(arguments: Mapping[str, object]) -> Message:
        fields = {}
        for name, value in arguments.items():
            field, part, _ = table[name]
            fields[field] = value if value is None or part is None else part.carry(value)
        return build(method.request, fields)

    def arguments(message: Message) -> Arguments:
        found: Arguments = {}
        for name, (field, part, absent), optional in takes:
            if not optional or message.HasField(field):
                value = getattr(message, field)
                found[name] = value if part is None else part.take(value)
            elif absent == "refused":
                raise InvalidInput(f"a message {method.request.DESCRIPTOR.name} lacks {field}")
            elif absent == "none":
                found[name] = None
        return found

    return request, arguments


Result = Callable[[type[Message]], tuple[Carry, Take]]
"""The functions between a verb's return value and a reply of this type."""


def _nothing(kind: type[Message]) -> tuple[Carry, Take]:
    return lambda _: kind(), lambda _: None


def _field(name: str, part: Part | None = None) -> Result:
    """Return the functions for a reply with one field."""
    carry, take = part[:2] if part else (None, None)

    def functions(kind: type[Message]) -> tuple[Carry, Take]:
        return (
            lambda value: build(kind, {name: carry(value) if carry else value}),
            lambda message: take(getattr(message, name)) if take else getattr(message, name),
        )

    return functions


def _whole(codec: Codec[R, M]) -> Result:
    """Return the functions for a reply that is the record."""
    return lambda _: (codec.to_message, codec.taken)


def _call(rpc: str, result: Result, /, **arguments: Part | _Argument | None) -> Call:
    method = METHODS[rpc]
    return Call(method, tuple(arguments), *_request(method, arguments), *result(method.reply))


def _configure() -> Call:
    method = METHODS["Control.Configure"]
    return Call(
        method,
        ("queue", "changes"),
        lambda given: build(method.request, {"queue": given["queue"], **change_fields(given["changes"])}),
        lambda message: {"queue": message.queue, "changes": changes_in(message)},
        *_field("settings", SETTINGS.one)(method.reply),
    )


_LANES: Final = Part(lambda lanes: {"lanes": list(lanes)}, lambda message: tuple(message.lanes))

_ROWS: Final = JOB.many(list)

_ROWS_BY_ID: Final = Part(
    lambda rows: list(map(JOB.fields, rows.values())), lambda messages: {one.id: JOB.taken(one) for one in messages}
)

_DEPTHS: Final = Part(
    lambda depths: [{"lane": lane, "jobs": jobs} for lane, jobs in depths.items()],
    lambda messages: {one.lane: one.jobs for one in messages},
)


def _page(kind: type[Message]) -> tuple[Carry, Take]:
    return lambda page: build(kind, page_fields(page)), page_in


def _needed(field: str, codec: Codec[R, M]) -> _Argument:
    return _Argument(field, codec.one, "refused")


CALLS: Final[dict[str, Call]] = {
    # -- jobs
    "push": _call(
        "Queues.Push", _field("pushed", PUSHED.many(list)), jobs=NEW_JOB.many(list), claim=CLAIM.one, repeat=None
    ),
    "claim": _call("Queues.Reserve", _whole(CLAIMED), claim=_needed("claim", CLAIM)),
    "settle": _call("Queues.Finish", _field("states", STATES), outcomes=OUTCOMES, repeat=None),
    # -- reading
    "fetch": _call("Query.Fetch", _field("rows", _ROWS_BY_ID), ids=LIST),
    "select": _call("Query.Select", _page, query=_needed("query", QUERY)),
    "partition": _call(
        "Query.Partition", _field("queries", QUERY.many(list)), query=_needed("query", QUERY), parts=None
    ),
    "stats": _call("Query.Stats", _field("stats", STATS_BY_QUEUE), queues=LIST, fields=STAT_NAMES),
    "lane_depths": _call("Query.LaneDepths", _field("depths", _DEPTHS), queue=None, lanes=_LANES, at_most=None),
    "queues": _call("Query.Queues", _field("queues", SETTINGS.many(list)), names=NAMES),
    "semaphores": _call("Query.Semaphores", _field("semaphores", SEMAPHORE.many(list)), names=NAMES),
    "flow_nodes": _call("Query.FlowNodes", _field("nodes", NODE.many(list)), root=None),
    "flow_ends": _call("Query.FlowEnds", _field("ends", END.many(list)), node=None, after=None, limit=None),
    "workers": _call("Query.Workers", _field("workers", WORKER.many(list)), holders=None),
    "now": _call("Query.Now", _field("now")),
    "check": _call("Query.Check", _field("capabilities", CAPABILITIES.one)),  # in addition to the port
    "values": _call("Query.Values", _field("values", VERSIONED.many(list)), kind=None, names=NAMES),
    # -- operating
    "configure": _configure(),
    "drop_queue": _call("Control.DropQueue", _field("jobs"), queue=None),
    "cancel": _call("Control.Cancel", _field("states", STATES), ids=LIST),
    "retry": _call("Control.Retry", _field("results", REDRIVEN), ids=LIST),
    "delete": _call("Control.Delete", _field("deleted", LIST), refs=JOB_REF.many(list)),
    "adopt": _call("Control.Adopt", _field("adopted", LIST), rows=_ROWS),
    "maintain": _call("Control.Maintain", _field("queues", LIST), seconds=_Argument("time_us", SECONDS)),
    "recover": _call("Control.Recover", _field("rows", _ROWS), limit=None, as_of=None),
    "set_semaphore": _call(
        "Control.SetSemaphore",
        _field("changed"),
        name=None,
        capacity=_Argument("capacity", absent="none"),
        declared=None,
    ),
    "setup": _call("Control.Setup", _field("steps", LIST), dry_run=None),
    # -- writing
    "change_flows": _call("Write.ChangeFlows", _field("done", LIST), changes=CHANGES),
    "stage": _call("Write.Stage", _nothing, write=None, attempt=None, jobs=NEW_JOB.many(list)),
    "publish": _call("Write.Publish", _field("published"), publication=_needed("publication", PUBLICATION)),
    "unstage": _call("Write.Unstage", _nothing, write=None),
    "compare_and_set": _call(
        "Write.CompareAndSet",
        _field("written"),
        kind=None,
        name=None,
        text=_Argument("text", absent="none"),
        version=None,
    ),
    # -- workers
    "beat": _call("Worker.Beat", _whole(BEAT), workers=WORKER.many(list)),
    "leave": _call("Worker.Leave", _nothing, worker=None),
}
"""All verbs of the port but `listen` and `close`."""
