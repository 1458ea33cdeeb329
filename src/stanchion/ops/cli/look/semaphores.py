"""stanchion semaphores."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from stanchion.context import context_of
from stanchion.context.declarations.semaphores import checked_capacity
from stanchion.core.checks import whole
from stanchion.core.times import moment
from stanchion.errors import InvalidInput
from stanchion.jobs.job import Job, JobState
from stanchion.jobs.search import MAX_PAGE
from stanchion.ops.cli.console.human import age
from stanchion.ops.cli.console.output import STATE_STYLES, Cell, Column, count_cell, state_cell
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.selection import ROWS, Rows
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.naming import job_names
from stanchion.ops.reads.semaphores import read_line, read_semaphores
from stanchion.queues.semaphore import Semaphore
from stanchion.stores.records.queues import SemaphoreRow


class _NameIsShow(TyperGroup):
    """Takes `semaphores NAME` for `semaphores show NAME`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])


semaphores_cli = typer.Typer(cls=_NameIsShow, help="List semaphores; show holders and waiting jobs; resize them.")
cli.add_typer(semaphores_cli, name="semaphores", rich_help_panel=LOOK)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The semaphore.")]

_COLUMNS = [
    Column("SEMAPHORE", shrinks=True, keeps_ends=True),
    Column("CAPACITY", right=True),
    Column("HELD", right=True),
    Column("WAITING", right=True),
]

_JOB_COLUMNS = [
    Column("", right=True),
    Column("ID", short=13),
    Column("QUEUE", shrinks=True, keeps_ends=True),
    Column("TASK", shrinks=True, keeps_end=True, from_width=1),
    Column("STATE"),
    Column("AGE", right=True),
]


@command(semaphores_cli, group=True)
def semaphores(session: Session, limit: Rows = ROWS) -> Exit:
    """List semaphores; show holders and waiting jobs; resize them."""
    found, out = read_semaphores(context_of(session.app).store_semaphores()), session.out
    if out.as_json:
        out.json_list(row._asdict() for row in found)
    elif found:
        out.first(_COLUMNS, [_row(row) for row in found], limit)
    else:
        out.say("no semaphores: app.semaphore(name, capacity=...) in the code creates one at its first use")
    return Exit.OK if found else Exit.FAILED


@command(semaphores_cli, "show")
def show(
    session: Session,
    name: Name,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of holders, and of waiting jobs.")] = 20,
) -> None:
    """List the holders of a semaphore, then its waiters in order."""
    semaphore, out = _known(session, name), session.out
    store, now = context_of(session.app).fresh_store, session.app.store.now()
    usage = semaphore.usage()
    holders, waiting = read_line(context_of(session.app), store, name, now, whole(limit, "--limit", 1, MAX_PAGE))
    if out.as_json:
        out.json({**usage._asdict(), "holders": list(map(_brief, holders)), "waiters": list(map(_brief, waiting))})
        return
    out.line(f"{name}: {usage.held:,} of {usage.capacity:,} held, {usage.waiting:,} waiting")
    if holders or waiting:
        names = job_names(context_of(session.app), store, [*holders, *waiting], now)
        rows = [_job_row("holds", job, names[job.id], moment(now)) for job in holders]
        rows += [_job_row(str(position), job, names[job.id], moment(now)) for position, job in enumerate(waiting, 1)]
        out.table(_JOB_COLUMNS, rows)


@command(semaphores_cli, "resize")
def resize(
    session: Session,
    name: Name,
    capacity: Annotated[int, typer.Argument(metavar="N", help="Maximum number of concurrent holders; 0 closes it.")],
    new: Annotated[bool, typer.Option("--new", help="Create it if it does not exist.")] = False,
) -> None:
    """Change a semaphore's capacity. More wakes waiters immediately; with less, current holders finish."""
    semaphore, checked = session.app.semaphore(name) if new else _known(session, name), checked_capacity(capacity)
    session.audit("resize semaphore", name, note=f"→ {capacity}")
    if new:
        session.app.store.set_semaphore(semaphore.name, checked)
    else:
        semaphore.resize(checked)
    session.out.done(f"{name}: capacity {capacity:,}", {"name": name, "capacity": capacity})


@command(semaphores_cli, "reset")
def reset(session: Session, name: Name) -> None:
    """Reset a semaphore's capacity to the value declared in code."""
    known = _known(session, name)
    session.audit("reset semaphore", name)
    capacity = known.reset()
    session.out.done(f"{name}: capacity {capacity:,}", {"name": name, "capacity": capacity})


def _known(session: Session, name: str) -> Semaphore:
    """Return an existing semaphore. Raises InvalidInput for an unknown name."""
    known = [semaphore.name for semaphore in session.app.semaphores()]
    if name not in known:
        raise InvalidInput(
            f"no semaphore {name!r} (known: {', '.join(known) or 'none'}); `stanchion semaphores resize --new "
            f"{name} N` creates one"
        )
    return session.app.semaphore(name)


def _row(row: SemaphoreRow) -> list[Cell]:
    return [
        row.name,
        f"{row.capacity:,}",
        count_cell(row.held, STATE_STYLES[JobState.RUNNING]),
        count_cell(row.waiting, STATE_STYLES[JobState.WAITING]),
    ]


def _job_row(position: str, job: Job, name: str, now: datetime) -> list[Cell]:
    enqueued = age((now - job.enqueued_at).total_seconds())
    return [position, job.id, job.queue, name, state_cell(job.state), enqueued]


def _brief(job: Job) -> dict[str, object]:
    return {"id": job.id, "queue": job.queue, "task": job.task, "state": str(job.state)}
