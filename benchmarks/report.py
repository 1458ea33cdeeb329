"""A run on the screen and in a file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.readings import Reading, Readings
from benchmarks.targets import STANCHION, TARGETS, WORKERS

REFERENCES = ("raw", STANCHION, WORKERS)
SAMPLED = ("p50", "p99", "worst", "samples")


def show(console: Console, readings: Readings) -> None:
    """Print a table for each quantity, and one for the targets."""
    for title in readings.tables():
        console.print(_table(title, readings))
    console.print(_targets(readings))


def save(path: Path, facts: dict[str, Any], readings: Readings) -> None:
    """Write everything that was read, and how the targets stand."""
    targets = [
        {"target": target.text, "limit": target.limit, "at_least": target.at_least, "seen": target.seen(readings)}
        for target in TARGETS
    ]
    content = {"facts": facts, "readings": [asdict(each) for each in readings.all], "targets": targets}
    path.write_text(json.dumps(content, indent=1) + "\n")


def _table(title: str, readings: Readings) -> Table:
    contenders = readings.contenders(title)
    extras = list(dict.fromkeys(name for each in readings.all if each.table == title for name in each.extra))
    references = [name for name in REFERENCES if name in contenders]
    sampled = any(readings.samples(title, contender) for contender in contenders)
    table = Table(title=f"{title}, {_unit(title)}", title_justify="left", title_style="bold")
    table.add_column("")
    for column in (
        "median",
        "lowest",
        "highest",
        *(f"to {name}" for name in references),
        *extras,
        *(SAMPLED if sampled else ()),
    ):
        table.add_column(column, justify="right")
    for contender in contenders:
        rounds = readings.of(title, contender)
        values = [each.value for each in rounds]
        ratios = [readings.ratio(title, contender, [name]) for name in references]
        table.add_row(
            contender,
            *(_figure(value) for value in (median(values), min(values), max(values))),
            *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
            *(_extra(rounds, name) for name in extras),
            *(_percentiles(readings.samples(title, contender)) if sampled else ()),
        )
    return table


def _targets(readings: Readings) -> Table:
    table = Table(title="Targets", title_justify="left", title_style="bold")
    for column in ("Stanchion", "seen", "aim", ""):
        table.add_column(column, justify="left" if column == "Stanchion" else "right")
    for target in TARGETS:
        seen = target.seen(readings)
        verdict = "" if seen is None else "[green]met[/]" if target.met(seen) else "[red]missed[/]"
        sign = "≥" if target.at_least else "≤"
        table.add_row(target.text, "" if seen is None else f"{seen:.2f}", f"{sign} {target.limit:g}", verdict)
    return table


def _unit(title: str) -> str:
    if "pick-up" in title:
        return "ms from enqueue to start"
    if "one job" in title:
        return "ms from push to acknowledged"
    return "ms per 100 jobs" if "claim" in title else "jobs/s"


def _extra(rounds: list[Reading], name: str) -> str:
    values = [each.extra[name] for each in rounds if name in each.extra]
    return _figure(median(values)) if values else ""


def _percentiles(samples: list[float]) -> list[str]:
    """Return what the columns of SAMPLED show."""
    cuts = quantiles(samples, n=100, method="inclusive")
    return [_figure(value) for value in (cuts[49], cuts[98], max(samples), len(samples))]


def _figure(value: float) -> str:
    """Return a number with about three digits that count."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"
