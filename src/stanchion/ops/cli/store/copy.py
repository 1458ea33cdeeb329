"""stanchion copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from stanchion.app import Stanchion
from stanchion.copying.transfer import SETTLE, Copied, Transfer, Watcher, settings_of
from stanchion.core.checks import checked_name
from stanchion.core.text.durations import duration
from stanchion.errors import InvalidInput, SchemaMismatch
from stanchion.ops.cli.console.output import STATE_STYLES, Cell, Column, Output, count_cell
from stanchion.ops.cli.console.root import STORE, cli
from stanchion.ops.cli.console.session import Exit, Session, command, refuse_missing_file
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.queues import Sizes
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.registry import shown_url

if TYPE_CHECKING:
    from rich.progress import Progress

_COLUMNS = [
    Column("QUEUE", shrinks=True, keeps_ends=True),
    Column("COPIED", right=True),
    Column("HISTORY", right=True),
    Column("KEY TAKEN", right=True),
    Column("RUNNING", right=True),
    Column("NOW"),
]
_COMPLAINTS_MAX = 20


@command(cli, "copy", panel=STORE, makes_store=True)
def copy(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="SRC_URL", help="The store that has the jobs.")],
    destination: Annotated[str, typer.Argument(metavar="DST_URL", help="The store to copy them to.")],
    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", help="Only this queue. Repeatable; by default all queues.")
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Copy finished jobs too.")] = False,
    leave_paused: Annotated[
        bool, typer.Option("--leave-paused", help="Don't resume the queues in the destination.")
    ] = False,
    wait: Annotated[
        str, typer.Option("--wait", metavar="TIME", help="How long to wait for jobs that run in the source.")
    ] = "60s",
    settle: Annotated[
        str,
        typer.Option(
            "--settle",
            metavar="TIME",
            help="How long calls that started before the pause get to end; 0 is safe if no process claims jobs.",
        ),
    ] = f"{SETTLE:g}s",
) -> Exit:
    """Move queues from one store to another, with their settings, and their jobs with ids and all fields.

    The queues are paused in both stores meanwhile. At the end they are empty and paused in the source, and resumed in
    the destination. After an interruption, the same command continues where it stopped.
    """
    if session.url or session.app_path:
        raise InvalidInput("copy takes the two stores as arguments: stanchion copy SRC_URL DST_URL")
    times = {"wait": duration(wait, "--wait"), "settle": duration(settle, "--settle")}
    names = _distinct(queue or [])
    out = session.out
    copied: list[Copied] = []
    with _opened(source, "the source", exists=True) as src, _opened(destination, "the destination") as dst:
        settings_of(src, names)  # refuse before the audit log records it
        # In rounds: a job that dies in the source meanwhile may make one more queue there, for dead letters.
        while found := [name for name in names or _names(src) if name not in {one.queue for one in copied}]:
            session.audit("copy", ", ".join(found), note=f"to {shown_url(destination)}", store=src)
            session.audit("copy", ", ".join(found), note=f"from {shown_url(source)}", store=dst)
            copied += _move(out, src, dst, found, history=history, resume=not leave_paused, **times)
    if not copied:
        out.say("no queues to copy")
        return Exit.FAILED
    return _report(out, copied)


def _move(
    out: Output,
    source: Store,
    destination: Store,
    queues: list[str],
    *,
    history: bool,
    resume: bool,
    wait: float,
    settle: float,
) -> list[Copied]:
    sizes = {} if history else source.stats(queues, ["states"])
    totals = {queue: _queued(sizes[queue].states) if sizes else None for queue in queues}
    with out.progress() as progress:
        transfer = Transfer(source, destination, queues, history=history, resume=resume, wait=wait, settle=settle)
        try:
            return transfer.run(Bars(out, progress, totals))
        except KeyboardInterrupt:
            out.say("stopped: queues may be paused in both stores; run the same command again to continue")
            raise


def _names(store: Store) -> list[str]:
    return [settings.name for settings in store.queues()]


def _distinct(names: Sequence[str]) -> list[str]:
    for name in names:
        checked_name(name, "a queue")
        if names.count(name) > 1:
            raise InvalidInput(f"queue {name!r} is given twice; give it once")
    return list(names)


@contextmanager
def _opened(url: str, role: str, *, exists: bool = False) -> Iterator[Store]:
    """Open a store that has its schema. `exists`: a SQLite file must exist."""
    app = Stanchion(url)
    if exists:
        refuse_missing_file(app)
    try:
        store = app.store
        if not store.capabilities.processes:
            raise InvalidInput(f"{role}, {url}, lives in one process, so there is nothing to copy; name a database")
        yield store
    except SchemaMismatch as error:
        raise SchemaMismatch(f"{role}: {str(error).replace('--url ...', f'--url {shown_url(url)}')}") from error
    finally:
        app.close()


class Bars(Watcher):
    """Shows the progress of a copy or a move: a bar for each queue."""

    def __init__(
        self, out: Output, progress: Progress, totals: Mapping[str, int | None], doing: str = "copying"
    ) -> None:
        self._out, self._progress, self._doing = out, progress, doing
        width = max(map(len, totals))
        self._tasks = {
            queue: progress.add_task(queue.ljust(width), total=total, note="") for queue, total in totals.items()
        }
        self._reported = 0

    def standing_by(self, rival: WorkerRow) -> None:
        """Report it once."""
        if not self._reported:
            self._out.say(
                f"process {rival.pid} on {rival.host} is {self._doing} these queues too, or has just stopped; "
                f"waiting for it"
            )
        self._reported = -1

    def settling(self, seconds: float) -> None:
        """Report it."""
        self._out.say(f"paused; calls in progress get {seconds:g} s to end")

    def jobs_moved(self, queue: str, jobs: int) -> None:
        """Advance the bar."""
        self._progress.advance(self._tasks[queue], jobs)

    def waiting(self, running: int, seconds: float) -> None:
        """Report it whenever the number has changed."""
        if running != self._reported:
            self._out.say(f"{_jobs(running)} still running in the source; waiting up to {seconds:.0f} s")
        self._reported = running


def _queued(sizes: Sizes) -> int:
    return sizes.total - sizes.running


def _report(out: Output, copied: Sequence[Copied]) -> Exit:
    if out.as_json:
        out.json_list(asdict(one) for one in copied)
    else:
        out.table(_COLUMNS, [_row(one) for one in copied])
    for one in copied:
        for job in one.refused[:_COMPLAINTS_MAX]:
            out.say(f"job {job} stays in the source: a live job of {one.queue} in the destination has its key")
        for job, reason in islice(one.unfit.items(), _COMPLAINTS_MAX):
            out.say(f"job {job} of {one.queue} stays in the source: {reason}")
        if one.of_flows:
            out.say(
                f"{one.of_flows:,} jobs of {one.queue} belong to flows and stay in the source; let workers finish "
                f"them there, or cancel the flows"
            )
    if running := sum(one.running for one in copied):
        out.say(
            f"{_jobs(running)} still running in the source, and their queues paused in both stores; "
            f"run the same command again once they have ended"
        )
        return Exit.UNFINISHED
    return Exit.FAILED if any(one.refused or one.unfit or one.of_flows for one in copied) else Exit.OK


def _row(one: Copied) -> list[Cell]:
    return [
        one.queue,
        count_cell(one.live, "green"),
        count_cell(one.history, "green"),
        count_cell(len(one.refused), "bold red"),
        count_cell(one.running, STATE_STYLES[JobState.RUNNING]),
        Text("resumed", "green") if one.resumed else Text("paused", "yellow"),
    ]


def _jobs(count: int) -> str:
    return "1 job is" if count == 1 else f"{count:,} jobs are"
