"""stanchion pipeline."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from stanchion import wings
from stanchion.context import context_of
from stanchion.core import environment
from stanchion.core.text.durations import duration
from stanchion.errors import InvalidInput, MissingExtra, StanchionError
from stanchion.ops.cli.console.drawing import GraphFormat, checked_format, print_graph
from stanchion.ops.cli.console.given import optional_duration, spacing
from stanchion.ops.cli.console.output import Column
from stanchion.ops.cli.console.root import RUN, cli
from stanchion.ops.cli.console.session import Exit, Session, command, load_pipeline
from stanchion.ops.cli.live.top import keys
from stanchion.ops.cli.run.look import COLUMNS, Look
from stanchion.ops.cli.run.options import LogFormat, LogLevel, refuse_level
from stanchion.ops.cli.run.progress import shown_progress
from stanchion.ops.words import plural
from stanchion.pipelines import Edge, Pipeline
from stanchion.pipelines.pipeline import plan_of

pipeline_cli = typer.Typer(help="Run a pipeline of stations; watch, draw, pause and resume it.")
cli.add_typer(pipeline_cli, name="pipeline", rich_help_panel=RUN, no_args_is_help=True)

Target = Annotated[str, typer.Argument(metavar="MODULE:PIPELINE", help="Your pipeline, such as etl:etl.")]
PLAN = [
    Column("FROM", shrinks=True, keeps_ends=True),
    Column("TO", shrinks=True, keeps_ends=True),
    Column("ITEMS"),
    Column("WHY", shrinks=True, keeps=32),
]

_PUSHED = Text("push", "bright_black")

Stations = Annotated[list[str] | None, typer.Argument(metavar="STATION...", help="Stations; by default all.")]

_SHORTEST = 0.1


@command(pipeline_cli, "run", makes_store=True)
def run(
    session: Session,
    target: Target,
    engine: Annotated[
        str, typer.Option(help="workers, or spark: plain stations in its tasks, Spark stations as streams.")
    ] = "workers",
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Stop once no station has an item, not even a delayed one.")
    ] = False,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Stop once no item is due or running.")
    ] = False,
    threads: Annotated[int, typer.Option(help="Concurrent items per process.")] = 8,
    processes: Annotated[int, typer.Option(help="Processes, each with its threads.")] = 1,
    grace: Annotated[str, typer.Option(help="Time for running items to finish after SIGTERM or Ctrl-C.")] = "30s",
    heartbeat: Annotated[
        str, typer.Option(help="Time between heartbeats; after three missed ones, others take its items.")
    ] = "10s",
    poll: Annotated[
        str | None, typer.Option(help="Time between polls of all workers together; by default the app's.")
    ] = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> Exit:
    """Run the stations of a pipeline until SIGTERM or Ctrl-C; a second signal stops it immediately.

    stanchion pipeline run etl:etl --threads 16 --processes 2
    """
    refuse_level(log_level)
    pipeline = named_pipeline(session, target)
    if engine not in _ENGINES:
        raise InvalidInput(f"--engine must be {' or '.join(_ENGINES)}, not {engine!r}")
    if until_empty and available_now:
        raise InvalidInput("give --until-empty or --available-now, not both")
    if engine == "spark":
        times = {"heartbeat": duration(heartbeat, "--heartbeat"), "grace": duration(grace, "--grace")}
        with shown_progress(session.out, log_level, log_format) as watch:
            return _run_on_spark(pipeline, until_empty=until_empty, available_now=available_now, watch=watch, **times)
    plan_of(pipeline).check_worked(pipeline.queues)
    from stanchion.service.process import run_worker_process
    from stanchion.service.settings import WorkerSettings

    settings = WorkerSettings(
        target=target,
        queues=tuple(pipeline.queues),
        threads=threads,
        until_empty=available_now,
        until_finished=until_empty,
        grace=duration(grace, "--grace"),
        heartbeat=duration(heartbeat, "--heartbeat"),
        poll=optional_duration(poll, "--poll"),
        log_level=log_level,
        log_format=log_format,
    )
    return Exit(run_worker_process(settings, processes))


@command(pipeline_cli, "status")
def status(
    session: Session,
    target: Target,
    interval: Annotated[str, typer.Option("--interval", "-i", help="Time between updates, for the rates.")] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Print one table, even on a terminal.")] = False,
) -> None:
    """Show the depth and totals of each station; live on a terminal, q quits.

    IN: items entered so far; OUT: items that went on or finished; RATE/S: items out and dropped per second.
    """
    seconds = spacing(interval, "--interval", _SHORTEST)
    pipeline, out = named_pipeline(session, target), session.out
    plan_of(pipeline).check()
    if out.console.is_terminal and not once and not out.as_json:
        _live(session, pipeline, seconds)
        return
    look = Look(pipeline)
    look.again()
    time.sleep(seconds)
    look.again()
    if out.as_json:
        out.json(look.as_json())
    else:
        out.table(COLUMNS, look.rows())
        if look.dead_letters:
            out.say(f"{look.dead_letters:,} dead letters: stanchion jobs --queue {pipeline.dead_letters.name}")
        for line in look.unmet():
            out.say(line)


@command(pipeline_cli, "graph")
def graph(
    session: Session,
    target: Target,
    form: GraphFormat = "text",
    svg: Annotated[
        str | None, typer.Option("--svg", metavar="FILE", help="Write a picture to this file; `-` for stdout.")
    ] = None,
) -> None:
    """Check the links between the stations, and draw them."""
    asked = checked_format(form, as_json=session.out.as_json)
    if svg is not None and asked not in ("text", "svg"):
        raise InvalidInput("give --svg or --format, not both")
    pipeline = named_pipeline(session, target)
    plan_of(pipeline).check()
    if svg and svg != "-":
        Path(svg).write_text(pipeline.svg())
        session.out.say(f"drew {len(plan_of(pipeline).stations)} stations in {svg}")
    elif session.out.as_json:
        links = [{"station": name, "to": one.targets} for name, one in plan_of(pipeline).stations.items()]
        session.out.json({"pipeline": pipeline.name, "entries": plan_of(pipeline).entries, "stations": links})
    else:
        print_graph(pipeline.graph("svg" if svg else asked))


@command(pipeline_cli, "plan")
def plan(session: Session, target: Target) -> None:
    """Show where items are stored between the stations, and why; elsewhere a worker passes them in memory."""
    found, out = named_pipeline(session, target).plan(), session.out
    if out.as_json:
        out.json(found.as_json())
        return
    rows = [[edge.source or _PUSHED, edge.target, _kept(edge), "; ".join(_why(edge))] for edge in found.edges]
    rows += [[one.source or "", one.target, Text("rows"), "; ".join(one.reasons)] for one in found.tables]
    out.table(PLAN, rows)
    out.say(f"{plural(len(found.segments), 'segment')}: {'; '.join(', '.join(one) for one in found.segments)}")


def _kept(edge: Edge) -> Text:
    return Text("stored") if edge.stored else Text("in memory", "green")


def _why(edge: Edge) -> tuple[str, ...]:
    return (*edge.reasons, f"{edge.source} keeps arrivals") if edge.keeps_arrival else edge.reasons


@command(pipeline_cli, "pause")
def pause(session: Session, target: Target, stations: Stations = None) -> None:
    """Pause stations, in every process; items still come in, running ones finish."""
    _set_paused(session, target, stations or [], paused=True)


@command(pipeline_cli, "resume")
def resume(session: Session, target: Target, stations: Stations = None) -> None:
    """Resume paused stations."""
    _set_paused(session, target, stations or [], paused=False)


_ENGINES = ("workers", *wings.TABLE["engines"])


def named_pipeline(session: Session, target: str) -> Pipeline:
    """Return the pipeline of `module:pipeline`; --url is for an app without a store."""
    if session.url is not None:
        os.environ[environment.URL] = session.url
    pipeline = load_pipeline(target)
    if session.url is not None and context_of(pipeline).url != session.url:
        raise InvalidInput(f"the app of {target} names its own store; leave --url out")
    return pipeline


def _run_on_spark(pipeline: Pipeline, *, until_empty: bool, **options: object) -> Exit:
    if until_empty:
        raise InvalidInput("--until-empty is for workers; on Spark, --available-now stops once no item is due")
    try:
        stations = wings.module("engines", "spark")
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("pyspark"):
            raise
        raise MissingExtra("spark", "a pipeline on Spark") from None
    stations.run(pipeline, **options)
    return Exit.OK


def _set_paused(session: Session, target: str, names: list[str], *, paused: bool) -> None:
    pipeline = named_pipeline(session, target)
    change = pipeline.pause if paused else pipeline.resume
    stations = names or list(plan_of(pipeline).stations)
    for name in stations:
        session.audit("pause" if paused else "resume", f"{pipeline.name}.{name}", store=context_of(pipeline).store)
    change(*names)
    session.out.done(
        f"{'paused' if paused else 'resumed'}: {', '.join(stations)}",
        [{"station": name, "paused": paused} for name in stations],
    )


def _live(session: Session, pipeline: Pipeline, seconds: float) -> None:
    """Draw full screen until q is pressed; if the store is unavailable, show that and keep trying."""
    from rich.live import Live

    console = session.out.console
    look, trouble = Look(pipeline), ""
    look.again()
    with Live(console=console, screen=True, auto_refresh=False) as screen, keys() as key_within:
        while True:
            screen.update(look.frame(console.size.width, trouble), refresh=True)
            if key_within(seconds) in ("q", "Q", "\x1b"):
                return
            try:
                look.again()
                trouble = ""
            except StanchionError as error:
                trouble = str(error)
