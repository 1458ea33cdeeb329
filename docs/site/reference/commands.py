"""Reference of the command line, from its commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from docs.site.reference.tables import block, code, prose, table

from stanchion.ops.cli import cli
from stanchion.ops.cli.console.root import PANELS


def page() -> str:
    """Return the page."""
    root: Any = typer.main.get_command(cli)
    shared = table(["option", "default", "meaning"], _options(root))
    parts = ["# Command line", prose(root.help), "Options of every command, before or after its name:", shared]
    for panel in PANELS:
        inside = {name: one for name, one in root.commands.items() if one.rich_help_panel == panel}
        if inside:
            parts.append(f"## {panel}")
        common = {option for parameter in root.params for option in parameter.opts}
        for name, command in sorted(inside.items()):
            parts += _described(command, f"stanchion {name}", common)
    return "\n\n".join(filter(None, parts)) + "\n"


def _described(command: Any, path: str, common: set[str]) -> Iterator[str]:
    yield f"### {path}"
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    shown = " ".join(_shown(one) for one in arguments)
    yield block(" ".join(filter(None, [path, shown, "[OPTIONS]"])), "text")
    yield prose(command.help)
    rows = [(code(one.metavar or one.name.upper()), "", _help(one)) for one in arguments if one.help]
    rows += [row for row in _options(command, common) if row[0]]
    if rows:
        yield table(["option", "default", "meaning"], rows)
    for name, below in getattr(command, "commands", {}).items():
        yield from _described(below, f"{path} {name}", common)


def _shown(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name.strip('[]')}]"


def _options(command: Any, leave_out: set[str] | None = None) -> Iterator[tuple[str, str, str]]:
    for one in command.params:
        if one.param_type_name == "option" and not one.hidden and not set(one.opts) & (leave_out or set()):
            names = " ".join([*one.opts, *one.secondary_opts, one.metavar or ""]).strip()
            default = one.default if one.show_default and one.default not in (None, False, [], ()) else ""
            yield code(names), code(str(default)), _help(one)


def _help(parameter: Any) -> str:
    return prose(parameter.help).replace("\n", " ")
