"""Flows: nodes, member ends and changes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from stanchion.core.values.framing import Content
from stanchion.stores.records.jobs import NewJob


class NodeState(StrEnum):
    """The state of a flow node; all but the first are final."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class FlowNode(NamedTuple):
    """A node of a flow: the combined state of its members.

        running ──all members done, and closed──► done      jobs that wait for it become due
           ├──a member failed──► failed                      `on_failure` is enqueued, waiting jobs are cancelled
           └──flow cancelled──► cancelled

    `root`: the flow. `kind`: "one" (the value of its only member), "list" (of all members, by index) or "none".
    `parent`: its own position as a member, "node:index". `size`: members so far; all of them once it is `closed`.
    `on_failure`: the job to enqueue when a member fails, a NewJob as JSON. `definition`: what to display, as JSON.
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
    on_failure: str | None = None
    definition: str | None = None


class MemberEnd(NamedTuple):
    """The end of the member of a node at `index`: a job, with its result, or a `child` node."""

    node: str
    index: int  # type: ignore[assignment]  # hides tuple.index
    state: str
    job: str | None = None
    child: str | None = None
    result: Content | None = None


class OpenFlow(NamedTuple):
    """Store the nodes of a flow and its jobs; may be repeated. A node without members is done immediately."""

    nodes: Sequence[FlowNode] = ()
    jobs: Sequence[NewJob] = ()


class ExtendFlow(NamedTuple):
    """Store jobs as further members of an open node, with the next indexes; store none if it is closed.

    Jobs with known ids are members by an earlier call, so a repeat is harmless, even after the close. `once`: a UUID
    that names the change within the node; a change of a name that was made before, whatever became of its jobs, is not
    made again. `opens`: nodes and jobs before the members, stored with them; only together with `once`.
    """

    node: str
    jobs: Sequence[NewJob]
    opens: OpenFlow = OpenFlow()
    once: str | None = None


class CloseFlow(NamedTuple):
    """Close an open node to further members: it is done when its members are."""

    node: str


class StopFlow(NamedTuple):
    """Cancel the nodes of a flow that are not final.

    The caller cancels the jobs afterwards; their ends do not change the nodes any more.
    """

    root: str


FlowChange = OpenFlow | ExtendFlow | CloseFlow | StopFlow
