"""stanchion push."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from stanchion.core.times import moment as moment_of
from stanchion.errors import InvalidInput
from stanchion.jobs.handle import JobHandle
from stanchion.jobs.job import Job, JobState
from stanchion.jobs.options import PushOptions
from stanchion.ops.cli.console.given import (
    SHELL_QUOTES,
    json_value,
    loose_value,
    pairs,
)
from stanchion.ops.cli.console.human import until
from stanchion.ops.cli.console.root import OPERATE, cli
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.cli.operate.lines import push_lines
from stanchion.ops.cli.operate.push_options import PARAMETERS, push_options
from stanchion.ops.cli.operate.target import Calls, Payloads
from stanchion.ops.job_json import job_json

QueueName = Annotated[str | None, typer.Argument(metavar="QUEUE", help="The queue.")]
PayloadText = Annotated[str | None, typer.Argument(metavar="JSON", help="The payload.")]
TaskName = Annotated[str | None, typer.Option("--task", "-t", help="Enqueue a call of this task.")]
Args = Annotated[
    list[str] | None,
    typer.Option("--arg", "-a", metavar="VALUE", help="An argument of the task, JSON or plain text; repeat for more."),
]
Kwargs = Annotated[
    list[str] | None, typer.Option("--kwarg", "-k", metavar="NAME=VALUE", help="A keyword argument of the task.")
]
File = Annotated[
    str | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="Push a job for each line of JSON in a file, or in stdin for `-`; with --task, a line is an array "
        "of arguments or an object of keyword arguments.",
    ),
]


@command(cli, "push", panel=OPERATE, makes_store=True, options=PARAMETERS)
def push(
    session: Session,
    /,
    queue: QueueName = None,
    payload: PayloadText = None,
    task: TaskName = None,
    arg: Args = None,
    kwarg: Kwargs = None,
    file: File = None,
    **given: object,
) -> Exit | None:
    """Enqueue a job, or one for each line of a file.

    stanchion push orders '{"id": 1}' --delay 5m

    stanchion push --app shop:app --task shop.welcome --arg 42

    stanchion push orders --file orders.jsonl
    """
    app = session.app
    options = push_options(given)
    if file is not None:
        if payload is not None or arg or kwarg:
            raise InvalidInput("give --file, or the payload or arguments of one job, not both")
        if "key" in options:
            raise InvalidInput("--key would make all lines of the file duplicates of one job; leave it out")
        return push_lines(
            session, Calls.of(app, task, queue, options) if task else Payloads.of(app, queue, options), file
        )
    made = _pushed(session, task, queue, options, payload, arg or (), kwarg or ())
    _report(session, made)
    return None


def _pushed(
    session: Session,
    task: str | None,
    queue: str | None,
    options: PushOptions,
    payload: str | None,
    args: Sequence[str],
    kwargs: Sequence[str],
) -> Job | JobHandle:
    """Push a job with a payload, or a call of a task."""
    if task:
        if payload is not None:
            raise InvalidInput("a task takes --arg and --kwarg, not a payload")
        calls = Calls.of(session.app, task, queue, options)
        positional = [loose_value(value) for value in args]
        named = {name: loose_value(value) for name, value in pairs(kwargs, "--kwarg").items()}
        calls.check(positional, named)
        session.audit("push", calls.place, 1, task)
        return calls.push_call(positional, named)
    if args or kwargs:
        raise InvalidInput("--arg and --kwarg are for a task: name it with --task")
    if payload is None:
        raise InvalidInput("nothing to push: give a JSON payload, --task NAME, or --file FILE (`-` for stdin)")
    queued = Payloads.of(session.app, queue, options)
    item = queued.item(json_value(payload, "the payload", SHELL_QUOTES))
    session.audit("push", queued.place, 1)
    return queued.push([item])[0]


def _report(session: Session, made: Job | JobHandle) -> None:
    """Print the job as JSON; or print its id to stdout, for scripts, and a remark to stderr."""
    job = session.app.get(made.id)
    out = session.out
    if out.as_json:
        out.json({**(job_json(job) if job else {"id": made.id}), "duplicate": made.duplicate})
        return
    out.line(made.id)
    if made.duplicate:
        out.say("a live job already has this key: this is its id")
    elif job and job.state is JobState.SCHEDULED:
        now = moment_of(session.app.store.now())
        out.say(f"scheduled in {job.queue}, due {until((job.run_at - now).total_seconds())}")
    elif job:
        out.say(f"{job.state} in {job.queue}")
