"""The values of a flow's parts, read page by page from how their members ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from stanchion.context.context import Context
from stanchion.errors import StanchionError
from stanchion.flows.plan import After
from stanchion.stores.records.flows import FlowNode, MemberEnd
from stanchion.stores.records.jobs import JobState

PAGE = 1000
"""Members per round trip."""


class NoValue(StanchionError):
    """A part of a flow has no value, as it has not succeeded."""


class Values:
    """Reads the values of nodes of one flow. `nodes`: all its nodes, if they have been read already.

    `as_models`: give the result of a task as a model if this process has the task, and it says that it returns one.
    """

    def __init__(
        self, context: Context, root: str, nodes: Iterable[FlowNode] | None = None, *, as_models: bool = False
    ) -> None:
        self._context, self._root, self._as_models = context, root, as_models
        if nodes is not None:
            self.nodes = {node.id: node for node in nodes}

    @cached_property
    def nodes(self) -> dict[str, FlowNode]:
        """The nodes of the flow, read only if more than the single member of one node is needed."""
        return {node.id: node for node in self._context.store.flow_nodes(self._root)}

    def behind(self, after: After) -> object:
        """Return what a job that follows a node gets. Raises NoValue if the node has not succeeded."""
        return self._of_one(after.node) if after.kind == "one" else self._of_all(after.node)

    def of(self, node_id: str) -> Any:
        """Return the value of a node. Raises NoValue if it has not succeeded."""
        kind = self._node(node_id).kind
        if kind == "none":
            return None
        return self._of_one(node_id) if kind == "one" else self._of_all(node_id)

    def pages(self, node_id: str) -> Iterator[list[MemberEnd]]:
        """Yield how the members of a node ended, by index, page by page."""
        after = -1
        while page := self._context.store.flow_ends(node_id, after, PAGE):
            yield page
            after = page[-1].index

    def _node(self, node_id: str) -> FlowNode:
        if node_id not in self.nodes:
            raise NoValue(f"the part {node_id} of flow {self._root} is gone: the flow ended over a week ago")
        return self.nodes[node_id]

    def _of_one(self, node_id: str) -> object:
        ends = self._context.store.flow_ends(node_id, limit=1)
        if not ends:
            raise self._not_yet(node_id)
        return self._of_ends(ends)[0]

    def _of_all(self, node_id: str) -> list[object]:
        values = [value for page in self.pages(node_id) for value in self._of_ends(page)]
        node = self._node(node_id)
        if not node.closed or len(values) < node.size:
            raise self._not_yet(node_id)
        return values

    def _of_ends(self, ends: list[MemberEnd]) -> list[object]:
        registry, values = self._context.registry, list(map(self._of_end, ends))
        if not self._as_models or not any(task.models is not None for task in registry.tasks.values()):
            return values
        rows = self._context.store.fetch([end.job for end in ends if end.job is not None])
        tasks = [row.task if end.job is not None and (row := rows.get(end.job)) else None for end in ends]
        return [registry.given_result(task, value) for task, value in zip(tasks, values, strict=True)]

    def _of_end(self, end: MemberEnd) -> object:
        if end.state != JobState.DONE:
            who = f"job {end.job}" if end.job else f"the part {end.child}"
            raise NoValue(f"{who} of the flow {self._root} is {end.state}; `retry` it first")
        return self._context.value_of(end.result) if end.child is None else self.of(end.child)

    def _not_yet(self, node_id: str) -> NoValue:
        return NoValue(f"the part {node_id} of the flow {self._root} is not done yet; retry this job once it is")
