"""stanchion demo."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from stanchion.errors import InvalidInput, StanchionError
from stanchion.ops.cli.console.root import TRY, cli
from stanchion.ops.cli.console.session import Exit, Session, command

_SOURCE = Path(__file__).resolve().parents[5]
"""The checkout, where the package is used from one."""


@command(cli, "demo", panel=TRY)
def demo(
    session: Session,
    everything: Annotated[bool, typer.Option("--all", help="The whole year, 336,776 flights.")] = False,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="URL", help="The store to use, of any kind; left out, a new SQLite file."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the queues in that store, to look at them afterwards.")
    ] = False,
    engine: Annotated[
        str | None,
        typer.Option(help="What enriches the flights: spark or workers; left out, Spark where it is installed."),
    ] = None,
) -> Exit:
    """Send the flights of January 2013 from New York through a pipeline of queues, and count what came of it.

    Workers run its stations; Spark, where it is installed, joins the flights with airports, planes and weather, and
    makes a report page at the end.

    It is an example, in examples/flights of the source, and works in a checkout of that only.

    It works in a new SQLite file, which stays; or in the store that --store names (--url does too), in queues of
    its own, which it deletes at the end.
    """
    if session.app_path:
        raise InvalidInput("the demo has an app of its own; choose its store with --store")
    if store and session.url:
        raise InvalidInput("give --store or --url, not both: they mean the same")
    url = store or session.url
    if keep and not url:
        raise InvalidInput("--keep goes with --store; a new SQLite file is kept anyway")
    run = _demonstration().run
    return Exit.OK if run(url, everything, session.out, keep=keep, engine=engine) else Exit.FAILED


def _demonstration() -> ModuleType:
    """Return the demonstration: from the checkout that this file is in, or that is the current folder."""
    for root in (_SOURCE, Path.cwd()):
        examples = root / "examples"
        if (examples / "flights" / "show.py").is_file():
            sys.path.insert(0, str(examples))
            return import_module("flights")
    raise StanchionError(
        "the demonstration is in examples/flights of Stanchion's source, which an installed package does not have; "
        "get the source, and run `make demo` in its folder"
    )
