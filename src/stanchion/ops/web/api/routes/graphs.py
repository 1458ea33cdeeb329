"""What jobs make up: flows, pipelines, and streams of Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stanchion import streams
from stanchion.context import context_of
from stanchion.core.checks import checked_id
from stanchion.errors import FlowNotFound
from stanchion.flows.tree import FlowPart
from stanchion.ops.job_json import last_error
from stanchion.ops.reads.expectations import read_expectations
from stanchion.ops.reads.flows import FlowSeen, flows_seen, read_flow
from stanchion.ops.reads.pipelines import Known, known_pipelines, read_dead, stations
from stanchion.ops.reads.wings.streams import StreamFigures, stream_figures
from stanchion.ops.web.acts.pauses import set_paused
from stanchion.ops.web.api.operation import Answer, Call, Operation, time_text
from stanchion.ops.web.api.paging import named_page
from stanchion.ops.web.api.problems import Problem
from stanchion.ops.web.api.schemas.filters import DRY_RUN, PAGING
from stanchion.ops.web.api.shapes import summary_shape

DEEPEST: Final = 30
"""Parts within parts of a flow that are shown."""


def flows(call: Call) -> Answer:
    """Answer with a page of flows, newest first."""
    found, _ = flows_seen(call.visit.store, call.visit.now)
    places = {one.root: f"{place:06d}" for place, one in enumerate(found)}

    def shape(one: FlowSeen) -> dict[str, object]:
        return {"id": one.root, "task": one.task, "states": dict(one.states), "first": time_text(one.first)}

    return named_page(call, "flows", found, lambda one: places[one.root], shape)


def flow(call: Call) -> Answer:
    """Answer with a flow as a tree, and its newest members."""
    visit, root = call.visit, checked_id(call.path("id"), "the id of a flow")
    found = read_flow(context_of(visit.site.app), visit.store, root, visit.now)
    if found is None:
        raise FlowNotFound(root)
    return Answer({
        "id": root,
        "state": str(found.root.state),
        "size": found.size,
        "ended": found.ended,
        "flow": _part(found.part, DEEPEST),
        "jobs": [summary_shape(job) for job in found.jobs],
        "whole": found.whole,
        "as_of": call.as_of,
    })  # fmt: skip


def _part(part: FlowPart, depth: int) -> dict[str, object]:
    same = ("id", "kind", "state", "label", "ended", "size")
    return {
        **{name: getattr(part, name) for name in same},
        "open": part.is_open,
        "members": [_part(one, depth - 1) for one in part.members] if depth else [],
        "on_failure": None if part.on_failure is None else _part(part.on_failure, 0),
    }


def pipelines(call: Call) -> Answer:
    """Answer with a page of pipelines."""
    known = [*_known(call).values()]
    return named_page(call, "pipelines", known, lambda one: one.record.name, lambda one: {
        "name": one.record.name, "source": one.source, "stations": [station.name for station in one.record.stations],
    })  # fmt: skip


def pipeline(call: Call) -> Answer:
    """Answer with a pipeline and its stations."""
    visit, known = call.visit, _pipeline(call)
    sample = visit.site.sampler.latest()
    seen = sample.seen
    dead = read_dead(visit.site.app, visit.store, known, seen, last_error)
    same = ("name", "queue", "engine", "lag", "came", "out", "idle", "trouble", "silent", "starved")
    found = [
        {
            **{name: getattr(one, name) for name in (*same, "dead", "retrying", "failed")},
            "to": list(one.record.to),
            "size": one.sizes._asdict(),
            "jobs": one.jobs._asdict(),
            "error": visit.site.redaction.text(one.error),
            "last_5_min": None if one.times is None else one.times.as_json(),
        }
        for one in stations(known, seen, visit.site.sampler.queues, dead, sample.firing)
    ]
    name, whole = known.record.name, dead.whole
    expected = [one.as_json() for one in read_expectations(visit.store, known)]
    return Answer({"name": name, "source": known.source, "stations": found, "letters_whole": whole,
                   "expectations": expected,
                   "as_of": time_text(seen.at)})  # fmt: skip


def _acts_on_pipeline(*, paused: bool) -> Callable[[Call], Answer]:
    def run(call: Call) -> Answer:
        known, note = _pipeline(call), (call.body or {}).get("note", "").strip()
        queues = [known.queue(station.name) for station in known.record.stations]
        if not call.dry_run:
            for queue in queues:
                set_paused(call.visit, queue, paused=paused, note=note)
            call.visit.site.sampler.renew()
        return Answer({"name": known.record.name, "queues": queues, "dry_run": call.dry_run})

    return run


def _known(call: Call) -> dict[str, Known]:
    settings = (one.settings for one in call.visit.site.sampler.latest().seen.queues)
    return known_pipelines(call.visit.site.app, call.visit.store, settings)


def _pipeline(call: Call) -> Known:
    """Return the pipeline in the path. Raises Problem if it is unknown."""
    found = _known(call).get(call.path("name"))
    if found is None:
        raise Problem("not-found", "there is no such pipeline; it is stored once a process with its code has begun")
    return found


def all_streams(call: Call) -> Answer:
    """Answer with a page of streams."""
    return named_page(call, "streams", _streams(call), lambda one: one.name, lambda one: _stream_shape(call, one))


def release(call: Call) -> Answer:
    """Give the reserved jobs of a stream back."""
    name, note = call.path("name"), (call.body or {}).get("note", "").strip()
    one = next((one for one in _streams(call) if one.name == name), None)
    if one is None:
        raise Problem("not-found", "there is no such stream")
    if call.dry_run:
        return Answer({"name": name, "dry_run": True, "jobs": one.size or 0})
    call.visit.audit("release stream", name, one.size or 0, note)
    released = streams.release(call.visit.store, name)
    call.visit.audit("release stream: done", name, released)
    call.visit.site.sampler.renew()
    return Answer({"name": name, "dry_run": False, "jobs": released})


def _streams(call: Call) -> list[StreamFigures]:
    return stream_figures(call.visit.store, call.visit.site.sampler.latest().seen)


def _stream_shape(call: Call, one: StreamFigures) -> dict[str, object]:
    same = (
        "name",
        "queue",
        "state",
        "reserved",
        "acked",
        "size",
        "behind",
        "lag",
        "replays",
        "epoch",
        "jobs",
        "seconds",
    )
    return {
        **{name: getattr(one, name) for name in same},
        "host": one.host or None,
        "beat": time_text(one.beat),
        "error": call.visit.site.redaction.text(one.error) or None,
        "ui": one.ui or None,
    }


def _list(path: str, act: str, summary: str, result: str, run: Callable[[Call], Answer]) -> Operation:
    return Operation("GET", path, act, "parts", summary, result, run, query=PAGING, problems=("foreign-cursor",))


def _act(path: str, act: str, summary: str, result: str, run: Callable[[Call], Answer]) -> Operation:
    return Operation("POST", path, act, "parts", summary, result, run, query=DRY_RUN, body="NoteBody",
                     optional_body=True)  # fmt: skip


OPERATIONS = [
    _list("/flows", "listFlows", "List the flows of the newest 2,000 jobs.", "FlowPage", flows),
    Operation("GET", "/flows/{id}", "getFlow", "parts", "Show a flow as a tree of its parts.", "Flow", flow),
    _list("/pipelines", "listPipelines", "List pipelines.", "PipelinePage", pipelines),
    Operation("GET", "/pipelines/{name:path}", "getPipeline", "parts", "Show the stations of a pipeline.", "Pipeline",
              pipeline),
    _act("/pipelines/{name:path}/pause", "pausePipeline", "Pause all stations of a pipeline.", "PipelineEffect",
         _acts_on_pipeline(paused=True)),
    _act("/pipelines/{name:path}/resume", "resumePipeline", "Resume all stations of a pipeline.", "PipelineEffect",
         _acts_on_pipeline(paused=False)),
    _list("/streams", "listStreams", "List streams of Spark.", "StreamPage", all_streams),
    _act("/streams/{name:path}/release", "releaseStream", "Give the reserved jobs of a stream back, and refuse its "
         "driver from then on.", "StreamEffect", release),
]  # fmt: skip
