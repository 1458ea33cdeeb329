"""Reference of the metrics for Prometheus, from what the collectors export."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import closing
from types import SimpleNamespace
from typing import Any, NamedTuple

from docs.site.reference.tables import code, prose, table

from stanchion import Stanchion
from stanchion.alerts.collector import StoreMetrics
from stanchion.core.ids import new_id
from stanchion.core.values.framing import chunk_with
from stanchion.manager.dispatch.figures import EngineStatus
from stanchion.manager.service.metrics import ManagerCollector
from stanchion.ops.web.probes import WebCollector
from stanchion.stores.records.jobs import NewJob
from stanchion.telemetry.counts import Sums
from stanchion.telemetry.jobs import WorkerCollector


class Metric(NamedTuple):
    """A metric, as a scrape shows it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    about: str


def page() -> str:
    """Return the page."""
    parts = ["# Metrics", "[Probes and metrics](/metrics.md) says where they are served and what they cost."]
    for title, metrics in by_source().items():
        rows = [(code(one.name), one.kind, ", ".join(map(code, one.labels)), prose(one.about)) for one in metrics]
        parts += [f"## {title}", table(["metric", "type", "labels", "meaning"], rows)]
    return "\n\n".join(parts) + "\n"


def by_source() -> dict[str, list[Metric]]:
    """Return the metrics of each process."""
    site: Any = SimpleNamespace(deadlines=SimpleNamespace(late=0), fragments=SimpleNamespace(renders=0))
    status = EngineStatus((), (), 0, 0, 0, True)
    return {
        "Of a worker": _collected(WorkerCollector(Sums).collect()),
        "Of the store": _of_store(),
        "Of the page": _collected(WebCollector(site, lambda: 0).collect()),
        "Of a manager": _collected(ManagerCollector(lambda: status, lambda: True).collect()),
    }


def _collected(families: Iterable[Any]) -> list[Metric]:
    return [
        Metric(
            one.name + ("_total" if one.type == "counter" else ""), one.type, tuple(one._labelnames), one.documentation
        )
        for one in families
    ]


def _of_store() -> list[Metric]:
    """Scrape a store with a dead job and a chunk, so that each family has a sample."""
    with closing(Stanchion("memory://")) as app:
        queue = app.queue("example")
        queue.push(1)
        for job in queue.reserve(1):
            job.bury("an example")
        queue.push(2)
        app.store.push([NewJob(new_id(), "example", chunk_with(2, b""))])
        text = StoreMetrics.of(app.monitor).text(openmetrics=False).decode()
    found = []
    for name, about in re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE):
        kind = re.search(rf"^# TYPE {name} (\w+)$", text, re.MULTILINE)
        sample = re.search(rf"^{name}\{{(.*)\}} ", text, re.MULTILINE)
        labels = tuple(re.findall(r'(\w+)="', sample[1])) if sample else ()
        found.append(Metric(name, kind[1] if kind else "", labels, about))
    return found
