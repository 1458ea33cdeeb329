"""Showing a flow as a tree."""

from __future__ import annotations

from dataclasses import asdict

from rich.text import Text
from rich.tree import Tree

from stanchion.core.graph.draw import GraphForm, drawn
from stanchion.errors import FlowNotFound
from stanchion.flows.graph import graph_of
from stanchion.flows.tree import FlowPart
from stanchion.jobs.job import JobState
from stanchion.ops.cli.console.drawing import print_graph
from stanchion.ops.cli.console.human import one_line
from stanchion.ops.cli.console.output import STATE_STYLES
from stanchion.ops.cli.console.session import Session

_MARKS = {"done": "✓", "dead": "✗", "failed": "✗", "cancelled": "-", "running": "▶", "ready": "●", "": "·"}
_SHOWN = 100


def show_flow(session: Session, flow_id: str, form: GraphForm) -> bool:
    """Draw a flow, or print it as JSON; text is drawn as a tree. Returns False if there is no such flow."""
    try:
        part = session.app.flow(flow_id).graph()
    except FlowNotFound:
        return False
    if form != "text":
        print_graph(drawn(graph_of(part), form))
    elif session.out.as_json:
        session.out.json({"flow": flow_id, **asdict(part)})
    else:
        session.out.show(_tree(part, Tree(_line(part).append(f"  {flow_id}", "bold"), guide_style="bright_black")))
    return True


def _tree(part: FlowPart, tree: Tree) -> Tree:
    for member in part.members[:_SHOWN]:
        _tree(member, tree.add(_line(member)))
    hidden = (part.size if part.kind in ("group", "barrier") else len(part.members)) - min(_SHOWN, len(part.members))
    if hidden > 0:
        tree.add(Text(f"{hidden:,} more", "bright_black"))
    if part.on_failure is not None:
        tree.add(Text("on failure: ", "bright_black") + _line(part.on_failure))
    return tree


def _line(part: FlowPart) -> Text:
    """Return one part: its mark, label and state in colour, and the job's id or the count of finished members."""
    style = _style(part.state)
    text = Text(f"{_MARKS.get(part.state, '○')} ", style).append(one_line(part.label) or "job", "default")
    if part.state:
        text.append(f"  {part.state}", style)
    if part.kind == "job":
        return text.append(f"  {part.id}", "bright_black")
    text.append(f"  {part.ended:,} of {part.size:,}", "bright_black")
    return text.append(", open", "bright_black") if part.is_open else text


def _style(state: str) -> str:
    if state == "failed":
        return STATE_STYLES[JobState.DEAD]
    return STATE_STYLES[JobState(state)] if state else "bright_black"
