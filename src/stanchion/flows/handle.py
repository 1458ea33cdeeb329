"""A handle to a stored flow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any, Generic

from stanchion.context import HasContext, context_of
from stanchion.core.backoff import deadline_in, retry_until
from stanchion.core.checks import checked_id, whole
from stanchion.core.concurrency.aio import off_loop, off_loop_each
from stanchion.core.types import R_co
from stanchion.errors import FlowCancelled, FlowFailed, FlowNotFound, InvalidInput, ResultTimeout
from stanchion.flows.failure import failure_for, failure_of_flow
from stanchion.flows.flow_failure import FlowFailure
from stanchion.flows.plan import after_of
from stanchion.flows.results import Values
from stanchion.jobs.handle import JobHandle
from stanchion.jobs.insert import batches
from stanchion.jobs.job import Job, JobState
from stanchion.jobs.search import MAX_PAGE
from stanchion.stores.protocol import pages
from stanchion.stores.records.flows import CloseFlow, FlowNode, NodeState, StopFlow
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.lifecycle.jobs import state_of

if TYPE_CHECKING:
    from stanchion.core.graph.draw import GraphForm
    from stanchion.flows.tree import FlowPart

FlowState = NodeState

_PAGE, _IDS = 1000, 16_000
"""Jobs, and ids of jobs, per read."""


class FlowHandle(Generic[R_co]):
    """A reference to a flow by its id. Its type names the value: `FlowHandle[list[int]]`."""

    def __init__(self, app: HasContext, flow_id: str) -> None:
        self._context, self.id = context_of(app), checked_id(flow_id, "the id of a flow")

    def get_state(self) -> FlowState:
        """Read the flow's state: running, done, failed or cancelled. Raises FlowNotFound."""
        return FlowState(self._root(self._nodes()).state)

    @property
    def state(self) -> FlowState:
        """The flow's state, read from the store; see `get_state`."""
        return self.get_state()

    def result(self, timeout: float | None = None) -> R_co:
        """Wait until the flow has ended and return its value: the value of its last part.

        Raises FlowFailed, which names the failed member; FlowCancelled; ResultTimeout after `timeout` seconds;
        StoreUnavailable if the store does not answer by then.
        """
        deadline = deadline_in(timeout)
        nodes = self._context.waits.for_flow(self.id, deadline).result()
        return self._value_in_time(nodes, timeout, deadline)

    async def aresult(self, timeout: float | None = None) -> R_co:
        """Await `result`. Waiting takes no thread."""
        from asyncio import get_running_loop

        deadline = deadline_in(timeout)
        nodes = await self._context.waits.for_flow(self.id, deadline, get_running_loop()).answer()
        return await off_loop(self._value_in_time)(nodes, timeout, deadline)

    def _value_in_time(self, nodes: list[FlowNode], timeout: float | None, deadline: float) -> R_co:
        if self._root(nodes).state == FlowState.RUNNING:
            raise ResultTimeout(
                f"flow {self.id} is still running after {timeout} s; wait longer, or find out what it waits for with "
                f"`stanchion show {self.id}`"
            )
        return retry_until(lambda _repeat: self._value(nodes), deadline)

    def members(self) -> Iterator[Job]:
        """Yield its jobs, live and finished, in the order of their creation, read page by page.

        Jobs purged from history are left out; the flow keeps their results.
        """
        store = self._context.store
        for page in pages(store, Query("all", self._of_flow(), order="id", limit=_PAGE)):
            now = store.now()
            yield from (Job(self._context, row, state_of(row, now)) for row in page)

    def __iter__(self) -> Iterator[JobHandle]:
        """Yield a handle of each job of the flow, in the order of their creation, such as of the members of a group."""
        query = Query("all", self._of_flow(), columns=("id",), order="id", limit=_IDS)
        for page in pages(self._context.store, query):
            yield from (JobHandle(self._context, job_id) for (job_id,) in page)

    def __aiter__(self) -> AsyncIterator[JobHandle]:
        return self._aiter()

    _aiter = off_loop_each(__iter__)

    def __await__(self) -> Generator[object, object, R_co]:
        return self.aresult().__await__()

    def value_for(self, job: Job) -> Any:
        """Return the value that a job of this flow gets from the part before it, a list after a group; None for none.

        For jobs of plain payloads: a call of a task gets the value as its first argument.
        """
        after = after_of(self._own(job))
        return Values(self._context, self.id).behind(after) if after.node else None

    def failure_for(self, job: Job) -> FlowFailure | None:
        """Return why the part has failed whose `on_failure` a job of this flow is; None for its other jobs.

        For jobs of plain payloads: a call of a task gets it by a parameter annotated FlowFailure.
        """
        return failure_for(self._context, self._own(job))

    def cancel(self) -> FlowState:
        """End the flow: cancel jobs that have not started, ask running ones to stop. Return its state."""
        store = self._context.store
        (known,) = store.change_flows([StopFlow(self.id)])
        if not known:
            raise FlowNotFound(self.id)
        nodes = self._nodes()
        if still_open := [CloseFlow(node.id) for node in nodes if not node.closed]:
            store.change_flows(still_open)
        live = Condition("state", "in", tuple(state.value for state in JobState if not state.final))
        for page in pages(store, Query("live", (*self._of_flow(), live), columns=("id",), limit=_IDS)):
            for batch in batches((job_id for (job_id,) in page), _PAGE):
                store.cancel(batch)
        return FlowState(self._root(nodes).state)

    def graph(self, limit: int = 1000) -> FlowPart:
        """Return its parts as a tree, with at most the newest `limit` jobs."""
        whole(limit, "limit", 1, MAX_PAGE)
        from stanchion.flows.tree import drawn

        return drawn(self._context, self._nodes(), limit)

    def draw(self, form: GraphForm = "svg", limit: int = 1000) -> str:
        """Return its parts as a drawing: `text`, `svg`, `mermaid` or `dot` (for Graphviz). `limit`: as for `graph`."""
        from stanchion.core.graph.draw import checked_form, drawn
        from stanchion.flows.graph import graph_of

        return drawn(graph_of(self.graph(limit)), checked_form(form))

    aget_state = off_loop(get_state)
    amembers = off_loop_each(members)
    agraph = off_loop(graph)
    adraw = off_loop(draw)
    acancel = off_loop(cancel)
    avalue_for = off_loop(value_for)
    afailure_for = off_loop(failure_for)

    def _own(self, job: Job) -> JobRow:
        row = self._context.store.fetch([job.id]).get(job.id)
        if row is None or row.flow_root != self.id:
            raise InvalidInput(f"job {job.id} is not in flow {self.id}; its flow is job.flow")
        return row

    def _nodes(self) -> list[FlowNode]:
        nodes = self._context.store.flow_nodes(self.id)
        if not nodes:
            raise FlowNotFound(self.id)
        return nodes

    def _root(self, nodes: list[FlowNode]) -> FlowNode:
        return next(node for node in nodes if node.id == self.id)

    def _of_flow(self) -> tuple[Condition, ...]:
        return (Condition("flow_root", "=", self.id),)

    def _value(self, nodes: list[FlowNode]) -> R_co:
        state = self._root(nodes).state
        if state == FlowState.DONE:
            value: R_co = Values(self._context, self.id, nodes, as_models=True).of(self.id)
            return value
        if state == FlowState.CANCELLED:
            raise FlowCancelled(self.id)
        failure = failure_of_flow(self._context, self.id, nodes)
        raise FlowFailed(self.id, failure.job, failure.error, failure.task)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"
