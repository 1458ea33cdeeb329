"""Continuations: a job whose task returns a call or a flow continues as that."""

from __future__ import annotations

import json
from contextlib import suppress

from stanchion.context.context import Context
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.flows.insert import ready_nodes
from stanchion.flows.parts import part_of
from stanchion.flows.plan import MOST_IN_ONE_STEP, After, Part, Plan, fresh_ids
from stanchion.jobs.insert import make_ready
from stanchion.jobs.options import FlowElement
from stanchion.stores.records.flows import FlowNode
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Continue
from stanchion.stores.rules.flows import FlowPosition, position_of


def prepared(context: Context, row: JobRow, element: FlowElement) -> Continue:
    """Return the outcome of a job whose task returned a call or a flow, its jobs prepared as an enqueue does."""
    outcome = continued(context, row, part_of(element))
    jobs = [outcome.job, *outcome.jobs]
    nodes = outcome.nodes
    with suppress(StoreUnavailable):  # jobs without a lane still run; losing the finished work would be worse
        nodes = tuple(ready_nodes(context, nodes))
        make_ready(context, jobs)
    return outcome._replace(job=jobs[0], jobs=tuple(jobs[1:]), nodes=nodes)


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
