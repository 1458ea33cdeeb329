"""The command: ``python -m benchmarks.run --help``."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import report
from benchmarks.bench import Bench, Sizes
from benchmarks.contenders import LIMITED_POSTGRESQL, MARIADB, POSTGRESQL, REDIS, SQLITE
from benchmarks.groups import GROUPS, Group
from benchmarks.peers import bullmq
from benchmarks.readings import Readings
from benchmarks.rounds import BACKLOGS, SIZES_OF_CLAIMS, TENANTS
from benchmarks.spark import NAMES as WITH_SPARK
from benchmarks.spark.rounds import READS

PACKAGES = (
    *("stanchion", "sqlalchemy", "psycopg", "pymysql", "redis", "hiredis"),
    *("procrastinate", "pgqueuer", "asyncpg", "uvloop"),
    *("huey", "dramatiq", "taskiq", "taskiq-redis", "arq", "celery", "rq"),
    *("pyspark", "pyarrow", "adbc-driver-postgresql"),
)
NO_CONTENDERS = {*BACKLOGS, *TENANTS, *SIZES_OF_CLAIMS, *READS}
"""Parts of groups that measure Stanchion alone, or all contenders in turn."""

JDBC = Path("/usr/share/java/postgresql.jar")
"""Where Debian's libpostgresql-jdbc-java puts it."""


def main(
    groups: Annotated[str, typer.Option(help=f"Comma-separated: {', '.join(GROUPS)}.")] = "",
    contenders: Annotated[str, typer.Option(help="Comma-separated names; all of them when left out.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each group.")] = 5,
    singles: Annotated[int, typer.Option(min=1, help="Jobs of a single enqueue.")] = 1000,
    jobs: Annotated[int, typer.Option(min=1000, help="Jobs of a bulk enqueue and of a drain.")] = 30_000,
    samples: Annotated[int, typer.Option(min=10, help="Pick-ups of a contender, in all rounds together.")] = 300,
    committers: Annotated[int, typer.Option(min=1, help="Producers at once.")] = 50,
    commits: Annotated[int, typer.Option(min=1, help="Jobs of each of these producers.")] = 40,
    backlog: Annotated[int, typer.Option(min=10_000, help="The large backlog beside a claim.")] = 200_000,
    rows: Annotated[int, typer.Option(min=1, help="Jobs that Spark writes and reads.")] = 1_000_000,
    streamed: Annotated[int, typer.Option(min=1, help="Jobs of a Spark stream, and most of a pipeline.")] = 200_000,
    jdbc: Annotated[
        Path, typer.Option(help="The jar of PostgreSQL's JDBC driver, to compare Spark's own with.")
    ] = JDBC,
    postgres: Annotated[str | None, typer.Option(help="A server to use, as a superuser, not one of its own.")] = None,
    directory: Annotated[Path | None, typer.Option(help="Where the SQLite files go.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write all readings to this file.")] = None,
) -> None:
    """Compare Stanchion with its peers and with hand-written statements, side by side."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    chosen = [GROUPS[name] for name in _chosen(groups, GROUPS, "group")]
    everybody = {**POSTGRESQL, **SQLITE, **MARIADB, **REDIS, **LIMITED_POSTGRESQL, **dict.fromkeys(WITH_SPARK, "")}
    names = _chosen(contenders, everybody, "contender")
    if "jdbc" in names and not jdbc.exists():
        names.remove("jdbc")
        if any("jdbc" in arena.contenders for group in chosen for arena in group.arenas):
            console.print(f"Spark's JDBC is left out, as there is no {jdbc}", style="dim")
    sizes = Sizes(rounds, singles, jobs, samples, committers, commits, backlog, rows, streamed)
    facts: dict[str, Any] = {"python": platform.python_version(), "cpus": os.cpu_count()}
    readings = Readings()
    with (
        tempfile.TemporaryDirectory(prefix="stanchion-bench-", dir=directory) as scratch,
        Bench(Path(scratch), sizes, names, postgres, jdbc if "jdbc" in names else None) as bench,
    ):
        failures = _measure(console, chosen, names, bench, readings)
        facts |= _versions() | bench.facts()
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()), style="dim")
    report.show(console, readings)
    for failure in failures:
        console.print(failure, style="red", markup=False)
    if json is not None:
        report.save(json, facts, readings)
    sys.exit(1 if failures else 0)


def _measure(console: Console, groups: list[Group], names: list[str], bench: Bench, readings: Readings) -> list[str]:
    """Take the rounds of each group, part by part in turn; return what failed."""
    failures: list[str] = []
    steps = [
        (group, number, part)
        for group in groups
        for number in range(1 if group.once else bench.sizes.rounds)
        for part in group.parts
        if part in names or part in NO_CONTENDERS
    ]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    broken: set[tuple[str, str]] = set()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(steps))
        for group, number, part in steps:
            progress.update(task, description=f"{group.name}: {part}")
            if (group.name, part) not in broken:
                try:
                    for arena in group.arenas:
                        readings.add(group.round(bench, arena, part, number))
                except Exception as error:  # a contender's failure must not cost the readings of the others
                    broken.add((group.name, part))
                    failures.append(f"{group.name}, {part}: {type(error).__name__}: {error}")
                except KeyboardInterrupt:
                    failures.append("interrupted; the tables show what was read until then")
                    break
            progress.advance(task)
    return failures


def _chosen(wanted: str, known: dict[str, Any], what: str) -> list[str]:
    """Return the names in a comma-separated list; all known ones for an empty list."""
    names = [name.strip() for name in wanted.split(",") if name.strip()] or list(known)
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"no {what} {name!r}; there are {', '.join(known)}")
    return names


def _versions() -> dict[str, str]:
    """Return the installed versions of what is compared."""
    found = {"bullmq": bullmq.version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "from source" if package == "stanchion" else "missing"
    return found


if __name__ == "__main__":
    typer.run(main)
