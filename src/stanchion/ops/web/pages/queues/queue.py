"""One queue: states, lanes, settings; pause and resume."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from stanchion.alerts.verdict import by_queue
from stanchion.context import context_of
from stanchion.context.queues.pauses import Pause
from stanchion.core.checks import checked_name
from stanchion.core.text.durations import spelled
from stanchion.errors import InvalidInput
from stanchion.ops.reads.errors import Errors, hidden, read_errors, source_of
from stanchion.ops.reads.filters import JobFilter
from stanchion.ops.reads.queue_parts import partitions_of, schemas_of, tenants_of
from stanchion.ops.reads.queues import QueueFigures, figures_seen
from stanchion.ops.reads.track import HOUR
from stanchion.ops.web.acts.pauses import pause_of, set_paused
from stanchion.ops.web.acts.settings import HELP, changes_of
from stanchion.ops.web.pages import past
from stanchion.ops.web.show.alerts import Shown, with_links
from stanchion.ops.web.show.plots import spark
from stanchion.ops.web.show.runbook import link_of
from stanchion.ops.web.visit import Missing, Visit
from stanchion.ops.words import plural
from stanchion.stores.fields.jobs import Kind
from stanchion.stores.fields.queues import SETTABLE, Setting
from stanchion.stores.records.queues import QueueSettings, Sizes
from stanchion.telemetry.times import Times

DEPTH_MAX = 1000
"""Maximum number of jobs counted per lane."""

PARTITIONS_SHOWN = 64

ERRORS_SHOWN = 8
DEAD_READ = 500
"""Dead jobs that are read for the errors, the newest."""


class Bar(NamedTuple):
    """A lane in the picture, in percent of its width and height."""

    lane: int
    depth: int
    left: float
    height: float


def show(visit: Visit) -> Response:
    """Show one queue: its settings as they are now, its figures as the last reading saw them."""
    queue, store = known_queue(visit), visit.store
    found = _figures(visit, queue)
    depths = (visit.part("lanes", lambda: _depths(visit, queue.name)) or {}) if queue.uses_lanes else {}
    partitions = partitions_of(store, queue.name)
    alerts = _alerts(visit, queue)
    whose = found.sizes.ready and not (depths and partitions)
    return visit.page(
        "queue.html",
        f"{queue.name} needs a person" if alerts else found.sentence,
        alerts=alerts,
        runbook_of=link_of,
        queue=found,
        pause=_pause(visit, queue),
        lanes=_bars(queue.lanes, depths),
        deepest=max(depths.values(), default=0),
        depth_max=DEPTH_MAX,
        plots=past.asked(visit, queue.name),
        settings=_settings(queue),
        changes={} if queue.paused else visit.part("changes", lambda: changes_of(visit, queue.name)) or {},
        changeable=HELP,
        sides=_sides(found),
        times=_times(found.times),
        tenants=visit.part("tenants", lambda: tenants_of(store, queue.name)) if whose else None,
        errors=visit.part("errors", lambda: _errors(visit, found)),
        errors_shown=ERRORS_SHOWN,
        source_of=source_of,
        trend=lambda group: spark(group.minutes(visit.now), "risk", visit.now - HOUR),
        now=visit.now,
        schema=visit.part("schema", lambda: schemas_of(store, [queue]).get(queue.name)),
        partitions=visit.part("partitions", lambda: _of_partitions(visit, partitions)) or []
        if len(partitions) > 1
        else [],
    )


def _pause(visit: Visit, queue: QueueSettings) -> Pause | None:
    """Return who paused a queue; read only where that was after the last reading."""
    if not queue.paused:
        return None
    seen = visit.site.sampler.latest().seen.pauses.get(queue.name)
    return seen or visit.part("pause", lambda: pause_of(visit, queue.name))


def _errors(visit: Visit, queue: QueueFigures) -> Errors | None:
    """Return the groups of errors of a queue, as the page of errors has them; None where nothing has failed."""
    if not (queue.letters or queue.totals.buried or queue.totals.rolled_back or queue.totals.expired):
        return None
    wanted = JobFilter(queue=queue.name)
    seen, context = visit.site.sampler.latest().seen, context_of(visit.site.app)
    reads = context, visit.store, wanted, visit.now, DEAD_READ
    found = read_errors(*reads, retried=False, known=seen.tallies.get(queue.name))
    return hidden(found, visit.site.redaction.text)


def _figures(visit: Visit, queue: QueueSettings) -> QueueFigures:
    """Return the figures of a queue; one that is newer than the last reading has another one taken."""
    sampler = visit.site.sampler
    found = figures_seen(sampler.latest().seen, queue, visit.now)
    if found is None:
        found = figures_seen(sampler.renew().seen, queue, visit.now)
    if found is None:
        raise Missing(f"there is no queue {queue.name!r}")
    return found


def _alerts(visit: Visit, queue: QueueSettings) -> list[Shown]:
    """Return the alerts of a queue that hold, without links to its own page."""
    sample = visit.site.sampler.latest()
    firing = [one for one in sample.firing if by_queue([one], sample.seen).get(queue.name) is not None]
    if not queue.paused:  # an alert clears some readings after its cause, and the pause has just been ended
        firing = [one for one in firing if one.rule != "paused"]
    owners = sample.seen.owners
    alerts = [with_links(one, owners.get(one.key)) for one in firing]
    return [one._replace(link="") if one.link == f"/queues/{visit.segment}" else one for one in alerts]


def _depths(visit: Visit, name: str) -> dict[int, int]:
    return visit.store.lane_depths(name, at_most=DEPTH_MAX)


def _of_partitions(visit: Visit, names: tuple[str, ...]) -> list[tuple[str, Sizes]]:
    """Return the sizes of the first partitions."""
    listed = names[:PARTITIONS_SHOWN]
    stats = visit.store.stats(listed, ["states"])
    return [(name, stats[name].states) for name in listed]


def ask_pause(visit: Visit) -> Response:
    """Ask before a queue is paused."""
    queue = known_queue(visit)
    return visit.confirm(
        f"Pause {queue.name}?",
        f"Pause {queue.name}",
        f"/pause/{visit.segment}",
        f"/queues/{visit.segment}",
        effects=[
            "No worker takes its jobs until you resume it. Running jobs finish; new ones are stored.",
            "The queue’s page shows the note to the next person on call.",
        ],
        wants_note="Why, and until when?",
        note_needed=True,
        command=f"stanchion pause {queue.name}",
    )


def pause(visit: Visit) -> Response:
    """Pause a queue, with a note."""
    note = visit.note()
    if not note:
        raise InvalidInput("a pause takes a note: why, and until when")
    return _set(visit, paused=True, note=note)


def ask_resume(visit: Visit) -> Response:
    """Ask before a queue is resumed."""
    queue = known_queue(visit)
    ready = visit.store.stats([queue.name], ["states"])[queue.name].states.ready
    return visit.confirm(
        f"Resume {queue.name}?",
        f"Resume {queue.name}",
        f"/resume/{visit.segment}",
        f"/queues/{visit.segment}",
        effects=[f"{plural(ready, 'ready job')} may start immediately, in their order, as fast as workers take them."],
        command=f"stanchion resume {queue.name}",
    )


def resume(visit: Visit) -> Response:
    """Resume a queue."""
    return _set(visit, paused=False, note="")


def _set(visit: Visit, *, paused: bool, note: str) -> Response:
    name = known_queue(visit).name
    set_paused(visit, name, paused=paused, note=note)
    visit.site.sampler.renew()
    return visit.done(f"/queues/{visit.segment}", f"{name} is {'paused' if paused else 'resumed'}")


def known_queue(visit: Visit) -> QueueSettings:
    """Return the settings of the queue in the path. Raises Missing if it is unknown."""
    name = checked_name(visit.name, "queue")
    for settings in visit.store.queues([name]):
        return settings
    raise Missing(f"there is no queue {name!r}")


def _bars(lanes: int, depths: dict[int, int]) -> list[Bar]:
    """Return a bar for each lane with jobs; jobs in no lane come first, as lane -1."""
    first = min([0, *depths])
    width, top = max([lanes, *(lane + 1 for lane in depths)]) - first, max(depths.values(), default=1)
    return [Bar(lane, depth, 100 * (lane - first) / width, 100 * depth / top) for lane, depth in sorted(depths.items())]


def _times(times: Times | None) -> list[tuple[str, float | None, float | None]]:
    """Return the 95th percentile and the median of the last five minutes, as far as known."""
    if times is None:
        return []
    delays, runs = ("Pick-up", times.delay(95), times.delay(50)), ("Run time", times.run(95), times.run(50))
    return [one for one in (delays, runs) if one[1] is not None]


def _sides(queue: QueueFigures) -> dict[str, str]:
    """Return a few words below the number of each state."""
    slots = "no live worker" if not queue.workers else f"{plural(queue.threads, 'thread')} serve it"
    bound = queue.settings.max_running
    sides = {
        "ready": f"oldest {spelled(queue.lag)}" if queue.sizes.ready else "",
        "running": f"at most {bound:,}" if bound is not None else slots,
        "waiting": "for a slot, an order key or a flow" if queue.sizes.waiting else "",
        "scheduled": "not due yet, or backing off" if queue.sizes.scheduled else "",
    }
    items = queue.items._asdict()
    carried = {state: plural(items[state], "item") for state in sides if items[state] > getattr(queue.sizes, state)}
    return {state: ", ".join(filter(None, (carried.get(state), side))) for state, side in sides.items()}


def _settings(queue: QueueSettings) -> list[tuple[str, str]]:
    """Return the set values, and the effective ones where none is set."""
    several = queue.lanes > 1
    return [
        (one.name, _said(queue, one))
        for one in SETTABLE
        if one.kind not in (Kind.FLAG, Kind.WORD) and (several or one.name != "lanes_per_tenant")
    ]


def _said(queue: QueueSettings, one: Setting) -> str:
    value = getattr(queue, one.name)
    if value is None:
        return one.absent
    if one.name in ("lanes", "partitions") and value == 1:
        return "none"
    if one.name == "max_running" and queue.ordered:
        return "1, in order"
    if one.is_time:
        return f"unused for {spelled(value)}" if one.name == "expires" else spelled(value)
    return f"{value:g} a second" if one.kind is Kind.REAL else str(value)
