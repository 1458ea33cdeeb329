"""stanchion maintain."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Never

import typer

from stanchion.context.upkeep import Maintained
from stanchion.errors import StoreUnavailable
from stanchion.ops.cli.console.given import duration, optional_duration
from stanchion.ops.cli.console.root import OPERATE, cli
from stanchion.ops.cli.console.session import Exit, Session, command


@command(cli, "maintain", panel=OPERATE)
def maintain(
    session: Session,
    every: Annotated[
        str | None, typer.Option("--every", help="Go on, with a round every so often, such as 10s.")
    ] = None,
    seconds: Annotated[str, typer.Option("--seconds", help="The longest that a round takes, about.")] = "60s",
) -> Exit:
    """Take back what dead holders left, finish what died half-way, purge history.

    Workers do this all the time. Run it where programs only push, pop and reserve.
    """
    pause, longest = optional_duration(every, "--every"), duration(seconds, "--seconds")
    if pause is None:
        show(session, session.app.maintain(longest))
        return Exit.OK
    try:
        keep_on(session, pause, longest)
    except KeyboardInterrupt:
        return Exit.OK


def keep_on(session: Session, pause: float, longest: float) -> Never:
    """Do one round after the other.

    Each takes back what was lost already in the round before, if that reached the store: a holder that could not show
    that it lives while the store was away has had the time since then.
    """
    app, lost_by = session.app, None
    while True:
        try:
            now = app.store.now()
            show(session, app.context.upkeep.round(longest, lost_by))
            lost_by = now
        except StoreUnavailable as error:
            typer.echo(str(error), err=True)
            lost_by = None
        time.sleep(pause)


def show(session: Session, done: Maintained) -> None:
    """Say what a round came to."""
    found = [f"took back {done.recovered} jobs from holders that are gone"] if done.recovered else []
    found += [f"{queue}: history still holds what it no longer keeps" for queue in done.behind]
    value = {"recovered": done.recovered, "behind": list(done.behind)}
    session.out.done("; ".join(found) or "nothing was lost, nothing is behind", value)
    sys.stdout.flush()
