"""A flow in sentences and as a graph; above FOLDED nodes or EQUAL members, one box stands for a task's members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Final

from stanchion.core.graph.model import Link
from stanchion.flows.graph import Drawn, draw
from stanchion.flows.tree import FlowPart
from stanchion.ops.reads.flows import Flow, parts_of
from stanchion.ops.web.show.graph import Box, Drawing, Kind, Wire
from stanchion.ops.words import listed, number, plural

FOLDED: Final = 60
"""Nodes above which members are folded."""

EQUAL: Final = 8
"""Members of a group that do the same above which they are folded."""

_MARKS: Final = {"failed": "dead", "": "scheduled"}
_UNDER_WAY: Final = ("running", "ready")
_NAMED: Final = 3


def headline(flow: Flow) -> str:
    """Return the state of a flow: `Flow of trips.book is running: 3 of 7 members have ended`."""
    name = f"Flow of {first_task(flow.part)}"
    ended = f"{number(flow.ended)} of {plural(flow.size, 'member')}"
    match flow.root.state:
        case "done":
            return f"{name} is done"
        case "failed":
            dead = [part.label for part in parts_of(flow.part) if part.kind == "job" and part.state == "dead"]
            return f"{name} failed at {dead[0]}" if dead and dead[0] else f"{name} failed"
        case "cancelled":
            return f"{name} is cancelled"
        case _:
            open_ = "" if flow.root.closed else ", and takes more"
            return f"{name} is running: {ended} {'has' if flow.size == 1 else 'have'} ended{open_}"


def standing(flow: Flow) -> str:
    """Return the present blockers of a flow."""
    jobs = [part for part in parts_of(flow.part) if part.kind == "job"]
    said = []
    for state, verb in (("running", "runs"), ("ready", "is ready"), ("scheduled", "is scheduled"), ("dead", "is dead")):
        found = Counter(part.label for part in jobs if part.state == state and part.label)
        if found:
            names = [f"{label} ×{number(many)}" if many > 1 else label for label, many in found.most_common(_NAMED)]
            more = [f"{len(found) - _NAMED} more"] if len(found) > _NAMED else []
            one = sum(found.values()) == 1
            spoken = verb if one else {"runs": "run", "is ready": "are ready"}.get(verb, verb.replace("is ", "are "))
            said.append(f"{listed(names + more)} {spoken}")
    waits = sum(part.state in ("waiting", "") for part in jobs)
    if waits and flow.root.state == "running":
        said.append(f"{number(waits)} {'waits' if waits == 1 else 'wait'} for others")
    return f"{'; '.join(said)}." if said else ""


def first_task(part: FlowPart) -> str:
    """Return the task of the first member that has one."""
    return next((one.label for one in parts_of(part) if one.kind == "job" and one.label), "unknown members")


def drawing(flow: Flow) -> tuple[Drawing, bool]:
    """Return a flow as a graph, and whether members are folded in it."""
    drawn = _Boxes(fold=False)
    draw(flow.part, drawn)
    if len(drawn.boxes) > FOLDED:
        drawn = _Boxes(fold=True)
        draw(flow.part, drawn)
    sentence = f"{headline(flow)}. {standing(flow)} Drawn as {plural(len(drawn.boxes), 'part')}."
    return Drawing(sentence, drawn.boxes, drawn.links, drawn.wires), drawn.folded


class _Boxes:
    """The boxes and links of a flow. More than EQUAL members of a group that do the same are one box; with `fold`, any.

    `folded`: some are.
    """

    def __init__(self, *, fold: bool) -> None:
        self._fold, self.folded = fold, False
        self.boxes: dict[str, Box] = {}
        self.links: dict[str, list[str]] = {}
        self.wires: dict[Link, Wire] = {}
        self._numbers = count(1)

    def job(self, part: FlowPart) -> str:
        return self._box(part.label or "job", part.state, part.state or "not enqueued yet")

    def failure(self, call: FlowPart) -> str:
        return self._box(call.label or "job", call.state, f"on failure{', ' if call.state else ''}{call.state}")

    def members(self, part: FlowPart, draw: Callable[[FlowPart], Drawn]) -> list[Drawn]:
        merged = {label: one for label, one in _folded(part).items() if self._fold or one.total() > EQUAL}
        drawn = [draw(one) for one in part.members if _what(one) not in merged]
        for label, states in merged.items():
            self.folded = True
            name = self._box(f"{label} ×{number(states.total())}", _worst(states), _counted(states))
            drawn.append(([name], name))
        missing = part.size - len(part.members)
        if missing > 0:
            name = self._box(f"{number(missing)} more", "", "not read")
            drawn.append(([name], name))
        return drawn

    def group(self, part: FlowPart) -> str:
        open_ = ", open" if part.is_open else ""
        return self._box(part.kind, part.state, f"{number(part.ended)} of {number(part.size)} ended{open_}")

    def link(self, one: str, to: str, *, dashed: bool = False) -> None:
        self.links[one].append(to)
        self.wires[one, to] = Wire(1.5, dashed=dashed)

    def _box(self, label: str, state: str, sub: str) -> str:
        name = f"part{next(self._numbers)}"
        dead = state in ("dead", "failed")
        kind: Kind = "dead" if dead else "idle" if state in ("", "waiting") else ""
        self.boxes[name] = Box(label, _MARKS.get(state, state), sub="" if dead else sub, kind=kind)
        if dead:
            self.boxes[name] = self.boxes[name]._replace(tail=sub, tone="bad")
        self.links[name] = []
        return name


def _folded(part: FlowPart) -> dict[str, Counter[str]]:
    """Return the members of a group by task, each with the number in each state."""
    found: dict[str, Counter[str]] = {}
    for member in part.members:
        found.setdefault(_what(member), Counter())[member.state] += 1
    return found


def _what(part: FlowPart) -> str:
    if part.kind == "job":
        return part.label or "job"
    tasks = list(dict.fromkeys(one.label for one in parts_of(part) if one.kind == "job" and one.label))
    return f"{part.kind} of {listed(tasks[:2])}" if tasks else part.kind


def _worst(states: Counter[str]) -> str:
    """Return the most telling state of several members."""
    order = ("dead", "failed", "running", "ready", "scheduled", "waiting", "", "cancelled", "done")
    return next((state for state in order if states[state]), "done")


def _counted(states: Counter[str]) -> str:
    return ", ".join(f"{number(many)} {state or 'to come'}" for state, many in states.most_common(3))
