"""The option --format of the commands that draw a graph."""

from __future__ import annotations

from typing import Annotated

import typer

from stanchion.core.graph.draw import GraphForm, checked_form
from stanchion.errors import InvalidInput

GraphFormat = Annotated[
    str, typer.Option("--format", metavar="FORM", help="text, svg, mermaid, or dot (for Graphviz).")
]


def checked_format(form: str, *, as_json: bool) -> GraphForm:
    """Return the form to draw in. Raises InvalidInput for an unknown form, or one combined with --json."""
    if as_json and form != "text":
        raise InvalidInput("give --format or --json, not both")
    return checked_form(form)


def print_graph(graph: str) -> None:
    """Print a graph with exactly one line end."""
    print(graph.rstrip("\n"))
