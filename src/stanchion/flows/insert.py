"""Storing a flow: in one step where it is small, a large group in bounded memory.

Nothing may end before what waits for it is stored. So the nodes and the jobs that wait come first; then the members of
large groups, each group closed behind its last one; then the other jobs that may begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stanchion.errors import FlowClosed
from stanchion.flows.parts import Part
from stanchion.flows.plan import LARGE, After, Planner, Stream
from stanchion.jobs.batches import batches, portions
from stanchion.jobs.job import Job
from stanchion.stores.records.flows import Node
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.rules import flows
from stanchion.stores.rules.jobs import created, state_of

if TYPE_CHECKING:
    from stanchion.app import Stanchion


def store_flow(app: Stanchion, plan: Planner, tx: Any = None) -> None:
    """Store what was planned; with `tx`, in that transaction."""
    app.make_ready([job for node in plan.nodes if (job := flows.handler_of(node)) is not None], tx)
    if not plan.streams and len(plan.jobs) <= LARGE:
        _open(app, plan.nodes, plan.jobs, tx)
        return
    large = {stream.node for stream in plan.streams}
    by_id = {node.id: node for node in plan.nodes}
    # In a transaction nobody sees the members before their node, which is stored last, with its size.
    first = [node for node in plan.nodes if tx is None or node.id not in large]
    waiting = [job for job in plan.jobs if job.waits_for is not None]
    starting = [job for job in plan.jobs if job.waits_for is None]
    _open_in_parts(app, first, waiting, tx)
    for stream in plan.streams:
        _Filled(app, by_id[stream.node], tx).fill(plan, stream)
    _open_in_parts(app, [], starting, tx)


def extend(app: Stanchion, node: Node, parts: Iterable[Part], ids: Iterator[str], tx: Any = None) -> None:
    """Store further members of an open node; FlowClosed when it takes none any more."""
    plan = Planner(app, node.root, ids)
    _Filled(app, node, tx, stored=True).add(plan, Stream(node.id, iter(parts), After()))


class _Filled:
    """A node that gets its members in batches. `stored`: it is in the store already."""

    def __init__(self, app: Stanchion, node: Node, tx: Any, *, stored: bool = False) -> None:
        self._app, self._node, self._tx = app, node, tx
        self._stored = stored or tx is None
        self._size = 0

    def fill(self, plan: Planner, stream: Stream) -> None:
        """Store all members of a stream, and close the node."""
        self.add(plan, stream)
        if self._stored:
            self._app.store.close_node(self._node.id)
        else:
            self._app.store.open_flow([self._node._replace(size=self._size, closed=True)], [], self._tx)

    def add(self, plan: Planner, stream: Stream) -> None:
        """Store all members of a stream."""
        for members in batches(stream.members, LARGE):
            inner = Planner(self._app, plan.root, plan.ids)
            jobs = [inner.streamed(member, stream) for member in members]
            for portion in portions(jobs):
                self._store(portion)
            if inner.nodes:  # flows, whose values the jobs just stored wait for
                store_flow(self._app, inner, self._tx)

    def _store(self, jobs: list[NewJob]) -> None:
        if not self._stored:
            jobs = flows.placed(jobs, self._size)
            self._size += len(jobs)
            _open(self._app, [], jobs, self._tx)
            return
        self._app.make_ready(jobs, self._tx)
        if not self._app.store.extend_flow(self._node.id, jobs, self._tx):
            raise FlowClosed(self._node.root)
        _announce(self._app, jobs)


def _open_in_parts(app: Stanchion, nodes: Sequence[Node], jobs: Sequence[NewJob], tx: Any) -> None:
    for batch in batches(jobs, LARGE):
        for portion in portions(batch):
            _open(app, nodes, portion, tx)
            nodes = []
    if nodes:
        _open(app, nodes, [], tx)


def _open(app: Stanchion, nodes: Sequence[Node], jobs: list[NewJob], tx: Any) -> None:
    app.make_ready(jobs, tx)
    app.store.open_flow(nodes, jobs, tx)
    _announce(app, jobs)


def _announce(app: Stanchion, jobs: Sequence[NewJob]) -> None:
    if jobs and app.events.hears("enqueue"):
        now = app.store.now()
        for row in (created(job, now) for job in jobs):
            app.events.fire("enqueue", Job(app, row, state_of(row, now)))
