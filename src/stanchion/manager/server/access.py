"""Permissions of callers: a role for each verb of the port, and for limited callers the queues that it touches.

A limited caller reads less rather than nothing: other queues are left out of answers. Changes of other queues are
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

from stanchion.errors import NotPermitted
from stanchion.manager.server.named import made_queues
from stanchion.manager.server.own_workers import queues_of
from stanchion.manager.server.shared import check_limits, uses_rate
from stanchion.manager.server.tokens import Caller, Role
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRef
from stanchion.stores.records.query import Query
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.records.workers import HOLDER, WorkerRow
from stanchion.stores.rules.capacity.declared_rates import KIND as RATE

Args = Mapping[str, Any]
"""The arguments of a verb, by the names in the port."""

ROLES: Final[Mapping[str, Role | None]] = {
    **dict.fromkeys(("now", "check", "queues", "stats", "lane_depths", "fetch", "select", "partition"), None),
    **dict.fromkeys(("semaphores", "flow_nodes", "flow_ends", "workers", "values", "listen"), None),
    **dict.fromkeys(("push", "change_flows", "stage", "publish", "unstage", "compare_and_set"), Role.PUSH),
    **dict.fromkeys(("claim", "settle", "recover", "maintain", "beat", "leave", "receive"), Role.RECEIVE),
    **dict.fromkeys(("configure", "drop_queue", "set_semaphore", "setup"), Role.ADMIN),
    **dict.fromkeys(("cancel", "retry", "delete", "adopt"), Role.ADMIN),
}
"""The role that each verb takes; None: any."""

KINDS: Final[Mapping[str, Role]] = {
    **dict.fromkeys(("topic-push", "write"), Role.PUSH),
    **dict.fromkeys(("spark-rounds", "schedule", "stream", "failures", "rollup", "hidden", "output"), Role.RECEIVE),
}
"""The role for changes of values; `admin` for all other kinds, which steer processes or which people read."""

CLOSED: Final = "manager."
"""The values of these kinds are the managers' own."""

SHARED: Final = frozenset({"topic", "topic-push", "upkeep"})
"""The kinds of values that callers limited to queues see too."""

_OF_QUEUES: Final = frozenset({"spark-rounds", "output", "partitions", "failures", "pause", "pauses", "schema"})
"""The kinds of values that are named by queues."""


def check(store: Store, caller: Caller, verb: str, args: Args) -> None:
    """Raise NotPermitted unless the caller may make this call. For a limited caller it may read jobs by their ids."""
    for role in _roles(verb, args):
        _check_role(caller, verb, role)
    for kind, _ in _changed_values(verb, args):
        if kind.startswith(CLOSED):
            raise _refused(caller, f"may not change values of the kind {kind!r}, which are the managers' own")
    check_limits(caller, verb, args)
    if caller.queues is None:
        return
    touched = _TOUCHED.get(verb)
    if touched is not None:
        _refuse_others(caller, touched(args))
    elif verb in _BY_ID:
        ids = [one.id if isinstance(one, JobRef) else one for one in args.get("refs", args.get("ids", ()))]
        _refuse_others(caller, (row.queue for row in store.fetch(ids).values()))
    elif verb not in _FILTERS and verb not in _FOR_ALL:
        raise _refused(caller, f"may not call {verb}, as it is limited to queues, and that call is not about some")


def answer(caller: Caller, verb: str, args: Args, found: object) -> object:
    """Return the answer to a call without the parts that the caller may not see."""
    if caller.queues is None or verb not in _FILTERS:
        return found
    return _FILTERS[verb](caller, args, found)


def check_role(caller: Caller, verb: str) -> None:
    """Raise NotPermitted unless the caller has the role that a verb takes, whatever its arguments are."""
    _check_role(caller, verb, ROLES[verb])


def _check_role(caller: Caller, verb: str, role: Role | None) -> None:
    if not caller.has(role):
        raise _refused(caller, f"may not call {verb}, which takes the role {role}; it has {_listed(caller.roles)}")


def _roles(verb: str, args: Args) -> Iterator[Role | None]:
    """Yield the roles that a call takes, all of them."""
    if verb != "compare_and_set":
        yield ROLES[verb]
    if verb == "publish" and args["publication"].finish is not None:
        yield ROLES["settle"]
    if verb == "push" and args.get("claim") is not None:
        yield ROLES["claim"]
    for kind, _ in _changed_values(verb, args):
        yield KINDS.get(kind, Role.ADMIN)


def _changed_values(verb: str, args: Args) -> Iterator[tuple[str, str]]:
    """Yield the kinds and names of the values that a call changes."""
    if verb == "compare_and_set":
        yield args["kind"], args["name"]
    if verb == "publish" and (change := args["publication"].value) is not None:
        yield change.kind, change.name


def _refuse_others(caller: Caller, queues: Iterable[str]) -> None:
    for queue in queues:
        if not caller.reaches(queue):
            raise _refused(caller, f"may not use queue {queue!r}; it is limited to {_listed(caller.queues or ())}")


def _refused(caller: Caller, what: str) -> NotPermitted:
    return NotPermitted(f"the token of {caller.name} {what}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


# -- the queues that a call touches


def _of_outcomes(args: Args) -> Iterator[str]:
    yield from (one.lease.queue for one in args["outcomes"])
    yield from made_queues("settle", args)


def _of_publication(args: Args) -> Iterator[str]:
    if (finish := args["publication"].finish) is not None:
        yield finish.queue
        yield from made_queues("publish", args)
    yield from _of_values("publish", args)


def _of_values(verb: str, args: Args) -> Iterator[str]:
    return (_queue_of(kind, name) for kind, name in _changed_values(verb, args) if kind not in SHARED)


def _queue_of(kind: str, name: str) -> str:
    """Return the queue of a value that is named by it, or by it and a key."""
    return name.rpartition(" ")[0] if kind == "output" else name


def _of_query(query: Query) -> Iterator[str]:
    """Yield the queues that a query names; without any it is about all, which no limited caller reaches."""
    named = [one for one in query.where if one.field == "queue" and one.op in ("=", "in")]
    if not named:
        yield "* (name the queues in the search)"
    for one in named:
        yield from [one.value] if one.op == "=" else one.value


_TOUCHED: Final[Mapping[str, Callable[[Args], Iterable[str]]]] = {
    "configure": lambda args: [args["queue"], *filter(None, [args["changes"].get("dead_letter")])],
    "drop_queue": lambda args: [args["queue"]],
    "lane_depths": lambda args: [args["queue"]],
    "push": lambda args: [*made_queues("push", args), *([args["claim"].queue] if args.get("claim") else [])],
    "stage": partial(made_queues, "stage"),
    "adopt": partial(made_queues, "adopt"),
    "claim": lambda args: [args["claim"].queue],
    "settle": _of_outcomes,
    "change_flows": partial(made_queues, "change_flows"),
    "publish": _of_publication,
    "compare_and_set": lambda args: _of_values("compare_and_set", args),
    "select": lambda args: _of_query(args["query"]),
    "partition": lambda args: _of_query(args["query"]),
    "stats": lambda args: args["queues"],
    "listen": lambda args: [*args["queues"], *(args["finished"] or ())],
    "receive": lambda args: args["queues"],
    "beat": lambda args: chain.from_iterable(map(queues_of, args["workers"])),
}

_BY_ID: Final = frozenset({"cancel", "retry", "delete"})
_FOR_ALL: Final = frozenset({"now", "check", "maintain", "leave", "semaphores", "unstage"})
"""Calls about no queue, or about all, that do a limited caller no favour; `leave` is checked by `OwnWorkers`."""


# -- the view of a limited caller


def _settings(caller: Caller, _args: Args, found: list[QueueSettings]) -> list[QueueSettings]:
    return [one for one in found if caller.reaches(one.name)]


def _values(caller: Caller, args: Args, found: list[VersionedValue]) -> list[VersionedValue]:
    if args["kind"] in SHARED:
        return found
    if args["kind"] == RATE:
        return [one for one in found if uses_rate(caller, one.name)]
    return [one for one in found if args["kind"] in _OF_QUEUES and caller.reaches(_queue_of(args["kind"], one.name))]


def _workers(caller: Caller, _args: Args, found: list[WorkerRow]) -> list[WorkerRow]:
    return [seen for row in found if (seen := _seen_of(caller, row)) is not None]


def _seen_of(caller: Caller, row: WorkerRow) -> WorkerRow | None:
    """Return the visible part of a worker: its part in queues of the caller; all of a worker of these alone.

    A consumer is seen before it names queues: it looks there whether it holds jobs.
    """
    queues = tuple(filter(caller.reaches, row.queues))
    if queues == row.queues:
        return None if row.state == HOLDER and not queues else row
    lanes = tuple(one for one in row.lanes if caller.reaches(one.queue))
    times = tuple(one for one in row.times if caller.reaches(one.queue))
    return replace(row, queues=queues, lanes=lanes, times=times, began=None) if queues else None


_FILTERS: Final[Mapping[str, Callable[[Caller, Args, Any], object]]] = {
    "queues": _settings,
    "values": _values,
    "workers": _workers,
    "fetch": lambda caller, _args, found: {one: row for one, row in found.items() if caller.reaches(row.queue)},
    "recover": lambda caller, _args, found: [row for row in found if caller.reaches(row.queue)],
}
