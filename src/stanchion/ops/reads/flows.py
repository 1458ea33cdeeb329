"""The state of each flow, from its nodes and a bounded number of its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from stanchion.context.context import Context
from stanchion.flows.tree import FlowPart, tree_of
from stanchion.jobs.job import Job, JobState
from stanchion.ops.reads.lists import COLUMNS
from stanchion.stores.protocol import Store
from stanchion.stores.records.flows import FlowNode, MemberEnd
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.lifecycle.jobs import state_of

MEMBERS: Final = 1000
"""Members of a flow that are read, the newest."""

NEWEST: Final = 2000
"""Jobs that are looked at for flows, the newest."""

RESULTS: Final = 50
"""Members whose results are read, the newest that are done."""

LOOKS: Final = 2
"""Nodes whose members are looked up beyond history, for one page."""

_COLUMNS: Final = (*COLUMNS, "flow_root", "flow_node", "flow_index")
_LISTED: Final = ("id", "state", "run_at", "task", "queue", "enqueued_at", "flow_root")


class FlowSeen(NamedTuple):
    """A flow among the newest jobs. `states`: of its members among them; `first`: when the first was enqueued."""

    root: str
    task: str
    states: Counter[str]
    first: int


class Flow(NamedTuple):
    """A flow. `jobs`: members, newest first; `whole`: these are all in the store. `size`, `ended`: of all members.

    `results`: members that are done, with their results.
    """

    root: FlowNode
    part: FlowPart
    jobs: list[Job]
    whole: bool
    results: list[Job]
    size: int
    ended: int


def flows_seen(store: Store, now: int) -> tuple[list[FlowSeen], int]:
    """Return the flows of the newest jobs, newest first, and how many jobs were looked at."""
    rows = store.select(Query(columns=_LISTED, limit=NEWEST)).rows
    found: dict[str, FlowSeen] = {}
    for values in rows:
        row = JobRow(**{**dict(zip(_LISTED, values, strict=True)), "payload": "", "lane": -1, "priority": 0, "rank": 0})
        if row.flow_root is not None:
            known = found.setdefault(row.flow_root, FlowSeen(row.flow_root, "", Counter(), row.enqueued_at))
            known.states[state_of(row, now).value] += 1
            first = min(known.first, row.enqueued_at)
            found[row.flow_root] = known._replace(task=row.task or row.queue, first=first)
    return list(found.values()), len(rows)


def read_flow(context: Context, store: Store, root: str, now: int) -> Flow | None:
    """Read a flow; None if it is unknown, or ended long ago."""
    nodes = store.flow_nodes(root)
    if not nodes:
        return None
    members = Query(where=(Condition("flow_root", "=", root),), columns=_COLUMNS, limit=MEMBERS)
    page = store.select(members)
    rows = [_row(_COLUMNS, values) for values in page.rows]
    done = replace(members.also(Condition("state", "=", "done")), columns=(*_COLUMNS, "result"), limit=RESULTS)
    looks = iter(range(LOOKS))

    def ends(node: str) -> list[MemberEnd]:
        return store.flow_ends(node, limit=MEMBERS) if next(looks, None) is not None else []

    finished = any(row.state == "done" for row in rows)
    results = [_row((*_COLUMNS, "result"), values) for values in store.select(done).rows] if finished else []
    children = [node for node in nodes if node.parent is not None]
    return Flow(
        next(node for node in nodes if node.id == root),
        tree_of(nodes, rows, now, ends, MEMBERS),
        [Job(context, row, state_of(row, now)) for row in rows],
        page.next is None,
        [Job(context, row, JobState.DONE) for row in results],
        sum(node.size for node in nodes) - len(children),
        sum(node.ended for node in nodes) - sum(node.state != "running" for node in children),
    )


def parts_of(part: FlowPart) -> Iterator[FlowPart]:
    """Yield a part and all parts within it, in order."""
    yield part
    for member in part.members:
        yield from parts_of(member)
    if part.on_failure is not None:
        yield part.on_failure


def _row(columns: tuple[str, ...], values: tuple[object, ...]) -> JobRow:
    return JobRow(**{**dict(zip(columns, values, strict=True)), "payload": ""})  # type: ignore[arg-type] # as the columns are
