"""The verdict of a report: the first things a reader should know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stanchion.core.service_levels import BANDS
from stanchion.core.text.durations import spelled
from stanchion.reporting.figures import Figures
from stanchion.reporting.scales import percent

BAD, FAIR, GOOD, PLAIN = "bad", "fair", "good", ""

KEPT = 0.95
"""The share of jobs that must keep to a service level."""

_AGES = {band.name: band.max_age for band in BANDS}


@dataclass(frozen=True)
class Fact:
    """A line of the verdict. `level`: bad, fair, good, or nothing. `link`: the section with details."""

    level: str
    name: str
    text: str
    link: str = ""


@dataclass(frozen=True)
class Verdict:
    """A sentence, and its facts."""

    sentence: str
    facts: tuple[Fact, ...]


def verdict_of(figures: Figures) -> Verdict:
    """Return the verdict on these figures; there must be jobs."""
    return Verdict(_sentence(figures), tuple(_facts(figures)))


def spoken_task(row: Figures) -> str:
    """Return a task with its queue, or the queue of jobs without one."""
    return f"{row['queue']}: {row['task']}" if row["task"] else str(row["queue"])


def spoken_error(row: Figures) -> str:
    """Return the kind of an error in words."""
    return row["error"] or "(no message)"


def _sentence(figures: Figures) -> str:
    whole = figures["whole"]
    if whole["dead"]:
        worst = max(figures["tasks"]["rows"], key=lambda row: row["dead"])
        where = f", {_most(worst['dead'], whole['dead'])} {spoken_task(worst)}" if worst["dead"] else ""
        return f"{whole['dead']:,} of {_jobs(whole['jobs'])} died{where}."
    if late := [(level, band) for band, level in _ages(figures) if level["share"] < KEPT]:
        level, band = min(late, key=lambda one: one[0]["share"])
        missed = percent(1 - level["share"])
        return f"No job died, but {missed} of the {_spoken(band)} jobs started later than {spelled(level['limit'])}."
    if whole["failures"]:
        attempts = "attempt" if whole["failures"] == 1 else "attempts"
        return f"No job died; {whole['failures']:,} {attempts} failed on the way."
    done = "The only job was" if whole["jobs"] == 1 else f"All {whole['jobs']:,} jobs were"
    return f"{done} done at the first attempt." if whole["done"] == whole["jobs"] else "No job died, and none failed."


def _most(dead: int, of: int) -> str:
    return "in" if dead == of else f"{dead:,} of them in"


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number:,} jobs"


def _spoken(band: str) -> str:
    return band.replace("_", " ")


def _ages(figures: Figures) -> Iterator[tuple[str, Figures]]:
    for band in figures["bands"]:
        for level in band["levels"]:
            if level["what"] == "age" and level["share"] is not None:
                yield band["band"], level


def _facts(figures: Figures) -> Iterator[Fact]:
    if (now := figures.get("now")) is not None:
        late = now["oldest"] > min(_AGES.values())
        text = f"{spelled(now['oldest'])} in {now['queue']}, when this page was made"
        yield Fact(FAIR if late else PLAIN, "Oldest waiting job", text)
    if slowest := [row for row in figures["tasks"]["rows"] if row["run"]["p95"] is not None]:
        row = max(slowest, key=lambda row: row["run"]["p95"])
        yield Fact(PLAIN, "Slowest task", f"{spoken_task(row)}, p95 {spelled(row['run']['p95'])}", "tasks")
    if rows := figures["errors"]["rows"]:
        top = max(rows, key=lambda row: (row["dead"], row["count"]))
        times = "once" if top["count"] == 1 else f"{top['count']:,} times"
        text = f"{spoken_error(top)}, {times} in {spoken_task(top)}"
        yield Fact(BAD if top["dead"] else FAIR, "Top error", text, "errors")
    for band, level in _ages(figures):
        if level["share"] < KEPT:
            text = f"{percent(1 - level['share'])} started later than {spelled(level['limit'])}"
            yield Fact(BAD, f"Late, {_spoken(band)}", text, "levels")
    if (before := figures.get("before")) is not None:
        yield Fact(_worse(figures["whole"], before), "Against the period before", _change(figures["whole"], before))


def _worse(whole: Figures, before: Figures) -> str:
    return FAIR if before["jobs"] and whole["dead"] / whole["jobs"] > before["dead"] / before["jobs"] else PLAIN


def _change(whole: Figures, before: Figures) -> str:
    if not before["jobs"]:
        return "no job finished then"
    jobs = whole["jobs"] / before["jobs"] - 1
    dead = f"{before['dead']:,} died then" if before["dead"] else "none died then"
    return f"{jobs:+.0%} jobs; {dead}, and {before['failures']:,} attempts failed"
