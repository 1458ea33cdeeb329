"""The demonstration as seen: progress while it runs, tables at its end."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.text import Text

from stanchion.app import Stanchion
from stanchion.ops.cli.human import age, duration, rate
from stanchion.ops.cli.output import Cell, Column, Output, count_cell
from stanchion.ops.demo.bars import Bars
from stanchion.ops.demo.flight import JOINED
from stanchion.ops.demo.pipeline import DEAD, ENRICHED, Pipeline
from stanchion.ops.demo.report import Line, Report, report
from stanchion.ops.demo.source import flights, references
from stanchion.ops.demo.summary import Tally, summarise
from stanchion.stores.registry import shown_url

_STATIONS = [
    Column("STATION"),
    Column("FROM → TO"),
    Column("JOBS", right=True),
    Column("JOBS/S", right=True),
    Column("PICK-UP p50", right=True),
    Column("p99", right=True),
    Column("RETRIES", right=True),
    Column("DEAD", right=True),
]
_CARRIERS = [
    Column(""),
    Column("CARRIER", shrinks=True),
    Column("FLIGHTS", right=True),
    Column("CANCELLED", right=True),
    Column("DEP +MIN", right=True),
    Column("ARR +MIN", right=True),
    Column("> 1 H LATE", right=True),
]


def run(url: str | None, everything: bool, out: Output) -> bool:
    """Bring the flights of January, or of the whole year, through the queues of a store; tell what came of it.

    No `url`: a SQLite file in a new temporary folder, which stays. The queues `demo.*` of a store are made
    anew. False when the counts do not agree; MissingExtra when the flights are not installed.
    """
    known = references()
    total = sum(1 for _ in flights(everything))
    url = url or f"sqlite:///{Path(tempfile.mkdtemp(prefix='stanchion-demo-')) / 'flights.db'}"
    app = Stanchion(url)
    shown = shown_url(url)
    try:
        if not out.as_json:
            out.line(f"{total:,} flights that left New York in {'2013' if everything else 'January 2013'}, through")
            out.line(shown)
        pipeline = Pipeline(app, known)
        with out.progress() as progress, expecting_failures():
            bars = Bars(progress, pipeline, total)
            pipeline.run(flights(everything), bars.update)
            summary = summarise(app.queue(ENRICHED), known.carriers, bars.summed)
        result = report(app, pipeline, summary)
    finally:
        app.close()
    if out.as_json:
        out.json({"store": shown, **result.as_json()})
    else:
        show(result, shown, out)
    return result.ok


@contextmanager
def expecting_failures() -> Iterator[None]:
    """Keep the worker's warnings about failed attempts off the screen: here they belong to the show."""
    log = logging.getLogger("stanchion.worker")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def show(result: Report, store: str, out: Output) -> None:
    """Print the tables, the checks, and where to look next."""
    out.line("")
    out.table(_STATIONS, [_station(line) for line in result.stations])
    out.line("")
    carriers = sorted(result.summary.carriers.items(), key=lambda item: -item[1].flights)
    out.table(_CARRIERS, [_carrier(code, tally) for code, tally in [*carriers, ("", result.summary.total)]])
    out.line("")
    total, joined = result.summary.total, result.summary.joined
    out.line("Minutes are means over the flights that left, and that arrived.")
    out.line("Joined: " + ", ".join(f"{name} {joined[name] / total.flights:.1%}" for name in JOINED))
    for check in result.checks:
        out.show(Text.assemble(("✓ ", "green") if check.ok else ("✗ ", "bold red"), str(check)))
    out.line(f"{'Nothing is lost' if result.ok else 'The counts do not agree'}, after {age(result.seconds)}.")
    out.line("")
    out.line("To see the dead letters:")
    out.line(f"stanchion jobs --queue {DEAD} --url {store}")


def _station(line: Line) -> list[Cell]:
    return [
        line.station,
        line.way,
        f"{line.jobs:,}",
        rate(line.per_second),
        duration(line.pickup_p50),
        duration(line.pickup_p99),
        count_cell(line.retries, "yellow"),
        count_cell(line.dead, "bold red"),
    ]


def _carrier(code: str, tally: Tally) -> list[Cell]:
    return [
        code,
        tally.name,
        f"{tally.flights:,}",
        count_cell(tally.cancelled),
        minutes(tally.mean_dep_delay),
        minutes(tally.mean_arr_delay),
        f"{tally.late_share:.1%}",
    ]


def minutes(delay: float | None) -> str:
    """Return a mean delay; a dash where no flight had one."""
    return "-" if delay is None else f"{delay:.1f}"
