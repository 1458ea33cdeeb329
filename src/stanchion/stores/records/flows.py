"""Flows: their nodes, and how their members ended."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class NodeState(StrEnum):
    """Where a node of a flow is; all but the first are final."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Node(NamedTuple):
    """What the members of a part of a flow add up to.

        running ──all members done, and closed──► done      its gate opens
           ├──a member failed──► failed                      its handler is enqueued, who waits for it is cancelled
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


class End(NamedTuple):
    """How the member in a place of a node has ended: a job, with its result, or a `child` node."""

    node: str
    place: int
    state: str
    job: str | None = None
    child: str | None = None
    result: str | None = None
