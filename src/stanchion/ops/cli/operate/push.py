"""stanchion push."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, cast

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
    moment,
    names,
    optional_duration,
    pairs,
)
from stanchion.ops.cli.console.human import until
from stanchion.ops.cli.console.root import OPERATE, cli
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.cli.operate.lines import push_lines
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
Delay = Annotated[str | None, typer.Option(help="Due after this time, such as 30s or 2h.")]
RunAt = Annotated[str | None, typer.Option(help="Due at this ISO 8601 time; UTC unless it names an offset.")]
Priority = Annotated[
    str | None,
    typer.Option(
        "--priority",
        "-p",
        help="From -100 to 100, higher first; or interactive, user_visible, eventual or reporting.",
    ),
]
Tenant = Annotated[str | None, typer.Option(help="The tenant that the job belongs to.")]
Key = Annotated[str | None, typer.Option(help="Unique among the live jobs of the queue.")]
KeyTtl = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="A job that has finished within this time, such as 1h, holds its key."),
]
OnDuplicate = Annotated[
    str | None, typer.Option(help="What to do if the key is taken: return (default), raise or replace.")
]
OrderKey = Annotated[str | None, typer.Option(help="Jobs of one key run one at a time, in the order they were pushed.")]
Limits = Annotated[
    list[str] | None, typer.Option(metavar="SEMAPHORE", help="A semaphore to hold while it runs; repeat for more.")
]
Headers = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header, JSON or plain text; repeat for more.")
]
MaxAttempts = Annotated[int | None, typer.Option(help="Deliveries before the job is dead.")]
Timeout = Annotated[str | None, typer.Option(help="How long one attempt may run, such as 90s.")]


@command(cli, "push", panel=OPERATE, makes_store=True)
def push(
    session: Session,
    queue: QueueName = None,
    payload: PayloadText = None,
    task: TaskName = None,
    arg: Args = None,
    kwarg: Kwargs = None,
    file: File = None,
    delay: Delay = None,
    run_at: RunAt = None,
    priority: Priority = None,
    tenant: Tenant = None,
    key: Key = None,
    key_ttl: KeyTtl = None,
    on_duplicate: OnDuplicate = None,
    order_key: OrderKey = None,
    limits: Limits = None,
    header: Headers = None,
    max_attempts: MaxAttempts = None,
    timeout: Timeout = None,
) -> Exit | None:
    """Enqueue a job, or one for each line of a file.

    stanchion push orders '{"id": 1}' --delay 5m

    stanchion push --app shop:app --task shop.welcome --arg 42

    stanchion push orders --file orders.jsonl
    """
    app = session.app
    given = {
        "delay": optional_duration(delay, "--delay"),
        "run_at": None if run_at is None else moment(run_at, "--run-at"),
        "priority": None if priority is None else loose_value(priority),
        "tenant": tenant,
        "key": key,
        "key_ttl": optional_duration(key_ttl, "--key-ttl"),
        "on_duplicate": on_duplicate,
        "order_key": order_key,
        "limits": names(limits),
        "headers": {name: loose_value(value) for name, value in pairs(header or (), "a header").items()} or None,
        "max_attempts": max_attempts,
        "timeout": optional_duration(timeout, "--timeout"),
    }
    options = cast(PushOptions, {name: value for name, value in given.items() if value is not None})
    if file is not None:
        if payload is not None or arg or kwarg:
            raise InvalidInput("give --file, or the payload or arguments of one job, not both")
        if key is not None:
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
