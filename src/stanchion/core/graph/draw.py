"""The forms of drawing a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from stanchion.core.checks import chosen
from stanchion.core.graph.dot import as_dot
from stanchion.core.graph.layout import Layout, laid_out
from stanchion.core.graph.mermaid import as_mermaid
from stanchion.core.graph.model import Graph
from stanchion.core.graph.svg import as_svg
from stanchion.core.graph.text import as_text
from stanchion.errors import InvalidInput

GraphForm = Literal["text", "svg", "mermaid", "dot"]

_FORMS: dict[GraphForm, Callable[[Layout], str]] = {
    "text": as_text,
    "svg": as_svg,
    "mermaid": as_mermaid,
    "dot": as_dot,
}


def checked_form(form: str) -> GraphForm:
    """Return a form as given. Raises InvalidInput if it is unknown."""
    if (known := chosen(form, _FORMS)) is None:
        raise InvalidInput(f"a graph is drawn as {', '.join(_FORMS)}, not {form!r}")
    return known


def drawn(graph: Graph, form: GraphForm) -> str:
    """Return a graph in one of the forms; text has no final line end."""
    return _FORMS[checked_form(form)](laid_out(graph))
