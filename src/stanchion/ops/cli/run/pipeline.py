"""stanchion pipeline."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from stanchion.core.durations import duration
from stanchion.core.times import moment
from stanchion.errors import InvalidInput, MissingExtra, StanchionError
from stanchion.jobs.job import JobState
from stanchion.ops.cli.console.drawing import GraphFormat, checked_format, print_graph
from stanchion.ops.cli.console.given import optional_duration
from stanchion.ops.cli.console.human import age, one_line, rate
from stanchion.ops.cli.console.output import STATE_STYLES, Cell, Column, count_cell, fitted
from stanchion.ops.cli.console.root import RUN, cli
from stanchion.ops.cli.console.session import Exit, Session, command, load_pipeline
from stanchion.ops.cli.look.top import keys
from stanchion.ops.cli.run.options import LogFormat, LogLevel, refuse_level
from stanchion.pipelines import Pipeline, PipelineStatus, StationStatus

pipeline_cli = typer.Typer(help="Run a pipeline of stations; watch, draw, pause and resume it.")
cli.add_typer(pipeline_cli, name="pipeline", rich_help_panel=RUN, no_args_is_help=True)

Target = Annotated[str, typer.Argument(metavar="MODULE:PIPELINE", help="Your pipeline, such as etl:etl.")]
Stations = Annotated[list[str] | None, typer.Argument(metavar="STATION...", help="Stations; by default all.")]

_SHORTEST = 0.1
_COLUMNS = [
    Column("STATION", shrinks=True),
    Column("DEPTH", right=True),
    Column("RUNNING", right=True, from_width=90),
    Column("DELAYED", right=True, from_width=100),
    Column("WAITING", right=True, from_width=110),
    Column("IN", right=True),
    Column("OUT", right=True),
    Column("DROPPED", right=True, from_width=75),
    Column("RETRIED", right=True, from_width=75),
    Column("DEAD", right=True),
    Column("RATE/S", right=True),
    Column("OLDEST", right=True),
    Column(""),
]


@command(pipeline_cli, "run", makes_store=True)
def run(
    session: Session,
    target: Target,
    engine: Annotated[
        str, typer.Option(help="workers, or spark: each station as a stream of micro-batches.")
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
    """Run the stations of a pipeline until SIGTERM or Ctrl-C; a second one stops at once.

    stanchion pipeline run etl:etl --threads 16 --processes 2
    """
    refuse_level(log_level)
    pipeline = named_pipeline(session, target)
    if engine not in _ENGINES:
        raise InvalidInput(f"--engine must be {' or '.join(_ENGINES)}, not {engine!r}")
    if until_empty and available_now:
        raise InvalidInput("give --until-empty or --available-now, not both")
    if engine == "spark":
        return _run_on_spark(pipeline, until_empty=until_empty, available_now=available_now)
    pipeline.check_worked(pipeline.queues)
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
    seconds = duration(interval, "--interval")
    if seconds < _SHORTEST:
        raise InvalidInput(f"--interval must be at least {_SHORTEST:g} s, not {interval!r}")
    pipeline, out = named_pipeline(session, target), session.out
    pipeline.check()
    if out.console.is_terminal and not once and not out.as_json:
        _live(session, pipeline, seconds)
        return
    before = pipeline.status()
    time.sleep(seconds)
    found = pipeline.status(before)
    if out.as_json:
        out.json(found.as_json())
    else:
        out.table(_COLUMNS, _rows(found))
        if found.dead_letters:
            out.say(f"{found.dead_letters:,} dead letters: stanchion jobs --queue {pipeline.dead_letters.name}")


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
    pipeline.check()
    if svg and svg != "-":
        Path(svg).write_text(pipeline.svg())
        session.out.say(f"drew {len(pipeline.stations)} stations in {svg}")
    elif session.out.as_json:
        links = [{"station": name, "to": one.to} for name, one in pipeline.stations.items()]
        session.out.json({"pipeline": pipeline.name, "entries": pipeline.entries, "stations": links})
    else:
        print_graph(pipeline.graph("svg" if svg else asked))


@command(pipeline_cli, "pause")
def pause(session: Session, target: Target, stations: Stations = None) -> None:
    """Pause stations, in every process; items still come in, running ones finish."""
    _set_paused(session, target, stations or [], paused=True)


@command(pipeline_cli, "resume")
def resume(session: Session, target: Target, stations: Stations = None) -> None:
    """Resume paused stations."""
    _set_paused(session, target, stations or [], paused=False)


_ENGINES = ("workers", "spark")


def named_pipeline(session: Session, target: str) -> Pipeline:
    """Return the pipeline of `module:pipeline`; --url is for an app without a store of its own."""
    if session.url is not None:
        os.environ["STANCHION_URL"] = session.url
    pipeline = load_pipeline(target)
    if session.url is not None and pipeline.context.url != session.url:
        raise InvalidInput(f"the app of {target} names its own store; leave --url out")
    return pipeline


def _run_on_spark(pipeline: Pipeline, *, until_empty: bool, available_now: bool) -> Exit:
    if until_empty:
        raise InvalidInput("--until-empty is for workers; on Spark, --available-now stops once no item is due")
    try:
        from stanchion.spark.stations import engine as stations
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("pyspark"):
            raise
        raise MissingExtra("spark", "a pipeline on Spark") from None
    stations.run(pipeline, available_now=available_now)
    return Exit.OK


def _set_paused(session: Session, target: str, names: list[str], *, paused: bool) -> None:
    pipeline = named_pipeline(session, target)
    change = pipeline.pause if paused else pipeline.resume
    stations = names or list(pipeline.stations)
    for name in stations:
        session.audit("pause" if paused else "resume", f"{pipeline.name}.{name}", store=pipeline.context.store)
    change(*names)
    session.out.done(
        f"{'paused' if paused else 'resumed'}: {', '.join(stations)}",
        [{"station": name, "paused": paused} for name in stations],
    )


def _live(session: Session, pipeline: Pipeline, seconds: float) -> None:
    """Draw full screen until q is pressed; if the store is unavailable, show that and keep trying."""
    from rich.live import Live

    console = session.out.console
    latest, trouble = pipeline.status(), ""
    with Live(console=console, screen=True, auto_refresh=False) as screen, keys() as key_within:
        while True:
            screen.update(_frame(latest, console.size.width, trouble), refresh=True)
            if key_within(seconds) in ("q", "Q", "\x1b"):
                return
            try:
                latest, trouble = pipeline.status(latest), ""
            except StanchionError as error:
                trouble = str(error)


def _frame(found: PipelineStatus, width: int, trouble: str) -> RenderableType:
    heading = Text.assemble((found.pipeline, "bold"), (f"  {moment(found.at):%H:%M:%S} UTC", "bright_black"))
    letters = Text(f"\n{found.dead_letters:,} dead letters", STATE_STYLES[JobState.DEAD] if found.dead_letters else "")
    parts = [heading, Text(), fitted(_COLUMNS, _rows(found), width), letters]
    if trouble:
        parts.append(Text(one_line(trouble), "bold red"))
    return Group(*parts)


def _rows(found: PipelineStatus) -> list[list[Cell]]:
    return [_row(station) for station in found.stations]


def _row(station: StationStatus) -> list[Cell]:
    depth = station.depth
    return [
        station.station,
        count_cell(depth.total, STATE_STYLES[JobState.READY]),
        count_cell(depth.running, STATE_STYLES[JobState.RUNNING]),
        count_cell(depth.scheduled, STATE_STYLES[JobState.SCHEDULED]),
        count_cell(depth.waiting, STATE_STYLES[JobState.WAITING]),
        count_cell(station.came),
        count_cell(station.out, STATE_STYLES[JobState.DONE]),
        count_cell(station.dropped),
        count_cell(station.retried, "yellow"),
        count_cell(station.dead, STATE_STYLES[JobState.DEAD]),
        Text(rate(station.rate), "green" if station.rate else "bright_black"),
        age(station.oldest) if station.oldest else "",
        Text("paused", "yellow") if station.paused else "",
    ]
