"""Figures as a report has them, made up: for tests of the page, which need no Spark."""

import random
from typing import Any

from stanchion.core.service_levels import BANDS
from stanchion.reporting.figures import NAMES, power_law

START = 1_767_225_600
"""The beginning of 2026."""


def _percentiles(middle: float) -> dict[str, float]:
    return dict(zip(NAMES, (middle, 3 * middle, 5 * middle, 12 * middle, 90 * middle), strict=True))


def year() -> dict[str, Any]:
    """Return the figures of a busy year."""
    chance = random.Random(3)
    step = 4 * 86_400
    throughput = [
        {
            "at": START + n * step,
            "done": chance.randint(2400, 4200),
            "dead": chance.randint(0, 160),
            "cancelled": chance.randint(0, 60),
        }
        for n in range(91)
    ]
    jobs = sum(row["done"] + row["dead"] + row["cancelled"] for row in throughput)
    delays = (0.02, 0.6, 9.0, 700.0)
    bands = [
        {
            "band": band.name,
            "jobs": jobs // 4,
            "pickup": _percentiles(delay),
            "run": _percentiles(delay / 3),
            "levels": [
                {"what": what, "limit": limit, "kept": round(share * jobs / 4), "of": jobs // 4, "share": share}
                for what, limit, share in (
                    ("age", band.max_age, 0.9991 - 0.02 * n),
                    ("run", band.max_run, 0.99999 - 0.03 * n),
                    ("attempts", band.max_attempts, 1.0),
                )
            ],
        }
        for n, (band, delay) in enumerate(zip(BANDS, delays, strict=True))
    ]
    counts = [max(1, round(9000 / rank**1.1 * chance.uniform(0.8, 1.25))) for rank in range(1, 90)]
    counts.sort(reverse=True)
    errors = [
        {
            **{"error": f"{kind}: ‹text› is not there, on line ‹n› of part {n}", "count": count, "example": ""},
            "group": f"{n:08x}",
            **{"queue": "mail", "task": "mail.welcome", "first": START + 9.0, "last": START + 99.0},
            **{"dead": 7 if n % 3 else 0, "ids": [f"job-{n}-{one}" for one in range(5)] if n % 3 else []},
        }
        for n, (kind, count) in enumerate(zip(["KeyError", "TimeoutError", "ValueError"] * 30, counts, strict=False))
    ]
    tasks = [
        {
            "queue": queue,
            "task": task,
            "jobs": chance.randint(900, 90_000),
            "dead": chance.randint(0, 900),
            "failures": chance.randint(0, 4000),
            "run_total": 90_000.0 / (n + 1),
            "run": _percentiles(0.004 * 3**n),
        }
        for n, (queue, task) in enumerate(
            [
                ("mail", "mail.welcome"),
                ("flights.enriched", ""),
                ("billing", "shop.billing.invoices.of_the_month"),
                ("reports", "nightly"),
            ]
        )
    ]
    tenants = [
        {
            "tenant": name,
            "jobs": jobs // (n + 3),
            "run_total": 5000.0 / (n + 1),
            "pickup_mean": 0.5,
            "share": 0.28 / (n + 1),
            "pickup": _percentiles(0.4),
        }
        for n, name in enumerate(["UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E", "WN", "VX", "FL", "AS", "F9", "YV"])
    ]
    return {
        "whole": {
            "jobs": jobs,
            **{name: sum(row[name] for row in throughput) for name in ("done", "dead", "cancelled")},
            "failures": 41_387,
            "run_total": 190_000.0,
            "first": START + 100.0,
            "last": START + 364 * 86_400.0,
            "queues": 6,
            "tenants": 14,
        },
        "step": step,
        "throughput": throughput,
        "pickup": [
            {
                "band": band.name,
                "p95": [delay * chance.uniform(1, 12) if chance.random() < 0.97 else None for _ in throughput],
            }
            for band, delay in zip(BANDS, delays, strict=True)
        ],
        "bands": bands,
        "tasks": {"rows": tasks, "more": False},
        "attempts": [
            {
                "attempts": n,
                "done": 300_000 // 9 ** (n - 1),
                "dead": 600 if n == 4 else 0,
                "cancelled": 40 if n == 1 else 0,
            }
            for n in range(1, 6)
        ],
        "errors": {"rows": errors, "total": sum(counts), "law": power_law(counts)},
        "tenants": {
            "count": 14,
            "rows": tenants,
            "fairness": {"jobs": 0.541, "run_time": 0.323, "pickup_mean": 0.994},
        },
        "stations": [
            {
                "station": f"flights.{name}",
                "items": jobs - n * 9000,
                "retries": n * 120,
                "first": START + 100.0,
                "last": START + 364 * 86_400.0,
                "per_second": (jobs - n * 9000) / (364 * 86_400),
                "begins": START,
                "counts": [chance.randint(2400, 4200) // (n + 1) for _ in throughput],
            }
            for n, name in enumerate(["raw", "clean", "enriched"])
        ],
    }


def one() -> dict[str, Any]:
    """Return the figures of a single job."""
    nothing = dict.fromkeys(NAMES)
    instant = dict.fromkeys(NAMES, 0.0)
    return {
        "whole": {
            **{"jobs": 1, "done": 1, "dead": 0, "cancelled": 0, "failures": 0, "run_total": 0.0},
            **{"first": START + 5.0, "last": START + 5.0, "queues": 1, "tenants": 0},
        },
        "step": 1,
        "throughput": [{"at": START + 5, "done": 1, "dead": 0, "cancelled": 0}],
        "pickup": [{"band": "eventual", "p95": [0.0]}],
        "bands": [
            {
                "band": "eventual",
                "jobs": 1,
                "pickup": instant,
                "run": nothing,
                "levels": [
                    {"what": "age", "limit": 5400.0, "kept": 1, "of": 1, "share": 1.0},
                    {"what": "run", "limit": 300.0, "kept": 0, "of": 0, "share": None},
                    {"what": "attempts", "limit": 8, "kept": 1, "of": 1, "share": 1.0},
                ],
            }
        ],
        "tasks": {
            "rows": [
                {
                    **{"queue": "mail", "task": "", "jobs": 1, "dead": 0, "failures": 0, "run_total": 0.0},
                    "run": nothing,
                }
            ],
            "more": False,
        },
        "attempts": [{"attempts": 1, "done": 1, "dead": 0, "cancelled": 0}],
        "errors": {"rows": [], "total": 0, "law": None},
        "tenants": {"count": 0, "rows": [], "fairness": dict.fromkeys(("jobs", "run_time", "pickup_mean"))},
        "stations": [],
    }


def none() -> dict[str, Any]:
    """Return the figures of no jobs at all."""
    return {
        "whole": {
            **{"jobs": 0, "done": 0, "dead": 0, "cancelled": 0, "failures": 0, "run_total": 0.0},
            **{"first": None, "last": None, "queues": 0, "tenants": 0},
        },
        "step": None,
    }
