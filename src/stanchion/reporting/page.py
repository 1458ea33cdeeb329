"""The figures of a report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from shlex import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stanchion.core.service_levels import BANDS
from stanchion.core.text.durations import spelled
from stanchion.reporting.charts import bars, legend, lines, ranges, ranks, sparks, stacked
from stanchion.reporting.figures import NAMES, Figures
from stanchion.reporting.scales import number, percent, rate
from stanchion.reporting.verdict import spoken_error, spoken_task, verdict_of

_STATES = (("done", "done"), ("dead", "dead"), ("cancelled", "cancelled"))
_BANDS = {band.name: f"band{n}" for n, band in enumerate(BANDS)}
_COLOURS = (
    *(("done", "good"), ("dead", "bad"), ("cancelled", "none"), ("s0", "count"), ("longest", "ink")),
    *((name, name) for name in (*_BANDS.values(), "good", "fair", "bad")),
)
"""The colour of each mark. A colour has one meaning: kept or done, missed or dead, a count, a band."""

_BARS, _ERRORS_SHOWN = 12, 15
_FITS = 0.9
"""R² from which the power law is shown."""
_WIDE = 4
"""Number of columns from which a table scrolls on a phone."""
_LEVELS = {"age": "started within", "run": "run time up to", "attempts": "attempts up to"}

Cells = Sequence[str]


@dataclass(frozen=True)
class Chart:
    """A plot with its legend."""

    picture: Markup
    title: str = ""
    legend: Markup | None = None


@dataclass(frozen=True)
class Table:
    """Rows of text. `texts`: the columns whose long values wrap."""

    heads: Cells
    rows: Sequence[Cells]
    title: str = ""
    texts: tuple[int, ...] = ()

    @property
    def wide(self) -> bool:
        """Whether it scrolls on a phone."""
        return len(self.heads) > _WIDE


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    id: str
    title: str
    text: str
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()


def page_of(figures: Figures, title: str, about: str, made: datetime) -> str:
    """Return the page. `about`: the source of the jobs."""
    whole = figures["whole"]
    environment = Environment(
        loader=PackageLoader("stanchion.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        title=title,
        colours=_COLOURS,
        marks={"bad": "✕", "fair": "▲", "good": "✓", "": "·"},
        period=period_of(whole) if whole["jobs"] else "",
        about=about,
        empty="Choose another --since, --until or --queue, or let jobs run first.",
        verdict=verdict_of(figures) if whole["jobs"] else None,
        sections=sections_of(figures) if whole["jobs"] else (),
        footer=f"Made by stanchion report, {made.astimezone(UTC):%Y-%m-%d %H:%M} UTC. All times are in UTC.",
    )


def period_of(whole: Figures) -> str:
    """Return from when to when the jobs finished."""
    first, last = (datetime.fromtimestamp(whole[end], UTC) for end in ("first", "last"))
    if first.date() == last.date():
        return f"{first:%-d %B %Y}, {first:%H:%M:%S} to {last:%H:%M:%S} UTC"
    return f"{first:%-d %B %Y %H:%M} to {last:%-d %B %Y %H:%M} UTC"


def sections_of(figures: Figures) -> list[Section]:
    """Return the sections of the page that have something to show; there must be jobs."""
    made = (_throughput, _pickup, _levels, _tasks, _attempts, _errors, _tenants, _stations)
    return [section for make in made if (section := make(figures)) is not None]


def _throughput(figures: Figures) -> Section:
    rows, step = figures["throughput"], figures["step"]
    shown = [(name, kind) for name, kind in _STATES if any(row[name] for row in rows)]
    series = [(name, kind, [row[name] for row in rows]) for name, kind in shown]
    picture = stacked("Jobs finished over time", rows[0]["at"], step, series, f"jobs in {spelled(step)}")
    busiest = max(rows, key=lambda row: row["done"] + row["dead"] + row["cancelled"])
    most = busiest["done"] + busiest["dead"] + busiest["cancelled"]
    when = datetime.fromtimestamp(busiest["at"], UTC)
    text = f"At most {most:,} in {spelled(step)}, from {when:%-d %b %Y %H:%M:%S}: {rate(most / step)}."
    return Section("throughput", "Throughput", text, (Chart(picture, legend=legend(shown)),))


def _pickup(figures: Figures) -> Section | None:
    pickup = figures["pickup"]
    if not pickup:
        return None
    series = [(_spoken(one["band"]), _BANDS[one["band"]], one["p95"]) for one in pickup]
    first = figures["throughput"][0]["at"]
    picture = lines("Pick-up delay over time", first, figures["step"], series, lengths=True, unit="95th percentile")
    rows = [
        (_spoken(band["band"]), f"{band['jobs']:,}", *(spelled(band["pickup"][name]) for name in NAMES))
        for band in figures["bands"]
    ]
    text = "From due to started, of the last attempt. A band is a range of priorities: " + "; ".join(
        f"{_spoken(band.name)} {_range(n)}" for n, band in enumerate(BANDS)
    )
    return Section(
        "pickup",
        "Pick-up delay",
        f"{text}.",
        (Chart(picture, legend=legend([(name, kind) for name, kind, _ in series])),),
        (Table(("Band", "Jobs", *NAMES), rows),),
    )


def _range(n: int) -> str:
    if n == 0:
        return f"{BANDS[0].least} and up"
    return f"{BANDS[n].least} to {BANDS[n - 1].least - 1}" if n < len(BANDS) - 1 else f"below {BANDS[n - 1].least}"


def _levels(figures: Figures) -> Section:
    rows, cells = [], []
    for band in figures["bands"]:
        for level in band["levels"]:
            limit = f"{level['limit']}" if level["what"] == "attempts" else spelled(level["limit"])
            kept, late = level["share"], level["of"] - level["kept"]
            label = f"{_spoken(band['band'])}, {_short(level['what'])} ≤ {limit}"
            if kept is not None:
                rows.append((label, kept, percent(kept), "good" if kept >= 0.99 else "fair" if kept >= 0.95 else "bad"))
            spoken = f"{_LEVELS[level['what']]} {limit}"
            cells.append((_spoken(band["band"]), spoken, f"{level['of']:,}", f"{late:,}"))
    return Section(
        "levels",
        "Service levels kept",
        "The share of the jobs that kept to the level of their band. Green from 99 % on, amber from 95 % on.",
        (Chart(bars("Service levels kept", rows)),),
        (Table(("Band", "Level", "Jobs", "Missed"), cells),),
    )


def _short(what: str) -> str:
    return {"age": "pick-up", "run": "run time"}.get(what, what)


def _tasks(figures: Figures) -> Section:
    rows, more = figures["tasks"]["rows"], figures["tasks"]["more"]
    measured = [row for row in rows if row["run"]["p50"] is not None][:_BARS]
    charts: tuple[Chart, ...] = ()
    if measured:
        drawn = [(spoken_task(row), row["run"]["p50"], row["run"]["p95"], row["run"]["max"]) for row in measured]
        charts = (
            Chart(ranges("Run times of tasks", drawn), legend=legend([("p50 to p95", "s0"), ("longest", "longest")])),
        )
    cells = [
        (
            spoken_task(row),
            f"{row['jobs']:,}",
            *(spelled(row["run"][name]) for name in ("p50", "p95", "p99", "max")),
            spelled(row["run_total"]),
            f"{row['failures']:,}",
            f"{row['dead']:,}",
        )
        for row in rows
    ]
    text = "Of the last attempt, by queue and task; those first that took the most time" + (
        f", the first {len(rows)} of them." if more else "."
    )
    heads = ("Queue and task", "Jobs", "p50", "p95", "p99", "max", "total", "failed", "dead")
    return Section("tasks", "Run times", text, charts, (Table(heads, cells),))


def _attempts(figures: Figures) -> Section:
    rows = figures["attempts"]
    totals = [sum(row.get(name) or 0 for name, _ in _STATES) for row in rows]
    whole, top = sum(totals), max(totals)
    drawn = [
        (_counted(row["attempts"]), total / top, f"{total:,} ({percent(total / whole)})", "s0")
        for row, total in zip(rows, totals, strict=True)
    ]
    cells = [(_counted(row["attempts"]), *(f"{row.get(name) or 0:,}" for name, _ in _STATES)) for row in rows]
    return Section(
        "attempts",
        "Attempts",
        "How many attempts the jobs have needed. 0: cancelled before the first.",
        (Chart(bars("Attempts", drawn)),),
        (Table(("Attempts", "done", "dead", "cancelled"), cells),),
    )


def _counted(attempts: int) -> str:
    return f"{attempts} attempt" if attempts == 1 else f"{attempts} attempts" + (" or more" if attempts >= 25 else "")


def _errors(figures: Figures) -> Section | None:
    errors = figures["errors"]
    if not errors["rows"]:
        return None
    counts = [row["count"] for row in errors["rows"]]
    law = errors["law"] if errors["law"] is not None and errors["law"]["r_squared"] > _FITS else None
    charts: tuple[Chart, ...] = ()
    text = (
        f"{errors['total']:,} errors of {len(counts):,} {'kind' if len(counts) == 1 else 'kinds'}, by task. Numbers, "
        f"ids, addresses, times and long quoted text do not distinguish kinds."
    )
    if law is not None:
        line = (law["top"], law["exponent"])
        charts = (Chart(ranks("Errors by rank", counts, line), "How often, by rank"),)
        text += (
            f" The dashed line is the power law: the kind of rank r comes up {number(round(law['top']))} · "
            f"r^-{law['exponent']:.2f} times (R² = {law['r_squared']:.2f})."
        )
    shown = errors["rows"][:_ERRORS_SHOWN]
    cells = [
        (
            spoken_error(row),
            spoken_task(row),
            f"{row['count']:,}",
            _moment(row["first"]),
            _moment(row["last"]),
            f"{row['dead']:,}",
        )
        for row in shown
    ]
    heads = ("Error", "Task", "Times", "First", "Last", "Died of it")
    tables = [Table(heads, cells, "The most frequent", (0, 1))]
    if dead := [row for row in shown if row["dead"]]:
        commands = [(spoken_error(row), " ".join(row["ids"]), _retry(row)) for row in dead]
        tables.append(
            Table(("Error", "Newest dead jobs", "Command"), commands, "To run the dead jobs again", (0, 1, 2))
        )
    return Section("errors", "Errors", text, charts, tuple(tables))


def _retry(row: Figures) -> str:
    task = f" --task {quote(row['task'])}" if row["task"] else ""
    return f"stanchion retry --queue {quote(row['queue'])}{task} --error {row['group']}"


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%-d %b %H:%M:%S}"


def _tenants(figures: Figures) -> Section | None:
    tenants = figures["tenants"]
    if not tenants["count"]:
        return None
    rows, fairness = tenants["rows"], tenants["fairness"]
    top = rows[0]["share"]
    drawn = [(row["tenant"], row["share"] / top, percent(row["share"]), "s0") for row in rows[:_BARS]]
    cells = [
        (
            row["tenant"],
            f"{row['jobs']:,}",
            spelled(row["run_total"]),
            *(spelled(row["pickup"][name]) for name in ("p50", "p95", "max")),
        )
        for row in rows
    ]
    spoken = {"jobs": "number of jobs", "run_time": "run time", "pickup_mean": "mean pick-up delay"}
    known = {words: fairness[name] for name, words in spoken.items() if fairness[name] is not None}
    indices = ", ".join(f"{index:.3f} for the {words}" for words, index in known.items())
    many = f"{tenants['count']:,}"
    text = (
        f"{many} {'tenant' if tenants['count'] == 1 else 'tenants'}. Jain's fairness index is 1 where all have the "
        f"same, and 1/{many} where one has everything: {indices}."
    )
    heads = ("Tenant", "Jobs", "Run time", "Pick-up p50", "p95", "max")
    charts = (Chart(bars("Share of the jobs", drawn), "Share of the jobs"),)
    return Section("tenants", "Tenants", text, charts, (Table(heads, cells),))


def _stations(figures: Figures) -> Section | None:
    stations = figures["stations"]
    if not stations:
        return None
    step = figures["step"]
    rows = [(row["station"], row["counts"], rate(max(row["counts"], default=0) / step)) for row in stations]
    picture = sparks(f"Items in {spelled(step)}, and the highest rate", stations[0]["begins"], step, rows)
    cells = [
        (
            row["station"],
            f"{row['items']:,}",
            rate(row["per_second"]),
            f"{row['retries'] or 0:,}",
        )
        for row in stations
    ]
    return Section(
        "stations",
        "Stations",
        "Items that have passed the stations of pipelines, and left the pipeline since.",
        (Chart(picture),),
        (Table(("Station", "Items", "Mean rate", "Retries"), cells),),
    )


def _spoken(band: str) -> str:
    return band.replace("_", " ")
