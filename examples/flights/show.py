"""The demonstration as seen: progress while it runs, tables at its end."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from rich.text import Text

from flights.bars import Bars
from flights.engine import SPARK, WORKERS, started, write_page
from flights.in_chunks import InChunks, queues_of_chunks
from flights.pipeline import Pipeline, Queues
from flights.report import Line, Report, report
from flights.source import TABLES, are_real, carriers, flights
from flights.summary import Tally, summarise
from stanchion.app import Stanchion
from stanchion.errors import SchemaMismatch
from stanchion.ops.cli.console.human import age, duration, rate
from stanchion.ops.cli.console.output import Cell, Column, Output, count_cell
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


def run(url: str | None, everything: bool, out: Output, *, keep: bool = False, engine: str | None = None) -> bool:
    """Bring the flights of January, or of the whole year, through the queues of a store; tell what came of it.

    No `url`: a SQLite file in a new temporary folder, which stays. In a store that is named, the queues have names
    of their own and are deleted at the end, unless it is to `keep` them. `engine`: "spark" or "workers"; left out,
    Spark where it is installed. False when the counts do not agree.
    """
    total = sum(1 for _ in flights(everything))
    visiting = url is not None
    folder = Path(tempfile.mkdtemp(prefix="stanchion-demo-"))
    url = url or f"sqlite:///{folder / 'flights.db'}"
    app = Stanchion(url)
    shown = shown_url(url)
    queues = Queues.of(f"demo-{token_hex(3)}" if visiting else "demo")
    keep = keep or not visiting
    names = [*queues, *queues_of_chunks(queues.prefix)]
    what = f"{'' if are_real() else 'made-up '}flights that left New York in {'2013' if everything else 'January 2013'}"
    page = folder / "report.html"
    try:
        if not out.as_json:
            out.line(f"{total:,} {what}, through")
            out.line(shown)
            if not are_real():
                out.line("pip install 'stanchion[demo]' brings the real ones, and Spark to enrich them")
            if visiting:
                out.line(f"in queues of their own, {', '.join(names)}, {'kept' if keep else 'deleted'} at the end")
        if set_up(app):
            out.say("the store was empty: made what it needs, as `stanchion setup` does; that stays")
        spark = started(engine, url, folder, out)
        pipeline, in_chunks = Pipeline(app, queues, spark), InChunks(app, queues.prefix)
        try:
            with out.progress() as progress, expecting_failures():
                bars = Bars(progress, pipeline, total)
                pipeline.run(flights(everything), bars.update)
                summary = summarise(app.queue(queues.enriched), carriers(), bars.summed)
                bars.chunking()
                chunked = in_chunks.run(flights(everything))
                bars.reporting()
                write_page(app, queues, f"{total:,} {what}", page)
            result = report(app, pipeline, summary, chunked)
        finally:
            if not keep:
                pipeline.delete_queues()
                in_chunks.delete_queues()
    finally:
        app.close()
        if not any(folder.iterdir()):
            folder.rmdir()
    if out.as_json:
        made = {"engine": WORKERS if spark is None else SPARK, "page": str(page)}
        out.json({"store": shown, **made, "queues": queues if keep else [], **result.as_json()})
    else:
        show(result, out)
        if keep:
            to_look_at(queues.dead, names if visiting else [], shown, out)
        out.line("")
        out.line("The report page, to be opened in a browser:")
        out.line(str(page))
    return result.ok


def set_up(app: Stanchion) -> bool:
    """Make the schema where there is none; True when it was made. One of another release is left as it is."""
    try:
        app.store.now()
    except SchemaMismatch as error:
        if "has no Stanchion" not in str(error):
            raise
        app.setup()
        return True
    return False


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


def show(result: Report, out: Output) -> None:
    """Print the tables and the checks."""
    out.line("")
    out.table(_STATIONS, [_station(line) for line in result.stations])
    out.line("")
    by_size = sorted(result.summary.carriers.items(), key=lambda item: -item[1].flights)
    out.table(_CARRIERS, [_carrier(code, tally) for code, tally in [*by_size, ("", result.summary.total)]])
    out.line("")
    total, joined = result.summary.total, result.summary.joined
    out.line("Minutes are means over the flights that left, and that arrived.")
    out.line(_rates(result))
    out.line("Joined: " + ", ".join(f"{name} {joined[name] / total.flights:.1%}" for name in TABLES))
    for check in result.checks:
        out.show(Text.assemble(("✓ ", "green") if check.ok else ("✗ ", "bold red"), str(check)))
    out.line(f"{'Nothing is lost' if result.ok else 'The counts do not agree'}, after {age(result.seconds)}.")
    out.line("To work without a connection to the database: `stanchion manager` and grpc://, see docs/manager.md.")


def _rates(result: Report) -> str:
    """Return how fast the flights were, one by one and in chunks."""
    alone = f"{rate(result.per_second)}/s one by one"
    if (chunked := result.chunked) is None:
        return f"Flights: {alone}; pip install 'stanchion[chunks]' shows them in chunks too"
    times = chunked.per_second / result.per_second
    return f"Flights: {alone}; {rate(chunked.per_second)}/s in chunks of {chunked.size:,}, {times:,.0f} times as many."


def to_look_at(dead: str, to_delete: Sequence[str], store: str, out: Output) -> None:
    """Print what there is to look at, and how to delete the queues that are not in a file of their own."""
    out.line("")
    out.line("To see the dead letters:")
    out.line(f"stanchion jobs --queue {dead} --url {store}")
    if to_delete:
        out.line("To delete the queues:")
        for queue in to_delete:
            out.line(f"stanchion queues delete {queue} --yes --url {store}")


def _station(line: Line) -> list[Cell]:
    return [
        line.station,
        line.route,
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
