"""Storing a flow: a small one in one step, a large group in bounded memory.

No job may finish before the jobs that wait for it are stored. So the order is: (1) the nodes and the waiting jobs,
(2) the members of large groups, closing each group after its last member, (3) the jobs that may start at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from uuid import UUID, uuid5

from stanchion.context.context import Context
from stanchion.errors import FlowClosed, InvalidInput
from stanchion.flows.plan import LARGE, After, Part, Plan, Stream, fresh_ids
from stanchion.jobs.insert import announce, batches, chunks, make_ready
from stanchion.stores.records.flows import CloseFlow, ExtendFlow, FlowNode, OpenFlow
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.rules import flows

ONCE_CHARACTERS = 1 << 20
"""Characters of payload, but for the last job's, that an addition under a name may have: it is one small record."""

_ONCE = UUID("4f0e3f52-6c0c-4a0c-9a53-0e6b6f3b3c1d")


def store_flow(context: Context, plan: Plan, tx: object = None) -> None:
    """Store a plan; with `tx`, in that transaction."""
    with _pushing(context, plan):
        _store_plan(context, plan, tx)


def _pushing(context: Context, plan: Plan) -> AbstractContextManager[object]:
    """Return the span of storing a plan, if there are traces."""
    return nullcontext() if context.traces is None else context.traces.pushing(plan.jobs, plan.root)


def _store_plan(context: Context, plan: Plan, tx: object) -> None:
    nodes = ready_nodes(context, plan.nodes, tx)
    if not plan.streams and len(plan.jobs) <= LARGE:
        _open(context, nodes, plan.jobs, tx)
        return
    large = {stream.node for stream in plan.streams}
    by_id = {node.id: node for node in nodes}
    # In a transaction the node of a large group is stored last, with its size: its members are not seen before.
    first = [node for node in nodes if tx is None or node.id not in large]
    waiting = [job for job in plan.jobs if job.waits_kind is not None]
    starting = [job for job in plan.jobs if job.waits_kind is None]
    _open_in_parts(context, first, waiting, tx)
    for stream in plan.streams:
        _Filled(context, by_id[stream.node], tx).fill(plan, stream)
    _open_in_parts(context, [], starting, tx)


def extend(context: Context, node: FlowNode, parts: Iterable[Part], ids: Iterator[str], tx: object = None) -> None:
    """Store further members of an open node. Raises FlowClosed if it is closed."""
    plan = Plan(context, node.root, ids)
    with _pushing(context, plan):
        _Filled(context, node, tx, stored=True).add(plan, Stream(node.id, iter(parts), After()))


def extend_once(context: Context, node: FlowNode, parts: Sequence[Part], once: str, tx: object = None) -> None:
    """Store further members of an open node, with all that they consist of, unless an earlier call did under `once`.

    Raises FlowClosed if the node is closed, unless that call came before.
    """
    plan = Plan(context, node.root, fresh_ids())
    stream = Stream(node.id, iter(()), After())
    jobs = [plan.streamed(part, stream) for part in parts]
    count = len(jobs)
    jobs += plan.jobs
    if plan.streams or len(jobs) > LARGE or sum(len(job.payload) for job in jobs[:-1]) > ONCE_CHARACTERS:
        raise InvalidInput(
            f"once= adds in one step: at most {LARGE:,} jobs, with payloads of {ONCE_CHARACTERS:,} characters in all; "
            f"add them by several calls, each with a name of its own"
        )
    with _pushing(context, plan):
        nodes = ready_nodes(context, plan.nodes, tx)
        store = make_ready(context, jobs, tx)
        (added,) = store.change_flows(
            [ExtendFlow(node.id, jobs[:count], OpenFlow(nodes, jobs[count:]), str(uuid5(_ONCE, once)))], tx
        )
    if not added:
        raise FlowClosed(node.root)
    if context.events.hears("pushed"):
        stored = store.fetch([job.id for job in jobs]) if tx is None else {job.id for job in jobs}
        announce(context, [job for job in jobs if job.id in stored])


class _Filled:
    """A node that gets its members in batches. `stored`: the node is in the store already."""

    def __init__(self, context: Context, node: FlowNode, tx: object, *, stored: bool = False) -> None:
        self._context, self._node, self._tx = context, node, tx
        self._stored = stored or tx is None
        self._size = 0

    def fill(self, plan: Plan, stream: Stream) -> None:
        """Store all members of a stream, and close the node."""
        self.add(plan, stream)
        if self._stored:
            self._context.store.change_flows([CloseFlow(self._node.id)])
        else:
            self._context.store.change_flows([OpenFlow([self._node._replace(size=self._size, closed=True)])], self._tx)

    def add(self, plan: Plan, stream: Stream) -> None:
        """Store all members of a stream."""
        for members in batches(stream.members, LARGE):
            inner = Plan(self._context, plan.root, plan.ids)
            jobs = [inner.streamed(member, stream) for member in members]
            for chunk in chunks(jobs):
                self._store(chunk)
            if inner.nodes:  # nested flows: the jobs just stored wait for their values
                _store_plan(self._context, inner, self._tx)

    def _store(self, jobs: list[NewJob]) -> None:
        if not self._stored:
            jobs = flows.placed(jobs, self._size)
            self._size += len(jobs)
            _open(self._context, [], jobs, self._tx)
            return
        (added,) = make_ready(self._context, jobs, self._tx).change_flows([ExtendFlow(self._node.id, jobs)], self._tx)
        if not added:
            raise FlowClosed(self._node.root)
        announce(self._context, jobs)


def ready_nodes(context: Context, nodes: Iterable[FlowNode], tx: object = None) -> list[FlowNode]:
    """Return the nodes with their jobs of `on_failure` prepared as an enqueue does."""
    with_jobs = [(node, flows.failure_job(node)) for node in nodes]
    jobs = [job for _, job in with_jobs if job is not None]
    make_ready(context, jobs, tx)
    ready = map(flows.failure_text, jobs)
    return [node if job is None else node._replace(on_failure=next(ready)) for node, job in with_jobs]


def _open_in_parts(context: Context, nodes: Sequence[FlowNode], jobs: Sequence[NewJob], tx: object) -> None:
    for batch in batches(jobs, LARGE):
        for chunk in chunks(batch):
            _open(context, nodes, chunk, tx)
            nodes = []
    if nodes:
        _open(context, nodes, [], tx)


def _open(context: Context, nodes: Sequence[FlowNode], jobs: list[NewJob], tx: object) -> None:
    make_ready(context, jobs, tx).change_flows([OpenFlow(nodes, jobs)], tx)
    announce(context, jobs)
