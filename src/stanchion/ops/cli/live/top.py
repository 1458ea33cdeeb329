"""stanchion top: the live view."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from stanchion.errors import StanchionError
from stanchion.ops.cli.console.given import spacing
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.selection import ROWS, Rows
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.cli.live.frame import frame, snapshot_json
from stanchion.ops.cli.live.sample import Samples, sample

_SHORTEST = 0.1


@command(cli, "top", panel=LOOK)
def top(
    session: Session,
    interval: Annotated[str, typer.Option("--interval", "-i", help="Time between updates.")] = "1s",
    limit: Rows = ROWS,
    once: Annotated[bool, typer.Option("--once", help="Print one frame, with the rates over one interval.")] = False,
) -> Exit | None:
    """Watch queues, workers, running and dead jobs live; q quits.

    With --json, print a line of JSON per interval.
    """
    seconds = spacing(interval, "--interval", _SHORTEST)
    out, samples = session.out, Samples()
    samples.add(sample(session.app))
    if not once and not out.as_json and out.console.is_terminal:
        return _live(session, samples, seconds)
    while True:
        time.sleep(seconds)
        samples.add(sample(session.app))
        if out.as_json:
            out.json_line(snapshot_json(samples))
        else:
            out.show(frame(samples, out.width, None, limit=limit))
        if once:
            return None


def _live(session: Session, samples: Samples, seconds: float) -> Exit | None:
    """Draw full screen until q is pressed; if the store is unavailable, show that and keep trying."""
    from rich.live import Live

    console = session.out.console
    trouble = ""
    with Live(console=console, screen=True, auto_refresh=False) as screen, keys() as key_within:
        while True:
            size = console.size
            screen.update(frame(samples, size.width, size.height, trouble), refresh=True)
            if key_within(seconds) in ("q", "Q", "\x1b"):
                return None
            try:
                samples.add(sample(session.app))
                trouble = ""
            except StanchionError as error:
                trouble = str(error)


@contextmanager
def keys() -> Iterator[Callable[[float], str]]:
    """Read single keys: the yielded function waits up to the given seconds for one, and returns it or an empty text."""
    if not sys.stdin.isatty():
        yield _no_key
        return
    import os
    import select
    import termios
    import tty

    terminal = sys.stdin.fileno()

    def within(seconds: float) -> str:
        ready, _, _ = select.select([terminal], [], [], seconds)
        return os.read(terminal, 1).decode(errors="replace") if ready else ""

    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield within
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _no_key(seconds: float) -> str:
    time.sleep(seconds)
    return ""
