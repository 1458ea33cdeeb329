"""Flows: their nodes, how their members ended, and what is to be changed of them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from stanchion.stores.records.jobs import NewJob


class NodeState(StrEnum):
    """Where a node of a flow is; all but the first are final."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class FlowNode(NamedTuple):
    """What the members of a part of a flow add up to.

        running ──all members done, and closed──► done      jobs that wait for it are due
           ├──a member failed──► failed                      its handler is enqueued, jobs that wait are cancelled
           └──flow cancelled──► cancelled

    `root`: the flow. `kind`: "one" (the value of its only member), "list" (of all, in their places) or "none".
    `parent`: where it is a member itself, as "node:place". `size`: members so far; all of them once it is `closed`.
    `handler`: a NewJob as JSON, for a failure. `definition`: what it shows of itself, as JSON.
    """

    id: str
    root: str
    kind: str = "one"
    parent: str | None = None
    size: int = 1
    closed: bool = True
    ended: int = 0
    state: str = NodeState.RUNNING.value
    created_at: int = 0
    finished_at: int | None = None
    handler: str | None = None
    definition: str | None = None


class MemberEnd(NamedTuple):
    """How the member in a place of a node has ended: a job, with its result, or a `child` node."""

    node: str
    place: int
    state: str
    job: str | None = None
    child: str | None = None
    result: str | None = None


class OpenFlow(NamedTuple):
    """Store the nodes of a flow and its jobs. A node without members is done at once; a repeat does no harm."""

    nodes: Sequence[FlowNode] = ()
    jobs: Sequence[NewJob] = ()


class ExtendFlow(NamedTuple):
    """Store jobs as further members of an open node, by their indexes behind the last one; none if it is closed.

    Jobs whose ids are known already are members by an earlier call: a repeat does no harm, also after the close.
    """

    node: str
    jobs: Sequence[NewJob]


class CloseFlow(NamedTuple):
    """Take no more members in an open node: it is done when its members are."""

    node: str


class StopFlow(NamedTuple):
    """End the nodes of a flow that are not final as cancelled.

    Its jobs are for the caller to cancel, afterwards: what becomes of them changes nothing any more.
    """

    root: str


FlowChange = OpenFlow | ExtendFlow | CloseFlow | StopFlow


Node, End = FlowNode, MemberEnd
