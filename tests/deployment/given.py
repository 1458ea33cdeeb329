"""Deployments, and the commands in their files."""

from __future__ import annotations

from typing import Any

import typer.main

from stanchion.ops.cli import cli
from stanchion.ops.deployment.settings import Deployment

PLAIN = Deployment(app="shop.jobs:app", image="registry.example.org/shop:2", queues=("mail", "mail.*"), threads=4)
STRANGE = Deployment(
    name="a-1",
    app='shop:create_app("$HOME", %n)',
    image="registry.example.org:5000/a_b/c:1",
    queues=('q"$(PATH)', "${X}|'a' %i #\\", "naïve \N{GRINNING FACE}", "50%_*"),
    secret="store",
    namespace="shop",
)
"""Names that each format would read otherwise, if they were not quoted."""


def parsed(args: list[str]) -> dict[str, Any]:
    """Return the options of a command line of ours, which must be valid."""
    program, *rest = args
    assert program == "stanchion"
    command: Any = typer.main.get_command(cli)
    above = command.make_context("stanchion", rest)
    name, below, rest = command.resolve_command(above, [*above._protected_args, *above.args])
    return {"command": name, **below.make_context(name, rest, parent=above).params}
