"""Flows that a running job grows: it goes on as a chain, a group or a barrier."""

from __future__ import annotations

import json

from stanchion.context.context import Context
from stanchion.errors import InvalidInput
from stanchion.flows.plan import MOST_IN_ONE_STEP, After, Part, Plan, fresh_ids
from stanchion.stores.records.flows import FlowNode
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Continue
from stanchion.stores.rules.flows import FlowPosition, flow_position


def continued(context: Context, row: JobRow, part: Part) -> Continue:
    """Return the outcome of a job whose task returned a call or a flow: it goes on as the last call of that.

    It keeps its id and its place in a flow; a job of none begins one, unless a call is all that is left.
    """
    assert row.token is not None  # noqa: S101 - a claimed row has one
    ids = fresh_ids()
    nodes: list[FlowNode] = []
    position = None if row.flow is None else flow_position(row.flow)._replace(after="")
    if (call := part.lone_call) is not None:
        return Continue(row.id, row.token, call.new_job(row.id, None if position is None else position.text))
    if position is None:
        root = next(ids)
        nodes = [FlowNode(root, root, definition=json.dumps({"as": "call"}))]
        position = FlowPosition(root, root)
    plan = Plan(context, position.root, ids, added_by=row)
    last, after = part.lay_out_but_last(plan, After())
    if len(plan.jobs) > MOST_IN_ONE_STEP:
        raise InvalidInput(
            f"a task returned a flow of {len(plan.jobs):,} jobs, more than {MOST_IN_ONE_STEP:,}; let it enqueue it"
        )
    job = plan.collecting(row.id, position, after) if last is None else plan.job(last, row.id, position, after)
    return Continue(row.id, row.token, job, (*nodes, *plan.nodes), tuple(plan.jobs))
