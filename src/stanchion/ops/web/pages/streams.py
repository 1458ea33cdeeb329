"""Streams of Spark: is each driver alive, and how far is it behind?"""

from __future__ import annotations

from starlette.responses import Response

from stanchion import streams
from stanchion.alerts.words import named
from stanchion.ops.reads.wings.streams import StreamFigures, stream_figures
from stanchion.ops.web.show.templating import query
from stanchion.ops.web.visit import Missing, Visit
from stanchion.ops.words import number, plural

SHOWN = 200


def every(visit: Visit) -> Response:
    """List the streams, the ones in trouble first."""
    seen = visit.site.sampler.latest().seen
    found = stream_figures(visit.store, seen)
    return visit.page(
        "streams.html",
        headline(found),
        items=found[:SHOWN],
        total=len(found),
        read_at=seen.at,
        redact=visit.site.redaction.text,
    )


def headline(found: list[StreamFigures]) -> str:
    """Return the state of all streams, as a sentence."""
    if not found:
        return "No stream"
    failing = [one.name for one in found if one.state == "fails"]
    without = [one.name for one in found if one.state == "no driver"]
    if failing:
        return f"{named(failing)} {'stands' if len(failing) == 1 else 'stand'} still: the query fails"
    if without:
        return f"{named(without)} {'has' if len(without) == 1 else 'have'} work and no live driver"
    repeating = [one.name for one in found if one.state == "repeats"]
    if repeating:
        return f"{named(repeating)} {'repeats' if len(repeating) == 1 else 'repeat'} a batch"
    return "The stream keeps up" if len(found) == 1 else f"All {number(len(found))} streams keep up"


def ask_release(visit: Visit) -> Response:
    """Ask before returning the reserved jobs of a stream."""
    one = _stream(visit)
    live = one.state in ("reading", "repeats", "fails") and one.beat is not None
    return visit.confirm(
        f"Release the reserved jobs of {one.name}?",
        f"Release the jobs of {one.name}",
        f"/streams/release/{visit.segment}",
        "/streams",
        effects=[
            f"They become ready in {one.queue} now, without a counted attempt; workers or another query may take them.",
            "Its driver is refused from then on, even if it recovers: restart its query to continue.",
            *(["The driver may be alive: its query would fail."] if live else []),
        ],
        wants_note="Why? (for the audit log)",
        command=f"stanchion streams release {one.name}",
    )


def release(visit: Visit) -> Response:
    """Give the reserved jobs of a stream back."""
    one, note = _stream(visit), visit.note()
    visit.audit("release stream", one.name, one.size or 0, note)
    released = streams.release(visit.store, one.name)
    visit.audit("release stream: done", one.name, released)
    visit.site.sampler.renew()
    said = f"{plural(released, 'job')} of {one.name} {'is' if released == 1 else 'are'} back in {one.queue}"
    return visit.done("/streams", said, f"/jobs{query(state='ready', queue=one.queue)}", "see its ready jobs")


def _stream(visit: Visit) -> StreamFigures:
    for one in stream_figures(visit.store, visit.site.sampler.latest().seen):
        if one.name == visit.name:
            return one
    raise Missing(f"there is no stream {visit.name!r}")
