"""The root of the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from stanchion.ops.cli.console.session import AppPath, AsJson, Debug, Url, shared

RUN, LOOK, OPERATE, STORE, TRY = "Run", "Look", "Operate", "Store", "Try"
PANELS = (RUN, LOOK, OPERATE, STORE, TRY)
"""The sections of the help, in order."""

cli = typer.Typer(
    name="stanchion",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from stanchion import __version__

        print(f"stanchion {__version__}")
        raise typer.Exit


@cli.callback()
def root(
    ctx: typer.Context,
    url: Url = None,
    app: AppPath = None,
    as_json: AsJson = False,
    debug: Debug = False,
    version: Annotated[  # noqa: ARG001 - its callback acts
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The job queue inside the database you already run."""
    ctx.obj = shared(url, app, as_json, debug)
