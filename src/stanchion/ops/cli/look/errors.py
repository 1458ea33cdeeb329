"""stanchion errors."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from stanchion.context import context_of
from stanchion.core.checks import checked_name
from stanchion.core.text.redaction import redacted
from stanchion.core.times import iso, moment
from stanchion.jobs.job import JobState
from stanchion.ops.cli.console.human import age, one_line
from stanchion.ops.cli.console.output import STATE_STYLES, Cell, Column, count_cell
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.selection import Queue, TaskName, tell_unknown
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.reads.errors import Errors, Group, hidden, read_errors
from stanchion.ops.reads.filters import JobFilter

_COLUMNS = [
    Column("KEY"),
    Column("ERROR", shrinks=True, keeps=48),
    Column("TASK", shrinks=True, keeps_end=True, from_width=1),
    Column("QUEUE", shrinks=True, keeps_ends=True, from_width=100),
    Column("DEAD", right=True),
    Column("FAILED", right=True),
    Column("FIRST", right=True, from_width=100),
    Column("LAST", right=True),
]


@command(cli, "errors", panel=LOOK)
def errors(
    session: Session,
    queue: Queue = None,
    task: TaskName = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of groups.")] = 20,
) -> Exit:
    """Group failures by their error and task: dead jobs, attempts that failed within the last hour.

    stanchion errors --queue payments
    """
    out, now = session.out, session.app.store.now()
    found = _read(session, queue, task, now)
    shown = found.groups[:limit]
    if out.as_json:
        out.json_list(_json(group, found, now) for group in shown)
    elif shown:
        out.table(_COLUMNS, [_row(group, now) for group in shown])
        if len(found.groups) > limit:
            out.say(f"{limit} of {len(found.groups)} groups; --limit shows more")
        again = next((group for group in shown if group.dead and group.named), None)
        if again is not None:
            out.say(f"once its cause is gone: {again.command} --dry-run")
    else:
        out.say("no job is dead, and no attempt failed")
    return Exit.OK if shown else Exit.FAILED


def _read(session: Session, queue: str | None, task: str | None, now: int) -> Errors:
    """Read as the page of errors does. Raises InvalidInput."""
    for what, name in (("queue", queue), ("task", task)):
        if name is not None:
            checked_name(name, what)
    tell_unknown(session, () if queue is None else (queue,))
    context = context_of(session.app)
    found = read_errors(context, context.fresh_store, JobFilter(queue=queue or "", task=task or ""), now)
    return hidden(found, redacted)


def _json(group: Group, found: Errors, now: int) -> dict[str, object]:
    return {
        "key": group.key,
        "error": group.error,
        "task": group.task,
        "queues": group.queues,
        "dead": group.dead,
        "dead_exact": found.whole,
        "failed": group.in_the_hour(now),
        "minutes": group.failures.in_the_hour(now),
        "tallied": found.tallied,
        "first": iso(group.first),
        "last": iso(group.last),
        "ids": group.ids,
        "command": group.command if group.named else None,
    }


def _row(group: Group, now: int) -> list[Cell]:
    failed = group.in_the_hour(now)

    def ago(at: datetime) -> str:
        return age((moment(now) - at).total_seconds())

    return [
        group.key,
        one_line(group.error),
        group.task,
        ", ".join(group.queues),
        count_cell(group.dead, STATE_STYLES[JobState.DEAD]),
        count_cell(failed, ""),
        ago(group.first),
        ago(group.last),
    ]
