"""Queues: their figures and settings; pause and resume."""

from __future__ import annotations

from stanchion.context.queues.settings import checked_settings
from stanchion.core.names.partition_names import checked_queue, logical_name
from stanchion.ops.reads.queue_parts import partitions_of, schema_json, schemas_of, tenants_of
from stanchion.ops.reads.queues import figures
from stanchion.ops.web.acts.pauses import pause_of, set_paused
from stanchion.ops.web.acts.settings import change_all
from stanchion.ops.web.api.operation import Answer, Call, Operation, time_text
from stanchion.ops.web.api.paging import named_page
from stanchion.ops.web.api.problems import Problem
from stanchion.ops.web.api.schemas.filters import DRY_RUN, PAGING
from stanchion.ops.web.api.schemas.kinds import name
from stanchion.ops.web.api.shapes import queue_shape, settings_shape
from stanchion.ops.web.live.figures import figures_of
from stanchion.stores.fields.jobs import Kind
from stanchion.stores.fields.queues import SETTABLE
from stanchion.stores.records.queues import QueueSettings

DEPTH_MAX = 1000
"""Maximum number of jobs counted per lane."""


def listed(call: Call) -> Answer:
    """Answer with a page of queues."""
    store, part = call.visit.store, call.query.get("name", "")
    known = [one for one in store.queues() if logical_name(one.name) == one.name and part in one.name]
    answer = named_page(call, "queues", known, lambda one: one.name, lambda one: one)
    found = figures_of(store, call.visit.site.sampler.latest(), answer.content["items"], call.visit.now)
    shown = {one.name: queue_shape(one) for one in found}
    answer.content["items"] = [shown[one.name] for one in answer.content["items"]]
    return answer


def shown(call: Call) -> Answer:
    """Answer with one queue."""
    queue, store = known_queue(call), call.visit.store
    seen = call.visit.site.sampler.latest().seen
    (found,) = figures(store, [queue], store.workers(), call.visit.now, seen.streams, seen.letters)
    depths = store.lane_depths(queue.name, at_most=DEPTH_MAX) if queue.uses_lanes else {}
    pause = pause_of(call.visit, queue.name) if queue.paused else None
    tenants = tenants_of(store, queue.name) if found.sizes.ready else None
    return Answer({
        "queue": queue_shape(found),
        "lanes": {str(lane): depths[lane] for lane in sorted(depths)},
        "tenants": [] if tenants is None else [{"name": one.name, "jobs": one.jobs} for one in tenants.rows],
        "partitions": list(partitions_of(store, queue.name)),
        "schema": schema_json(schemas_of(store, [queue]).get(queue.name)),
        "pause": pause and {"who": pause.who, "at": time_text(pause.at), "note": pause.note},
        "as_of": call.as_of,
    })  # fmt: skip


def queue_name(call: Call) -> str:
    """Return the name of the queue in the path. Raises InvalidInput, NotPermitted."""
    queue = checked_queue(call.path("queue"))
    call.check_reach(queue)
    return queue


def known_queue(call: Call) -> QueueSettings:
    """Return the settings of the queue in the path. Raises Problem if it is unknown."""
    queue = queue_name(call)
    for settings in call.visit.store.queues([queue]):
        return settings
    raise Problem("not-found", f"there is no queue {queue!r}; a push makes it, or a change of its settings")


def pause(call: Call) -> Answer:
    """Pause a queue."""
    queue = known_queue(call)
    note = (call.body or {}).get("note", "").strip()
    if call.dry_run:
        return _effect(call, queue)
    return _effect(call, set_paused(call.visit, queue.name, paused=True, note=note))


def resume(call: Call) -> Answer:
    """Resume a queue."""
    queue = known_queue(call)
    if call.dry_run:
        return _effect(call, queue)
    note = (call.body or {}).get("note", "").strip()
    return _effect(call, set_paused(call.visit, queue.name, paused=False, note=note))


def configure(call: Call) -> Answer:
    """Change settings of a queue, which is made if it is missing."""
    queue, body = queue_name(call), {**call.body}
    for setting in _WHOLE & body.keys():
        body[setting] = None if body[setting] is None else int(body[setting])
    checked_settings(body)
    stored = call.visit.store.queues([queue])
    current = stored[0] if stored else QueueSettings(queue)
    return _effect(call, current if call.dry_run else change_all(call.visit, current, body))


_WHOLE = frozenset(one.name for one in SETTABLE if one.kind is Kind.INT)


def _effect(call: Call, queue: QueueSettings) -> Answer:
    ready = call.visit.store.stats([queue.name], ["states"])[queue.name].states.ready
    return Answer({"dry_run": call.dry_run, "jobs": ready, "queue": queue.name, "settings":
                   {"paused": queue.paused, **settings_shape(queue)}})  # fmt: skip


OPERATIONS = [
    Operation("GET", "/queues", "listQueues", "queues", "List queues with their figures.", "QueuePage", listed,
              query={"name": name("Queues with this in their name."), **PAGING}, problems=("foreign-cursor",)),
    Operation("GET", "/queues/{queue:path}", "getQueue", "queues", "Show a queue.", "QueueDetail", shown),
    Operation("PATCH", "/queues/{queue:path}", "configureQueue", "queues", "Change settings of a queue; it is made if "
              "it is missing.", "QueueEffect", configure, query=DRY_RUN, body="SettingsBody"),
    Operation("POST", "/queues/{queue:path}/pause", "pauseQueue", "queues", "Stop handing out jobs, in all processes.",
              "QueueEffect", pause, query=DRY_RUN, body="NoteBody", optional_body=True),
    Operation("POST", "/queues/{queue:path}/resume", "resumeQueue", "queues", "Hand out jobs again.", "QueueEffect",
              resume, query=DRY_RUN, body="NoteBody", optional_body=True),
]  # fmt: skip
