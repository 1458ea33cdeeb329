"""Flows: their states."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from starlette.responses import Response

from stanchion.context import context_of
from stanchion.core.checks import checked_id
from stanchion.core.text.durations import spelled
from stanchion.core.text.hiding import Hidden
from stanchion.core.text.redaction import JobRedaction
from stanchion.errors import StanchionError
from stanchion.jobs.job import Job, JobState
from stanchion.ops.job_json import last_error
from stanchion.ops.naming import job_names
from stanchion.ops.reads.flows import NEWEST, Flow, FlowSeen, flows_seen, read_flow
from stanchion.ops.web.pages.jobs import flow_graph
from stanchion.ops.web.show.foreign import HIDDEN, one_line
from stanchion.ops.web.visit import Visit
from stanchion.ops.words import number, plural
from stanchion.stores.records.jobs import SECOND

SHOWN = 100
MEMBERS_SHOWN = 50
_ORDER = ("dead", "running", "ready", "scheduled", "waiting", "cancelled", "done")


class Member(NamedTuple):
    """A member in the list, by its name. `said`: its result or its last error, redacted; `took`: its last attempt."""

    job: Job
    name: str
    said: str
    failed: bool
    took: str


def every(visit: Visit) -> Response:
    """List the flows of the newest jobs, the ones with dead members first."""
    wanted = visit.asked("id").strip()
    if wanted:
        return visit.to(f"/flows/{checked_id(wanted, 'the id of a flow')}")
    found, looked_at = flows_seen(visit.store, visit.now)
    found.sort(key=lambda one: one.states["dead"] == 0)
    return visit.page(
        "flows.html",
        _headline(found),
        items=found[:SHOWN],
        order=_ORDER,
        total=len(found),
        source=f"the newest {number(looked_at)} jobs"
        if looked_at >= NEWEST
        else "all jobs that are still in the store",
    )


def _headline(found: list[FlowSeen]) -> str:
    if not found:
        return "No flow"
    dead = sum(one.states["dead"] > 0 for one in found)
    if dead:
        return f"{plural(dead, 'flow')} of {number(len(found))} {'has' if dead == 1 else 'have'} dead members"
    live = sum(any(one.states[state] for state in _ORDER[1:5]) for one in found)
    return f"{plural(live, 'flow')} of {number(len(found))} {'is' if live == 1 else 'are'} under way"


def show(visit: Visit) -> Response:
    """Show one flow."""
    root = checked_id(visit.name, "the id of a flow")
    flow = read_flow(context_of(visit.site.app), visit.store, root, visit.now)
    if flow is None:
        return visit.message(
            "There is no such flow", f"Flow {root} is not known, or it ended so long ago that it was deleted.", 404
        )
    states = Counter(job.state.value for job in flow.jobs)
    drawing, folded = flow_graph.drawing(flow)
    return visit.page(
        "flow.html",
        flow_graph.headline(flow),
        flow=flow,
        standing=flow_graph.standing(flow),
        drawing=drawing,
        folded=folded,
        states=[(state, states[state]) for state in _ORDER],
        dead=states["dead"],
        members=_members(visit, flow),
        took=_took(flow),
    )


def _took(flow: Flow) -> str:
    root = flow.root
    return spelled((root.finished_at - root.created_at) / SECOND) if root.finished_at and root.created_at else ""


def _members(visit: Visit, flow: Flow) -> list[Member]:
    """Return the most informative members: dead ones, then ones under way, then done ones, with results."""
    results = {job.id: job for job in flow.results}
    jobs = sorted((results.get(job.id, job) for job in flow.jobs), key=lambda job: _ORDER.index(job.state.value))
    hidden = context_of(visit.site.app).hidden.of(visit.store, [job.task for job in flow.results])
    shown = jobs[:MEMBERS_SHOWN]
    names = job_names(context_of(visit.site.app), visit.store, shown, visit.now)
    return [_member(job, names[job.id], hidden.get(job.task or ""), has_result=job.id in results) for job in shown]


def _member(job: Job, name: str, hidden: Hidden | None, *, has_result: bool) -> Member:
    started, ended = job.started_at, job.finished_at
    took = spelled((ended - started).total_seconds()) if started and ended and ended >= started else ""
    if job.state is JobState.DONE:
        return Member(job, name, _result(job, hidden) if has_result else "", False, took)
    said = last_error(job)
    return Member(job, name, said, bool(said), took)


def _result(job: Job, hidden: Hidden | None) -> str:
    """Return a result in one line; without its key, an encrypted one stays sealed."""
    try:
        value: object = job.result
    except StanchionError as error:
        return f"({error})"
    return "" if value is None else one_line(JobRedaction(hidden, None, HIDDEN).value(value))
