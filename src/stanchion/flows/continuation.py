"""Flows that a running job grows: it goes on as a chain, a group or a barrier."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stanchion.errors import InvalidInput
from stanchion.flows.parts import Part, Signature
from stanchion.flows.plan import MOST_IN_ONE_STEP, After, Planner, fresh_ids
from stanchion.stores.records import outcomes as outcomes_records
from stanchion.stores.records.flows import Node
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.flows import Standing, standing

if TYPE_CHECKING:
    from stanchion.app import Stanchion


def continued(app: Stanchion, row: JobRow, part: Part) -> outcomes_records.Continue:
    """Return the outcome of a job whose task returned a call or a flow: it goes on as the last call of that.

    It keeps its id and its place in a flow; a job of none begins one, unless a call is all that is left.
    """
    assert row.token is not None  # noqa: S101 - a claimed row has one
    ids = fresh_ids()
    nodes: list[Node] = []
    seat = None if row.flow is None else standing(row.flow)._replace(after="")
    if isinstance(part, Signature) and part.handler is None:
        return outcomes_records.Continue(row.id, row.token, part.new_job(row.id, None if seat is None else seat.text))
    if seat is None:
        root = next(ids)
        nodes = [Node(root, root, definition=json.dumps({"as": "call"}))]
        seat = Standing(root, root)
    planner = Planner(app, seat.root, ids, added_by=row)
    last, after = planner.last_call(part, After())
    if len(planner.jobs) > MOST_IN_ONE_STEP:
        raise InvalidInput(
            f"a task returned a flow of {len(planner.jobs):,} jobs, more than {MOST_IN_ONE_STEP:,}; let it enqueue it"
        )
    if last is None:
        job = planner.collecting(row.id, seat, after)
    else:
        job = last.new_job(row.id, seat._replace(after=after.text).text, after.gate)
    return outcomes_records.Continue(row.id, row.token, job, (*nodes, *planner.nodes), tuple(planner.jobs))
