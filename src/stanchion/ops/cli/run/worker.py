"""stanchion worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.core import environment
from stanchion.core.text.durations import duration
from stanchion.errors import InvalidInput, StanchionError
from stanchion.ops.cli.console.given import names, optional_duration
from stanchion.ops.cli.console.root import RUN, cli
from stanchion.ops.cli.console.session import Exit, Session, command, load_app
from stanchion.ops.cli.run.options import (
    HealthHost,
    HealthPort,
    LogFormat,
    LogLevel,
    Metrics,
    StoreMetrics,
    refuse_level,
)

Target = Annotated[str | None, typer.Argument(metavar="MODULE:APP", help="Your app; its module registers the tasks.")]
Queues = Annotated[
    list[str] | None,
    typer.Option(
        "--queues",
        "-q",
        metavar="A,B",
        help="Only these queues, or patterns such as 'mail.*'; default: the queues of all tasks.",
    ),
]
Threads = Annotated[int, typer.Option(help="Concurrent jobs per process.")]
Processes = Annotated[int, typer.Option(help="Processes, each with its threads.")]
Grace = Annotated[str, typer.Option(help="Time for running jobs to finish after SIGTERM or Ctrl-C.")]
HeartbeatEvery = Annotated[
    str, typer.Option(help="Time between heartbeats; after three missed ones, others take its jobs.")
]
Poll = Annotated[str | None, typer.Option(help="Time between polls of all workers together; by default the app's.")]
UntilEmpty = Annotated[bool, typer.Option("--until-empty", help="Stop once no job is due or running.")]
HealthFile = Annotated[str | None, typer.Option(metavar="FILE", help="Keep a line in this file: ok or red, and why.")]
Name = Annotated[
    str | None, typer.Option(help="How the workers' ids begin, in lists and in jobs; by default the host's name.")
]
Timeout = Annotated[
    str | None, typer.Option(help="Time that an attempt may run, if its job, task, queue and app set none.")
]
Stall = Annotated[
    str,
    typer.Option(help="How long jobs without a time-out are kept while a task that holds the GIL stops all threads."),
]
Lanes = Annotated[
    list[str] | None,
    typer.Option(metavar="QUEUE=A-B", help="Only these lanes of a queue, such as orders=0-15; repeat for more."),
]
Imports = Annotated[
    list[str] | None,
    typer.Option("--import", metavar="MODULE", help="Also import this module or package of tasks; repeat for more."),
]
Reload = Annotated[
    bool,
    typer.Option("--reload", help="For development: restart when a Python file of this folder changes."),
]
OrderOfQueues = Annotated[
    str,
    typer.Option(help="Which queue goes first: priority (the best job of all), strict (as named), fair (in turn)."),
]


@command(cli, "worker", panel=RUN, makes_store=True)
def worker(
    session: Session,
    target: Target = None,
    queues: Queues = None,
    threads: Threads = 8,
    processes: Processes = 1,
    grace: Grace = "30s",
    heartbeat: HeartbeatEvery = "10s",
    poll: Poll = None,
    until_empty: UntilEmpty = False,
    health_file: HealthFile = None,
    health_port: HealthPort = None,
    health_host: HealthHost = "127.0.0.1",
    name: Name = None,
    timeout: Timeout = None,
    stall: Stall = "5m",
    lanes: Lanes = None,
    order: OrderOfQueues = "priority",
    imports: Imports = None,
    reload: Reload = False,
    metrics: Metrics = False,
    store_metrics: StoreMetrics = False,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> Exit:
    """Run jobs until SIGTERM or Ctrl-C; a second signal stops the worker immediately.

    stanchion worker shop.jobs:app --queues mail,orders --threads 16
    """
    path = target or session.app_path
    if path is None:
        raise InvalidInput("which app? name it as module:app, such as stanchion worker shop.jobs:app")
    refuse_level(log_level)
    modules = names(imports) or ()
    if reload:
        return _reloading(duration(grace, "--grace"), log_level, log_format)
    app = _check_app(path, session.url, modules)
    from stanchion.service.process import run_worker_process
    from stanchion.service.settings import WorkerSettings
    from stanchion.worker.claiming.order import checked_order

    wanted = names(queues)
    _tell_unknown(session, app, wanted or ())
    settings = WorkerSettings(
        *(path, wanted, threads, until_empty, duration(grace, "--grace"), duration(heartbeat, "--heartbeat")),
        *(optional_duration(poll, "--poll"), health_file, health_port, health_host, log_level, log_format),
        name=name,
        timeout=optional_duration(timeout, "--timeout"),
        stall=duration(stall, "--stall"),
        lanes=tuple(lanes or ()),
        order=checked_order(order),
        metrics=metrics or store_metrics,
        store_metrics=store_metrics,
        imports=modules,
    )
    return Exit(run_worker_process(settings, processes))


def _tell_unknown(session: Session, app: Stanchion, queues: Iterable[str]) -> None:
    """Say which of these queues neither the code nor the store has; nothing if the store does not answer."""
    in_code = {*context_of(app).registry.own_queues(), *context_of(app).declared}
    asked = {name for name in queues if "*" not in name and name not in in_code}
    if not asked:
        return
    with suppress(StanchionError):
        known = {settings.name for settings in context_of(app).fresh_store.queues(sorted(asked))}
        for name in sorted(asked - known):
            session.out.say(f"there is no queue {name!r} yet: the worker waits for its first job")


def _reloading(grace: float, log_level: str, log_format: str) -> Exit:
    """Run this command again and again, without --reload, as files change."""
    from stanchion.service.logs import log_to_stderr
    from stanchion.service.reloading import Reloader, command_again

    log_to_stderr(log_level, log_format)
    code = Reloader(command_again(sys.argv[1:], "--reload"), Path.cwd(), grace).run()
    return Exit.OK if code == Exit.OK else Exit.FAILED


def _check_app(path: str, url: str | None, imports: Sequence[str]) -> Stanchion:
    """Return the app; refuse an unusable one before any process starts. `url` is for an app without its own store."""
    if url is not None:
        os.environ[environment.URL] = url
    app = load_app(path, imports)
    named = app.url
    if url is not None and named != url:
        raise InvalidInput(f"{path} names its own store; leave --url out")
    if not app.tasks and not context_of(app).registry.stations:
        raise InvalidInput(
            f"{path} has no tasks and no stations, so a worker could run nothing; register functions with @app.task, "
            f"and name the modules that define them: app.include('shop.tasks'), or --import shop.tasks"
        )
    return app
