"""The figures of a report, computed by Spark; their size does not depend on the number of jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from stanchion.core.service_levels import BANDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

Figures = dict[str, Any]

SHARES = (0.5, 0.9, 0.95, 0.99, 1.0)
NAMES = ("p50", "p90", "p95", "p99", "max")
_ACCURACY = 20_000
"""Percentiles are exact up to this many jobs of a group; above, they are off by one rank in this many."""

_STEPS = (
    *(1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400),
    *(2 * 86_400, 7 * 86_400, 28 * 86_400, 91 * 86_400, 364 * 86_400),
)
MOST_STEPS = 120
_TASKS, _TENANTS, _ERRORS, _STATIONS, _MOST_ATTEMPTS = 30, 20, 500, 40, 25

# The parts of an error that differ from job to job are removed, so that errors of one kind are equal.
_MASKS = (
    (r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}", "<id>"),
    (r"(?<![\\w])'[^']{0,200}'", "<text>"),
    (r'"[^"]{0,200}"', "<text>"),
    (r"0x[0-9a-fA-F]+", "<n>"),
    (r"\\d+", "<n>"),
)


def figures_of(jobs: DataFrame) -> Figures:
    """Return the figures for the jobs of `finished_jobs`."""
    whole = _whole(jobs)
    if not whole["jobs"]:
        return {"whole": whole, "step": None}
    step = step_for(whole["last"] - whole["first"])
    return {
        "whole": whole,
        "step": step,
        "throughput": _throughput(jobs, step, whole),
        "pickup": _pickup(jobs, step, whole),
        "bands": _bands(jobs),
        "tasks": _tasks(jobs),
        "attempts": _attempts(jobs),
        "errors": _errors(jobs),
        "tenants": _tenants(jobs),
        "stations": _stations(jobs, step, whole),
    }


def step_for(seconds: float) -> int:
    """Return the width of a time step in seconds, such that there are not too many steps."""
    return next((step for step in _STEPS if seconds / step < MOST_STEPS), _STEPS[-1])


def jain(values_sum: float, squares_sum: float, count: int) -> float | None:
    """Return Jain's fairness index: 1 if all are equal, 1/n if one has everything; None if there is nothing."""
    return None if not count or not squares_sum else values_sum**2 / (count * squares_sum)


def power_law(counts: Sequence[int]) -> Figures | None:
    """Fit count = top * rank ** -exponent to descending counts, on log-log axes; None for fewer than three."""
    if len(counts) < 3 or counts[0] == counts[-1]:
        return None
    xs = [math.log(rank) for rank in range(1, len(counts) + 1)]
    ys = [math.log(count) for count in counts]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    covered = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    spread, height = sum((x - mean_x) ** 2 for x in xs), sum((y - mean_y) ** 2 for y in ys)
    slope = covered / spread
    return {
        "exponent": -slope,
        "top": math.exp(mean_y - slope * mean_x),
        "r_squared": covered**2 / (spread * height),
    }


def _whole(jobs: DataFrame) -> Figures:
    found = jobs.agg(
        F.count("*").alias("jobs"),
        *(F.count_if(F.col("state") == state).alias(state) for state in ("done", "dead", "cancelled")),
        F.coalesce(F.sum("failures"), F.lit(0)).alias("failures"),
        F.coalesce(F.sum("run"), F.lit(0.0)).alias("run_total"),
        F.min("finished").alias("first"),
        F.max("finished").alias("last"),
        F.count_distinct("queue").alias("queues"),
        F.count_distinct("tenant").alias("tenants"),
    )
    return _rows(found)[0]


def _bucket(step: int, moment: str = "finished") -> Column:
    return (F.floor(F.col(moment) / step) * step).cast("long").alias("at")


def _throughput(jobs: DataFrame, step: int, whole: Figures) -> list[Figures]:
    found = _rows(jobs.groupBy(_bucket(step)).pivot("state", ["done", "dead", "cancelled"]).count().orderBy("at"))
    by_step = {row["at"]: row for row in found}
    return [
        {"at": at, **{state: (by_step.get(at) or {}).get(state) or 0 for state in ("done", "dead", "cancelled")}}
        for at in steps(whole["first"], whole["last"], step)
    ]


def steps(first: float, last: float, step: int) -> range:
    """Return the starts of all steps from the first time to the last."""
    return range(math.floor(first / step) * step, math.floor(last / step) * step + 1, step)


def _pickup(jobs: DataFrame, step: int, whole: Figures) -> list[Figures]:
    found = _rows(
        jobs.where("pickup is not null")
        .groupBy("band", _bucket(step))
        .agg(F.percentile_approx("pickup", 0.95, 1000).alias("p95"))
    )
    by_band = {(row["band"], row["at"]): row["p95"] for row in found}
    moments = steps(whole["first"], whole["last"], step)
    return [
        {"band": band.name, "p95": [by_band.get((number, at)) for at in moments]}
        for number, band in enumerate(BANDS)
        if any((number, at) in by_band for at in moments)
    ]


def _percentiles(column: str) -> Column:
    return F.percentile_approx(column, list(SHARES), _ACCURACY).alias(column)


def _named(values: Sequence[float] | None) -> Figures:
    return dict.fromkeys(NAMES) if values is None else dict(zip(NAMES, values, strict=True))


def _bands(jobs: DataFrame) -> list[Figures]:
    limit = F.element_at
    ages, runs, attempts = (
        F.array(*(F.lit(value) for value in values))
        for values in (
            [band.max_age for band in BANDS],
            [band.max_run for band in BANDS],
            [band.max_attempts for band in BANDS],
        )
    )
    own = (F.col("band") + 1).cast("int")
    found = _rows(
        jobs.groupBy("band").agg(
            F.count("*").alias("jobs"),
            _percentiles("pickup"),
            _percentiles("run"),
            F.count("pickup").alias("started"),
            F.count("run").alias("ended"),
            F.count_if(F.col("pickup") <= limit(ages, own)).alias("age_kept"),
            F.count_if(F.col("run") <= limit(runs, own)).alias("run_kept"),
            F.count_if(F.col("attempts") <= limit(attempts, own)).alias("attempts_kept"),
        )
    )
    by_band = {row["band"]: row for row in found}
    result = []
    for number, band in enumerate(BANDS):
        if (row := by_band.get(number)) is None:
            continue
        result.append(
            {
                "band": band.name,
                "jobs": row["jobs"],
                "pickup": _named(row["pickup"]),
                "run": _named(row["run"]),
                "levels": [
                    _level("age", band.max_age, row["age_kept"], row["started"]),
                    _level("run", band.max_run, row["run_kept"], row["ended"]),
                    _level("attempts", band.max_attempts, row["attempts_kept"], row["jobs"]),
                ],
            }
        )
    return result


def _level(what: str, limit: float, kept: int, of: int) -> Figures:
    return {"what": what, "limit": limit, "kept": kept, "of": of, "share": kept / of if of else None}


def _tasks(jobs: DataFrame) -> Figures:
    grouped = jobs.groupBy("queue", "task").agg(
        F.count("*").alias("jobs"),
        F.count_if(F.col("state") == "dead").alias("dead"),
        F.sum("failures").alias("failures"),
        F.coalesce(F.sum("run"), F.lit(0.0)).alias("run_total"),
        _percentiles("run"),
    )
    found = _rows(grouped.orderBy(F.desc("run_total"), F.desc("jobs"), "queue", "task").limit(_TASKS + 1))
    return {
        "rows": [{**row, "run": _named(row["run"])} for row in found[:_TASKS]],
        "more": len(found) > _TASKS,
    }


def _attempts(jobs: DataFrame) -> list[Figures]:
    capped = F.least("attempts", F.lit(_MOST_ATTEMPTS)).alias("attempts")
    found = jobs.groupBy(capped).pivot("state", ["done", "dead", "cancelled"]).count().orderBy("attempts").na.fill(0)
    return _rows(found)


def _errors(jobs: DataFrame) -> Figures:
    kind: Column = F.substring("error", 1, 300)
    for pattern, mask in _MASKS:
        kind = F.regexp_replace(kind, pattern.replace("\\\\", "\\"), mask)
    each = jobs.where("errors is not null").select(F.explode("errors").alias("error"), "state")
    kinds = each.groupBy(kind.alias("error")).agg(F.count("*").alias("count"), F.min("error").alias("example"))
    found = _rows(kinds.orderBy(F.desc("count"), "error").limit(_ERRORS))
    counts = [row["count"] for row in found]
    return {"rows": found, "total": sum(counts), "law": power_law(counts)}


def _tenants(jobs: DataFrame) -> Figures:
    each = (
        jobs.where("tenant is not null")
        .groupBy("tenant")
        .agg(
            F.count("*").alias("jobs"),
            F.coalesce(F.sum("run"), F.lit(0.0)).alias("run_total"),
            F.avg("pickup").alias("pickup_mean"),
            _percentiles("pickup"),
        )
    )
    kept = each.persist()
    try:
        sums: list[Column] = [F.count("*").alias("count"), F.sum("jobs").alias("jobs_all")]
        for name in ("jobs", "run_total", "pickup_mean"):
            sums += [F.sum(name).alias(f"{name}_1"), F.sum(F.col(name) * F.col(name)).alias(f"{name}_2")]
        whole = _rows(kept.agg(*sums, F.count("pickup_mean").alias("started")))[0]
        found = _rows(kept.orderBy(F.desc("jobs"), "tenant").limit(_TENANTS))
    finally:
        kept.unpersist()
    return {
        "count": whole["count"],
        "rows": [{**row, "pickup": _named(row["pickup"]), "share": row["jobs"] / whole["jobs_all"]} for row in found],
        "fairness": {
            "jobs": jain(whole["jobs_1"] or 0, whole["jobs_2"] or 0, whole["count"]),
            "run_time": jain(whole["run_total_1"] or 0, whole["run_total_2"] or 0, whole["count"]),
            "pickup_mean": jain(whole["pickup_mean_1"] or 0, whole["pickup_mean_2"] or 0, whole["started"]),
        },
    }


def _stations(jobs: DataFrame, step: int, whole: Figures) -> list[Figures]:
    """Return the jobs that passed each station of pipelines: those on their routes, and those where they ended."""
    in_pipeline = jobs.where(F.col("queue").contains("."))
    pipeline = F.substring_index("queue", ".", 1)
    ends = in_pipeline.select(F.col("queue").alias("station"), "attempts", F.col("finished").alias("moment"))
    stop = in_pipeline.where("route is not null").select(pipeline.alias("pipeline"), F.explode("route").alias("stop"))
    passed = stop.select(
        F.concat_ws(".", "pipeline", F.col("stop")[0]).alias("station"),
        F.col("stop")[1].cast("int").alias("attempts"),
        F.col("stop")[2].cast("double").alias("moment"),
    ).where("moment is not null")
    each = _rows(
        ends.unionByName(passed)
        .groupBy("station", _bucket(step, "moment"))
        .agg(
            F.count("*").alias("items"),
            F.sum(F.col("attempts") - 1).alias("retries"),
            F.min("moment").alias("first"),
            F.max("moment").alias("last"),
        )
    )
    by_station: dict[str, list[Figures]] = {}
    for row in each:
        by_station.setdefault(row["station"], []).append(row)
    begins = min([whole["first"], *(row["first"] for row in each)])
    moments = steps(begins, whole["last"], step)[-4 * MOST_STEPS :]
    found = [_station(name, rows, moments) for name, rows in by_station.items()]
    return sorted(found, key=lambda row: (row["first"], row["station"]))[:_STATIONS]


def _station(name: str, rows: Sequence[Figures], moments: range) -> Figures:
    """Return a station's figures from those of its time steps."""
    items = sum(row["items"] for row in rows)
    first, last = min(row["first"] for row in rows), max(row["last"] for row in rows)
    counts = {row["at"]: row["items"] for row in rows}
    return {
        "station": name,
        "items": items,
        "retries": sum(row["retries"] or 0 for row in rows),
        "first": first,
        "last": last,
        "per_second": items / (last - first) if last > first else None,
        "begins": moments[0],
        "counts": [counts.get(at, 0) for at in moments],
    }


def _rows(found: DataFrame) -> list[Figures]:
    return [_plain(row) for row in found.collect()]


def _plain(row: Row) -> Figures:
    return row.asDict(recursive=True)
