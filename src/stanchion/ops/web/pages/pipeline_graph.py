"""A pipeline in sentences, and as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from stanchion.core.graph.model import Link
from stanchion.core.text.durations import spelled
from stanchion.ops.reads.pipelines import Known, Station
from stanchion.ops.web.show.foreign import strong
from stanchion.ops.web.show.graph import Box, Drawing, Kind, Tone, Wire
from stanchion.ops.words import listed, number, plural, rate

_WHY: Final = {
    "paused": "is paused",
    "no worker": "has no live worker",
    "no driver": "has no live driver",
    "fails": "fails on one item after the other",
    "late": "falls behind",
    "attempts fail": "fails",
    "slow": "has an attempt that runs for too long",
}
_NAMED: Final = 3
"""Stations that a sentence names."""


def headline(known: Known, stations: Sequence[Station]) -> str:
    """Return the state of a pipeline: `flights stands still from long on`."""
    name, stopped = known.record.name, [one for one in stations if one.stopped]
    late = [one for one in stations if one.trouble == "late"]
    failing, slow = ([one for one in stations if one.trouble == said] for said in ("attempts fail", "slow"))
    retries = [one for one in stations if one.retries]
    if len(stopped) == 1:
        on = "from" if any(one.starved for one in stations) else "at"
        return f"{name} has stopped {on} {stopped[0].name}{' onward' if on == 'from' else ''}"
    if stopped:
        return f"{name} has stopped at {_listed(stopped)}"
    if failing:
        return f"{name} fails at {_listed(failing)}"
    if late:
        return f"{name} falls behind at {max(late, key=lambda one: one.lag).name}"
    if slow or retries:
        return f"{name} {'is slow at' if slow else 'retries items of'} {_listed(slow or retries)}"
    if not any(one.sizes.total for one in stations):
        return f"{name} has no item under way"
    return f"{name} keeps up"


def _listed(stations: Sequence[Station]) -> str:
    more = [f"{len(stations) - _NAMED} more"] if len(stations) > _NAMED else []
    return listed([*(one.name for one in stations[:_NAMED]), *more])


def lede(stations: Sequence[Station]) -> Markup:
    """Return the rest of the verdict: blocked stations, starved stations, and stations that keep up."""
    said = [_failing(one) for one in stations if one.trouble == "attempts fail" or one.retries][:_NAMED]
    for one in [one for one in stations if one.trouble not in ("", "attempts fail")][:_NAMED]:
        why = f"has had no driver for {spelled(one.silent)}" if _silent(one) else _WHY[one.trouble]
        oldest = f", the oldest for {spelled(one.lag)}" if one.lag else ""
        items = strong(plural(one.sizes.ready, "item"))
        said.append(
            Markup("{} {}. {} {} there{}.").format(
                strong(one.name), why, items, "waits" if one.sizes.ready == 1 else "wait", oldest
            )
        )
    starved = [one for one in stations if one.starved]
    if starved:
        said.append(Markup("{} downstream {} idle.").format(_names(starved), "is" if len(starved) == 1 else "are"))
    well = [one for one in stations if not (one.trouble or one.starved or one.retries)]
    if well and said:
        said.append(Markup("{} {} up.").format(_names(well), "keeps" if len(well) == 1 else "keep"))
    under_way = sum(one.sizes.total for one in stations)
    if not said and under_way:
        said.append(Markup("{} {} under way.").format(plural(under_way, "item"), "is" if under_way == 1 else "are"))
    return Markup(" ").join(said)


def _failing(one: Station) -> Markup:
    """Return the details of a station whose attempts fail."""
    if one.trouble and one.alert is not None:
        return Markup("{}").format(one.alert.summary)
    back_off = f"{plural(one.retrying, 'item')} {'backs' if one.retrying == 1 else 'back'} off after a failed attempt"
    failed = "" if one.failed is None else f"{one.failed:.0%} of the attempts of the last 5 min failed"
    parts = ([back_off] if one.retrying else []) + ([failed] if failed else [])
    return Markup("{}: {}.").format(strong(one.name), ", ".join(parts))


def drawing(known: Known, stations: Sequence[Station]) -> Drawing:
    """Return the stations and their links as a graph."""
    by_name = {one.name: one for one in stations}
    links = {one.name: [to for to in one.record.to if to in by_name] for one in stations}
    wires = {(name, to): _wire((name, to), by_name, known) for name, targets in links.items() for to in targets}
    tables = {_table(address): address for one in stations for address in one.record.tables}
    for one in stations:
        for key in map(_table, one.record.tables):
            wires[one.name, key] = _rows(one)
            links[one.name].append(key)
    names = {name: name for name in by_name} | {key: f"table {address}" for key, address in tables.items()}
    told = "; ".join(
        f"{name} leads to {listed([names[to] for to in targets])}" for name, targets in links.items() if targets
    )
    sentence = f"Pipeline {known.record.name}: {told or listed(list(by_name))}. {headline(known, stations)}."
    entries = [one.name for one in stations if one.record.entry]
    boxes = {one.name: _box(one) for one in stations}
    boxes |= {key: _table_box(address) for key, address in tables.items()}
    return Drawing(sentence, boxes, links, wires, entries)


def _table_box(address: str) -> Box:
    """Return the box of a table of the store's database, which may be in a schema."""
    name = address.rpartition(".")[2]
    sub = "written with each item" if name == address else address
    return Box(name, "table", "table", sub=sub, kind="table")


def _table(address: str) -> str:
    """Return the key of the box of a table; no station has such a name."""
    return f"table {address}."


def _box(one: Station) -> Box:
    mark, kind = state_of(one)
    out = "" if one.out is None else f"{rate(one.out)} a second"
    tail = ""
    tone: Tone = "sub"
    if one.stopped or one.trouble == "late":
        after = one.silent if _silent(one) else one.lag if one.trouble == "late" else None
        tail = f"{one.trouble} {_rough(after)}" if after else one.trouble
        tone = "warn" if one.trouble in ("late", "paused") else "bad"
    elif one.trouble or one.retries:
        tail, tone = one.trouble or f"{number(one.retrying)} retrying", "warn" if _soon(one) else "bad"
    elif one.dead:
        tail, tone = f"{number(one.dead)} dead", "bad"
    elif one.starved:
        tail = f"idle {_rough(one.idle)}" if one.idle else "idle"
    engine = "paused" if one.trouble == "paused" else "" if one.trouble == "no worker" else one.engine
    if one.record.writes is not None and mark in ("running", "ready"):
        mark, kind, engine = "table", "table", one.record.writes.partition("://")[0]
    return Box(one.name, mark, engine, number(one.sizes.ready), "ready", out, tail, tone, kind)


def state_of(one: Station) -> tuple[str, Kind]:
    """Return the mark of a station, and the style of its box."""
    if one.trouble in ("late", "paused", "slow") or one.retries or (one.trouble and _soon(one)):
        return "risk", "risk"
    if one.trouble:
        return "needs", "dead"
    if one.starved:
        return "waiting", "idle"
    return ("running", "") if one.sizes.total else ("ready", "")


def _soon(one: Station) -> bool:
    return one.alert is None or one.alert.level == "soon"


def _wire(link: Link, stations: dict[str, Station], known: Known) -> Wire:
    """Return a wire as wide as its rate, where one station alone determines it."""
    source, target = stations[link[0]], stations[link[1]]
    if source.stopped:
        return Wire(1.5, "0/s", stopped=True)
    alone = len([to for to in source.record.to if to in stations]) + len(source.record.tables) == 1
    known_rate = None
    if alone:
        known_rate = source.out
    elif len(known.record.before(target.name)) == 1 and not target.record.entry:
        known_rate = target.came
    if known_rate is None:
        return Wire()
    return Wire(1.5 + min(5.5, 0.35 * known_rate**0.5), f"{rate(known_rate)}/s")


def _rows(source: Station) -> Wire:
    """Return a wire to a table of the store's database, as wide as its rate where that is known."""
    if source.stopped:
        return Wire(1.5, "0/s", stopped=True)
    if source.out is None or len(source.record.to) + len(source.record.tables) > 1:
        return Wire()
    return Wire(1.5 + min(5.5, 0.35 * source.out**0.5), f"{rate(source.out)}/s")


def _silent(one: Station) -> bool:
    return one.trouble == "no driver" and one.silent is not None


def _names(found: Sequence[Station]) -> Markup:
    names = [strong(one.name) for one in found]
    shown = names if len(names) <= _NAMED else [*names[:_NAMED], Markup("{} more").format(len(names) - _NAMED)]
    return Markup(" and ").join([Markup(", ").join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _rough(seconds: float) -> str:
    """Return a duration by its largest unit, for a box."""
    return " ".join(spelled(seconds).split()[:2])
