"""stanchion demo."""

from __future__ import annotations

from typing import Annotated

import typer

from stanchion.errors import InvalidInput
from stanchion.ops.cli.root import TRY, cli
from stanchion.ops.cli.session import Exit, Session, command


@command(cli, "demo", panel=TRY)
def demo(
    session: Session,
    everything: Annotated[bool, typer.Option("--all", help="The whole year, 336,776 flights.")] = False,
) -> Exit:
    """Send the flights of January 2013 from New York through a pipeline of queues, and count what came of it.

    It works in a new SQLite file; or, with --url, in queues named demo.* of that store, which it makes anew.
    """
    if session.app_path:
        raise InvalidInput("the demo has an app of its own; choose its store with --url")
    from stanchion.ops.demo import run

    return Exit.OK if run(session.url, everything, session.out) else Exit.FAILED
