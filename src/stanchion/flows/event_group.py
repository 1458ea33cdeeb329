"""Event groups: any process adds members, one by one; what follows runs once, after all of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import UUID, uuid5

from stanchion.context.context import Context
from stanchion.core.checks import checked_name
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.types import Transaction
from stanchion.errors import FlowNotFound, InvalidInput
from stanchion.flows.handle import FlowHandle
from stanchion.flows.insert import extend, extend_once, store_flow
from stanchion.flows.parts import Part, Single, chain, group, part_of
from stanchion.flows.plan import LARGE, Plan, fresh_ids
from stanchion.jobs.options import Push
from stanchion.stores.records.flows import CloseFlow, FlowNode

_NAMES = UUID("6f6d9c0e-5a39-4c52-9a1b-7f3d0c8a2e41")


class EventGroup(FlowHandle[Any]):
    """A flow that takes members until it is closed. Made by `app.event_group(name)`."""

    def __init__(self, context: Context, name: str) -> None:
        self.name = checked_name(name, "the name of an event group")
        super().__init__(context, str(uuid5(_NAMES, self.name)))
        self._members_id = next(_ids_of(self.id))

    def add(self, *members: Part | Push, once: str | None = None, tx: Transaction | None = None) -> None:
        """Add calls, payloads or flows; with `tx`, in that transaction. Raises FlowClosed once the group is closed.

        With `once`, a name of this addition within the group, only the first call with that name adds anything: a
        caller that is retried, in whatever process, adds once. It is one step, so it takes up to 2000 jobs.
        """
        parts = [part_of(member) for member in members]  # all of them, before the first is stored
        node = FlowNode(self._members_id, self.id)
        if once is None:
            extend(self._context, node, parts, fresh_ids(), tx)
        else:
            extend_once(self._context, node, parts, checked_name(once, "once"), tx)

    def close(self) -> None:
        """Close the group to new members: it is done once its members are."""
        (known,) = self._context.store.change_flows([CloseFlow(self._members_id)])
        if not known:
            raise FlowNotFound(self.id)

    aadd = off_loop(add)
    aclose = off_loop(close)

    def _open_unless_known(self, then: Part | Push | None, on_failure: Single | Push | None) -> None:
        """Open the group unless one of this name exists, whose `then` and `on_failure` stay in force."""
        known = self._context.store.flow_nodes(self.id)
        if known:
            alone = any(node.id == self._members_id and node.parent is not None for node in known)
            if then is not None and alone:
                raise InvalidInput(
                    f"the event group {self.name!r} was opened without `then`; pass it where it is opened"
                )
            return
        members: Part = group(())
        flow = chain(members, then) if then is not None else chain(members)
        plan = Plan(self._context, self.id, _ids_of(self.id))
        plan.flow(part_of(flow if on_failure is None else flow.on_failure(on_failure)))
        if plan.streams:
            raise InvalidInput(f"what follows an event group may have groups of up to {LARGE} members")
        plan.nodes = [self._unclosed(node) for node in plan.nodes]
        store_flow(self._context, plan)

    def _unclosed(self, node: FlowNode) -> FlowNode:
        return node._replace(closed=False) if node.id == self._members_id else node


def _ids_of(root: str) -> Iterator[str]:
    """Yield the ids of a flow's nodes and jobs, the same ones for the same root, so that it is opened once."""
    return (str(uuid5(UUID(root), str(number))) for number in count())


def opened(context: Context, name: str, then: Part | Push | None, on_failure: Single | Push | None) -> EventGroup:
    """Return the group of this name, opened unless there is one."""
    events = EventGroup(context, name)
    events._open_unless_known(then, on_failure)
    return events
