"""Continuations: a job whose task returns a call or a flow continues as that."""

from __future__ import annotations

import json

from stanchion.context.context import Context
from stanchion.errors import InvalidInput
from stanchion.flows.plan import MOST_IN_ONE_STEP, After, Part, Plan, fresh_ids
from stanchion.stores.records.flows import FlowNode
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Continue
from stanchion.stores.rules.flows import FlowPosition, position_of


def continued(context: Context, row: JobRow, part: Part) -> Continue:
    """Return the outcome of a job whose task returned a call or a flow: the job becomes the last call of it.

    The job keeps its id and its flow position. A job outside of a flow starts one, unless the part is a single call.
    """
    ids = fresh_ids()
    nodes: list[FlowNode] = []
    position = position_of(row._replace(flow_after=None))
    if (call := part.lone_call) is not None:
        return Continue(row.lease, call.new_job(context, row.id, position))
    if position is None:
        root = next(ids)
        nodes = [FlowNode(root, root, definition=json.dumps({"as": "call"}))]
        position = FlowPosition(root, root, 0)
    plan = Plan(context, position.flow_root, ids, added_by=row)
    last, after = part.lay_out_but_last(plan, After())
    if len(plan.jobs) > MOST_IN_ONE_STEP:
        raise InvalidInput(
            f"a task returned a flow of {len(plan.jobs):,} jobs, more than {MOST_IN_ONE_STEP:,}; enqueue it instead"
        )
    job = plan.collecting(row.id, position, after) if last is None else plan.job(last, row.id, position, after)
    return Continue(row.lease, job, (*nodes, *plan.nodes), tuple(plan.jobs))
