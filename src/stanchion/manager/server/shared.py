"""Names that all queues share: semaphores, rates, flows, writes. A caller limited to queues uses only its own.

Otherwise its jobs could hold the slots of a semaphore that others need, spend the starts of their rates, or count as
members of their flows; and it could publish what others have staged, or delete it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from stanchion.core.names.fitted_names import fitted
from stanchion.errors import NotPermitted
from stanchion.manager.server.named import jobs_in
from stanchion.manager.server.tokens import Caller
from stanchion.stores.protocol import Store
from stanchion.stores.records.flows import CloseFlow, ExtendFlow, OpenFlow, StopFlow
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.staging import Publication
from stanchion.stores.rules.capacity.limits import limits_in

Args = Mapping[str, Any]

_MEMBERS_MAX: Final = 1000
"""Jobs of a flow that are looked at."""

_BY_TENANT: Final = re.compile(r"(\d{1,4}):(.*)", re.DOTALL)


def check_limits(caller: Caller, verb: str, args: Args) -> None:
    """Raise NotPermitted if new jobs, or those to adopt, use semaphores or rates of others."""
    rows = args["rows"] if verb == "adopt" else jobs_in(verb, args)
    for text in {row.limits for row in rows if row.limits is not None}:
        limits = limits_in(text)
        for name in limits.semaphores:
            if not caller.uses_semaphore(name):
                raise _refused(caller, "semaphore", name, "semaphores")
        if limits.rate is not None and not uses_rate(caller, limits.rate.name):
            raise _refused(caller, "rate", limits.rate.name, "rates")


def uses_rate(caller: Caller, name: str) -> bool:
    """Return whether a caller may use a rate: of a queue that it reaches, or one that its token names.

    The rate of a tenant belongs to the queue or task of that tenant's jobs.
    """
    if (found := _BY_TENANT.fullmatch(name)) and found[2][int(found[1]) :].startswith("/"):
        name = found[2][: int(found[1])]
    kind, _, queue = name.partition(":")
    return caller.names_rate(name) or (kind == "queue" and caller.reaches(queue))


def _refused(caller: Caller, what: str, name: str, field: str) -> NotPermitted:
    return NotPermitted(
        f"the token of {caller.name} may not use the {what} {name!r}, which is shared with other queues; name it in "
        f"{field} of the token"
    )


def with_own_write(caller: Caller, verb: str, args: Args) -> Args:
    """Return the arguments of a call with the name that the store knows the write by: of a limited caller, its own.

    Staged jobs don't record who staged them, so a limited caller's stages have the caller in their names.
    """
    if caller.queues is None or verb not in ("stage", "publish", "unstage"):
        return args
    if verb == "publish":
        publication: Publication = args["publication"]
        return {**args, "publication": publication._replace(write=_own(caller, publication.write))}
    return {**args, "write": _own(caller, args["write"])}


def _own(caller: Caller, write: str) -> str:
    return fitted(f"{len(caller.name)}:{caller.name}/{write}")


def asks_store(caller: Caller, verb: str, args: Args) -> bool:
    """Return whether `check_flows` reads the store."""
    return caller.queues is not None and (any(_roots(verb, args)) or any(_nodes(verb, args)))


def check_flows(store: Store, caller: Caller, verb: str, args: Args) -> None:
    """Raise NotPermitted if a call adds to a flow, closes or stops one, that has jobs in queues of others.

    A job may continue in its own flow, whatever other queues that has.
    """
    if caller.queues is None:
        return
    roots, nodes = set(_roots(verb, args)), set(_nodes(verb, args))
    if verb == "settle" and roots:
        rows = store.fetch(list({one.lease.id for one in args["outcomes"]}))
        roots -= {row.flow_root for row in rows.values()}
    for field, name in [*(("flow_root", root) for root in roots), *(("flow_node", node) for node in nodes)]:
        query = Query("all", (Condition(field, "=", name),), limit=_MEMBERS_MAX, columns=("queue",))
        if others := [queue for (queue,) in store.select(query).rows if not caller.reaches(queue)]:
            raise NotPermitted(
                f"the token of {caller.name} may not change the flow or node {name}, which has jobs in queue "
                f"{others[0]!r}"
            )


def _roots(verb: str, args: Args) -> Iterator[str]:
    """Yield the flows that a call adds to."""
    own = {node.root for change in _changes(verb, args) for node in _opened(change)}
    yield from (job.flow_root for job in jobs_in(verb, args) if job.flow_root is not None and job.flow_root not in own)
    yield from (change.root for change in _changes(verb, args) if isinstance(change, StopFlow))
    yield from own


def _nodes(verb: str, args: Args) -> Iterator[str]:
    """Yield the nodes that a call adds to, or closes."""
    yield from (change.node for change in _changes(verb, args) if isinstance(change, (ExtendFlow, CloseFlow)))


def _changes(verb: str, args: Args) -> Sequence[object]:
    changes: Sequence[object] = args["changes"] if verb == "change_flows" else ()
    return changes


def _opened(change: object) -> Iterable[Any]:
    if isinstance(change, OpenFlow):
        return change.nodes
    return change.opens.nodes if isinstance(change, ExtendFlow) else ()
