"""stanchion maintain."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Annotated, Never

import typer

from stanchion.context import context_of
from stanchion.context.steadiness import Steadiness
from stanchion.context.upkeep import BEAT, Maintained
from stanchion.core.text.durations import duration
from stanchion.errors import StoreUnavailable
from stanchion.ops.cli.console.given import spacing
from stanchion.ops.cli.console.root import OPERATE, cli
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.stores.protocol import Store


@command(cli, "maintain", panel=OPERATE)
def maintain(
    session: Session,
    every: Annotated[str | None, typer.Option("--every", help="Repeat at this interval, such as 10s.")] = None,
    seconds: Annotated[str, typer.Option("--seconds", help="Approximate limit of a round.")] = "60s",
) -> Exit:
    """Take back lost jobs, complete the outbox of dead processes, purge history.

    Workers do this all the time. Run it if there are no workers.
    """
    pause, longest = None if every is None else spacing(every, "--every"), duration(seconds, "--seconds")
    if pause is None:
        show(session, session.app.maintain(longest))
        return Exit.OK
    try:
        keep_on(session, pause, longest)
    except KeyboardInterrupt:
        return Exit.OK


def keep_on(session: Session, pause: float, longest: float) -> Never:
    """Do one round after the other.

    A round takes back the jobs that are lost by now once the store has answered for half a minute without a gap.
    Before, it takes back only jobs that were lost already in the round before, if that reached the store: after an
    outage of the store, live holders have had the time since then to prove that they are alive.
    """
    app, lost_by, steadiness = session.app, None, Steadiness(BEAT)
    while True:
        try:
            now = app.store.now()
            steadiness.answered()
            show(session, context_of(app).upkeep.round(longest, now if steadiness.steady else lost_by))
            lost_by = now
        except StoreUnavailable as error:
            typer.echo(str(error), err=True)
            lost_by = None
        rest(app.store, pause, steadiness)


def rest(store: Store, pause: float, steadiness: Steadiness) -> None:
    """Rest until the next round; in a long pause, ask the store from time to time whether it is there."""
    until = time.monotonic() + pause
    while (left := until - time.monotonic()) > BEAT:
        time.sleep(min(left, BEAT))
        with suppress(StoreUnavailable):
            store.now()
            steadiness.answered()
    time.sleep(max(0.0, left))


def show(session: Session, done: Maintained) -> None:
    """Print the result of a round."""
    found = [f"recovered {done.recovered} lost jobs"] if done.recovered else []
    found += [f"{queue}: expired history is left" for queue in done.behind]
    value = {"recovered": done.recovered, "behind": list(done.behind)}
    session.out.done("; ".join(found) or "nothing to do", value)
    sys.stdout.flush()
