"""The figures of a report, computed by Spark; their size does not depend on the number of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from stanchion.core.service_levels import BANDS
from stanchion.core.text.error_kinds import LONGEST, MASKS
from stanchion.reporting import figures as shared
from stanchion.reporting.figures import IDS, SHARES, STATES, Figures, jain, named, step_for, steps

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

_ACCURACY = 20_000
"""Percentiles are exact up to this many jobs of a group; above, they are off by one rank in this many."""


def figures_of(jobs: DataFrame, order: Sequence[str] = ()) -> Figures:
    """Return the figures for the jobs of `finished_jobs`. `order`: stations in the order of their pipelines."""
    whole = whole_of(jobs)
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
        "stations": _stations(jobs, step, whole, order),
    }


def whole_of(jobs: DataFrame) -> Figures:
    """Return the figures of all jobs together."""
    found = jobs.agg(
        F.count("*").alias("jobs"),
        *(F.count_if(F.col("state") == state).alias(state) for state in STATES),
        F.coalesce(F.sum("failures"), F.lit(0)).alias("failures"),
        F.coalesce(F.sum("run"), F.lit(0.0)).alias("run_total"),
        F.min("finished").alias("first"),
        F.max("finished").alias("last"),
        F.count_distinct("queue").alias("queues"),
        F.count_distinct("tenant").alias("tenants"),
    )
    return _rows(found)[0]


def p95_of(jobs: DataFrame) -> float | None:
    """Return the 95th percentile of all pick-up delays."""
    (row,) = _rows(jobs.agg(F.percentile_approx("pickup", 0.95, _ACCURACY).alias("p95")))
    return None if row["p95"] is None else float(row["p95"])


def _bucket(step: int, moment: str = "finished") -> Column:
    return (F.floor(F.col(moment) / step) * step).cast("long").alias("at")


def _throughput(jobs: DataFrame, step: int, whole: Figures) -> list[Figures]:
    found = _rows(jobs.groupBy(_bucket(step)).pivot("state", list(STATES)).count().orderBy("at"))
    by_step = {row["at"]: row for row in found}
    return [
        {"at": at, **{state: (by_step.get(at) or {}).get(state) or 0 for state in STATES}}
        for at in steps(whole["first"], whole["last"], step)
    ]


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
    return [shared.band(row["band"], row) for row in sorted(found, key=lambda row: int(row["band"]))]


def _tasks(jobs: DataFrame) -> Figures:
    grouped = jobs.groupBy("queue", "task").agg(
        F.count("*").alias("jobs"),
        F.count_if(F.col("state") == "dead").alias("dead"),
        F.sum("failures").alias("failures"),
        F.coalesce(F.sum("run"), F.lit(0.0)).alias("run_total"),
        _percentiles("run"),
    )
    found = _rows(grouped.orderBy(F.desc("run_total"), F.desc("jobs"), "queue", "task").limit(shared.TASKS + 1))
    return {
        "rows": [{**row, "run": named(row["run"])} for row in found[: shared.TASKS]],
        "more": len(found) > shared.TASKS,
    }


def _attempts(jobs: DataFrame) -> list[Figures]:
    capped = F.least("attempts", F.lit(shared.MOST_ATTEMPTS)).alias("attempts")
    found = jobs.groupBy(capped).pivot("state", list(STATES)).count().orderBy("attempts").na.fill(0)
    return _rows(found)


def _errors(jobs: DataFrame) -> Figures:
    """Return the errors by kind and task; a job that died is counted with its last one."""
    failed = jobs.where("size(errors) > 0").select(
        *("queue", "task", "state", "id", "finished"),
        F.posexplode("errors").alias("place", "entry"),
        F.size("errors").alias("size"),
    )
    each = failed.withColumns(
        {
            "text": F.col("entry.error"),
            "died": F.expr("state = 'dead' and place = size - 1"),
            "kind": _kind(F.col("entry.error")),
        }
    ).withColumn("group", F.coalesce("entry.group", _group(F.col("kind"))))
    newest = F.sort_array(F.collect_set(F.when(F.col("died"), F.struct("finished", "id"))), asc=False)
    kinds = each.groupBy("group", "queue", "task").agg(
        F.min("kind").alias("error"),
        F.count("*").alias("count"),
        F.min("text").alias("example"),
        F.min("entry.at").alias("first"),
        F.max("entry.at").alias("last"),
        F.count_if("died").alias("dead"),
        F.slice(newest, 1, IDS)["id"].alias("ids"),
    )
    return shared.errors(_rows(kinds.orderBy(F.desc("count"), "error", "queue", "task", "group").limit(shared.ERRORS)))


def _group(kind: Column) -> Column:
    """Return the group key of an error that is stored without one."""
    return F.substring(F.sha2(F.concat(kind, F.lit("\0"), F.col("task")), 256), 1, 8)


def _kind(error: Column) -> Column:
    kind = F.substring(F.substring_index(error, "\n", 1), 1, LONGEST)
    for pattern, mask in MASKS:
        kind = F.regexp_replace(kind, pattern, mask)
    return kind


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
        found = _rows(kept.orderBy(F.desc("jobs"), "tenant").limit(shared.TENANTS))
    finally:
        kept.unpersist()
    return {
        "count": whole["count"],
        "rows": [{**row, "pickup": named(row["pickup"]), "share": row["jobs"] / whole["jobs_all"]} for row in found],
        "fairness": {
            "jobs": jain(whole["jobs_1"] or 0, whole["jobs_2"] or 0, whole["count"]),
            "run_time": jain(whole["run_total_1"] or 0, whole["run_total_2"] or 0, whole["count"]),
            "pickup_mean": jain(whole["pickup_mean_1"] or 0, whole["pickup_mean_2"] or 0, whole["started"]),
        },
    }


def _stations(jobs: DataFrame, step: int, whole: Figures, order: Sequence[str]) -> list[Figures]:
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
    return shared.stations(each, step, whole["first"], whole["last"], order)


def _rows(found: DataFrame) -> list[Figures]:
    return [_plain(row) for row in found.collect()]


def _plain(row: Row) -> Figures:
    return row.asDict(recursive=True)
