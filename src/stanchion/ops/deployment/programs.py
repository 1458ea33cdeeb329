"""The command line of each process of a deployment, and the queries that scale its workers."""

from __future__ import annotations

import json
import re

from stanchion.ops.deployment.settings import HEALTH_PORT, MANAGER_PORT, PAGE_PORT, Deployment
from stanchion.stores.records.jobs import QUEUED, JobState


def setup(deployment: Deployment) -> list[str]:
    """Return the command that creates or upgrades the tables."""
    return ["stanchion", "setup", "--app", deployment.app]


def worker(deployment: Deployment, host: str, *more: str) -> list[str]:
    """Return the command of a worker that serves probes and metrics at this address."""
    queues = ["--queues", ",".join(deployment.queues)] if deployment.queues else []
    threads = ["--threads", str(deployment.threads), "--grace", _seconds(deployment)]
    probes = ["--health-host", host, "--health-port", str(HEALTH_PORT), "--metrics"]
    return ["stanchion", "worker", deployment.app, *queues, *threads, *more, *probes]


def page(deployment: Deployment, host: str) -> list[str]:
    """Return the command of the page."""
    return ["stanchion", "web", "--app", deployment.app, "--listen", f"{host}:{PAGE_PORT}"]


def manager(deployment: Deployment, host: str, *more: str, health_port: int = HEALTH_PORT) -> list[str]:
    """Return the command of a manager. `more`: further options."""
    listen = ["--listen", f"{host}:{MANAGER_PORT}", *more, "--grace", _seconds(deployment)]
    return [
        "stanchion",
        "manager",
        *listen,
        "--health-host",
        host,
        "--health-port",
        str(health_port),
        "--store-metrics",
    ]


def probe(port: int) -> list[str]:
    """Return a command that fails unless the process at this port of the container is alive."""
    return ["CMD", "python", "-c", f"from urllib.request import urlopen; urlopen('http://127.0.0.1:{port}/livez')"]


def backlog_metric(deployment: Deployment) -> str:
    """Return the PromQL for the number of ready and running jobs in queues that are not paused.

    Several processes may export the same store, so the largest figure of each queue counts.
    """
    jobs = f'max by (queue, state) (stanchion_queue_jobs{{{_selector(deployment)}state=~"ready|running"}})'
    return f"sum({jobs} unless on (queue) {_PAUSED})"


def lag_metric(deployment: Deployment) -> str:
    """Return the PromQL for the seconds since the oldest ready job was due, in queues that are not paused."""
    selector = _selector(deployment).rstrip(",")
    age = "stanchion_oldest_job_age_seconds" + (f"{{{selector}}}" if selector else "")
    return f"max({age} unless on (queue) {_PAUSED})"


def backlog_query(deployment: Deployment) -> str:
    """Return the same number as SQL for PostgreSQL. It stops counting where more jobs would change nothing."""
    names = " OR ".join(_named(name) for name in deployment.queues)
    whose = f"({names}) AND " if names else ""
    ready = f"state = '{QUEUED}' AND run_at <= extract(epoch FROM now()) * 1000000"
    paused = "queue NOT IN (SELECT name FROM stanchion_queues WHERE paused)"
    most = deployment.threads * deployment.max_replicas
    ours = f"{whose}{paused} AND (state = '{JobState.RUNNING}' OR {ready})"
    return f"SELECT count(*) FROM (SELECT 1 FROM stanchion_jobs WHERE {ours} LIMIT {most}) AS jobs"  # noqa: S608 - KEDA binds no values; names are quoted


_PAUSED = "(max by (queue) (stanchion_queue_paused) == 1)"


def _seconds(deployment: Deployment) -> str:
    return f"{deployment.grace:g}s"


def _selector(deployment: Deployment) -> str:
    """Return the label matcher of the queues, with a comma after it; a `*` in a name stands for any text."""
    if not deployment.queues:
        return ""
    patterns = (".*".join(map(re.escape, name.split("*"))) for name in deployment.queues)
    return f"queue=~{json.dumps('|'.join(patterns), ensure_ascii=False)},"


def _named(queue: str) -> str:
    """Return the condition on a queue of this name or pattern, or on a partition of it."""
    plain = "split_part(queue, '#', 1)"
    if "*" not in queue:
        return f"{plain} = {_sql(queue)}"
    escaped = re.sub(r"([\\%_])", r"\\\1", queue).replace("*", "%")
    return f"{plain} LIKE {_sql(escaped)}"


def _sql(text: str) -> str:
    quoted = text.replace("'", "''")
    return f"'{quoted}'"
