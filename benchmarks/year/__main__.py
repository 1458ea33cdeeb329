"""The command: ``python -m benchmarks.year [--times 30] [--postgres URL] [--keep FOLDER]``.

Writes a year of flights from New York, `--times` times, as jobs of a PostgreSQL server of its own, and takes them
through three streams of Spark into an archive with a report. Prints the wall time and the rate of each step, and the
peak of the memory of all processes. Exit code 1: a step had other rows than it should.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.databases.postgres import server
from benchmarks.spark.engine import started
from benchmarks.year.memory import peak
from benchmarks.year.steps import Year
from stanchion import Stanchion

console = Console()


def main(
    times: Annotated[int, typer.Option(min=1, help="How often the year is written: 336,776 flights each time.")] = 30,
    postgres: Annotated[str | None, typer.Option(help="A server to use, as a superuser, not one of its own.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Where the archive and the report stay.")] = None,
) -> None:
    """Take many years of flights through three streams into an archive with a report."""
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stanchion-year-")))
        folder.mkdir(parents=True, exist_ok=True)
        seen = stack.enter_context(peak())
        place = stack.enter_context(stack.enter_context(server(postgres)).fresh())
        app = stack.enter_context(closing(Stanchion(place.url)))
        app.setup()
        year = Year(stack.enter_context(started(None)), app, folder, times)
        wrong = _run(year)
        console.print(f"peak of memory, Spark, Python and PostgreSQL together: {seen.bytes / 2**30:.1f} GiB")
        if keep is not None:
            console.print(f"the report is {folder / 'report.html'}")
    sys.exit(1 if wrong else 0)


def _run(year: Year) -> bool:
    """Run all steps, and print what each took; return whether one had other rows than it should."""
    table, wrong = Table("step", "rows", "seconds", "rows/s"), False
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        for what, rows, step in year.steps():
            task = progress.add_task(what, total=rows)
            began = time.perf_counter()
            done = step(lambda count, task=task: progress.update(task, completed=count))  # type: ignore[misc]
            seconds = time.perf_counter() - began
            progress.update(task, completed=done)
            progress.print(f"{what}: {seconds:,.1f} s")
            table.add_row(what, f"{done:,}", f"{seconds:,.1f}", f"{done / seconds:,.0f}")
            if done != rows:
                wrong = True
                console.print(f"[red]{what}: {done:,} rows instead of {rows:,}[/]")
    console.print(table)
    return wrong


if __name__ == "__main__":
    typer.run(main)
