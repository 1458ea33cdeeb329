"""Pipelines: which station holds the rest; pause and resume them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from starlette.responses import Response

from stanchion.alerts.words import named
from stanchion.errors import InvalidInput
from stanchion.ops.job_json import last_error
from stanchion.ops.reads.expectations import read_expectations
from stanchion.ops.reads.pipelines import Dead, Known, Station, known_pipelines, read_dead, stations
from stanchion.ops.reads.track import HOUR
from stanchion.ops.reads.wings.streams import stream_figures
from stanchion.ops.web.acts.pauses import set_paused
from stanchion.ops.web.pages import pipeline_graph as words
from stanchion.ops.web.show.plots import spark
from stanchion.ops.web.show.templating import segment
from stanchion.ops.web.visit import Missing, Visit
from stanchion.ops.words import listed, number, plural

SHOWN = 200


class Item(NamedTuple):
    """A pipeline in the list: its verdict, its items and the dead letters of all its stations."""

    name: str
    sentence: str
    lede: str
    mark: str
    stations: int
    items: int
    dead: int


def every(visit: Visit) -> Response:
    """List the pipelines, blocked ones first."""
    sampler, sample = visit.site.sampler, visit.site.sampler.latest()
    seen = sample.seen
    found = known_pipelines(visit.site.app, visit.store, (one.settings for one in seen.queues))
    died = seen.letters.died
    items = [
        _item(known, stations(known, seen, sampler.queues, Dead(), sample.firing), died) for known in found.values()
    ]
    order = {"needs": 0, "risk": 1}
    items.sort(key=lambda one: (order.get(one.mark, 2), one.name))
    return visit.page("pipelines.html", _headline(items), items=items[:SHOWN], total=len(items), read_at=seen.at)


def _item(known: Known, found: list[Station], died: Mapping[str, int]) -> Item:
    marks = [words.state_of(one)[0] for one in found]
    mark = next((one for one in ("needs", "risk", "running") if one in marks), "ready")
    under_way = sum(one.sizes.total for one in found)
    name, dead = known.record.name, sum(died.get(one.queue, 0) for one in found)
    return Item(name, words.headline(known, found), words.lede(found), mark, len(found), under_way, dead)


def _headline(items: list[Item]) -> str:
    if not items:
        return "No pipeline"
    troubled = [one for one in items if one.mark in ("needs", "risk")]
    if not troubled:
        return "The pipeline keeps up" if len(items) == 1 else f"All {number(len(items))} pipelines keep up"
    return f"{named([one.name for one in troubled])} {'needs' if len(troubled) == 1 else 'need'} attention"


def show(visit: Visit) -> Response:
    """Show one pipeline."""
    sampler, sample = visit.site.sampler, visit.site.sampler.latest()
    seen = sample.seen
    known = _known(visit)
    dead = read_dead(visit.site.app, visit.store, known, seen, last_error)
    found = stations(known, seen, sampler.queues, dead, sample.firing)
    paused = {one.settings.name for one in seen.queues if one.settings.paused}
    queues = [one.queue for one in found]
    streams = [one for one in stream_figures(visit.store, seen) if one.queue in queues]
    return visit.page(
        "pipeline.html",
        words.headline(known, found),
        known=known,
        lede=words.lede(found),
        stations=found,
        marks={one.name: words.state_of(one)[0] for one in found},
        sparks={one.name: spark(one.ready, "dead" if one.stopped else "ready", visit.now - HOUR) for one in found},
        drawing=words.drawing(known, found) if known.source != "names" else None,
        whole=dead.whole,
        dead=sum(dead.counts.values()),
        letter_queue=f"{known.record.name}.dead",
        streams=streams,
        expectations=read_expectations(visit.store, known),
        paused=[queue for queue in queues if queue in paused],
        read_at=seen.at,
        redact=visit.site.redaction.text,
    )


def ask(visit: Visit) -> Response:
    """Ask before all stations are paused or resumed."""
    known, act = _known(visit), _act(visit)
    queues = _queues(known)
    effects = {
        "pause": "Its stations stop processing until you resume it. Running items finish and move to the next station; "
        "new ones are stored.",
        "resume": "Due items start immediately at all its stations, as fast as workers take them.",
    }
    return visit.confirm(
        f"{act.capitalize()} {known.record.name}?",
        f"{act.capitalize()} {known.record.name}",
        f"/{act}-pipeline/{visit.segment}",
        f"/pipelines/{visit.segment}",
        effects=[
            effects[act],
            f"{plural(len(queues), 'station')}: {listed([one.name for one in known.record.stations])}.",
        ],
        wants_note="Why, and until when?" if act == "pause" else "",
        note_needed=act == "pause",
        command=f"stanchion {act} {' '.join(queues)}",
    )


def act(visit: Visit) -> Response:
    """Pause or resume all stations."""
    known, name, note = _known(visit), _act(visit), visit.note()
    if name == "pause" and not note:
        raise InvalidInput("a pause takes a note: why, and until when")
    for queue in _queues(known):
        set_paused(visit, queue, paused=name == "pause", note=note)
    visit.site.sampler.renew()
    said = f"{known.record.name} is {name}d: {plural(len(_queues(known)), 'station')}"
    return visit.done(f"/pipelines/{segment(known.record.name)}", said)


def _act(visit: Visit) -> str:
    name = str(visit.request.path_params["act"])
    if name not in ("pause", "resume"):
        raise InvalidInput(f"a pipeline can be paused and resumed, not {name!r}")
    return name


def _queues(known: Known) -> list[str]:
    return [known.queue(station.name) for station in known.record.stations]


def _known(visit: Visit) -> Known:
    """Return the pipeline in the path. Raises Missing if it is unknown."""
    settings = (one.settings for one in visit.site.sampler.latest().seen.queues)
    found = known_pipelines(visit.site.app, visit.store, settings).get(visit.name)
    if found is None:
        raise Missing(f"there is no pipeline {visit.name!r}")
    return found
