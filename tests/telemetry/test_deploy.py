"""The dashboard and the alert rules ask for metrics that are exported."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import promql_parser
import pytest
import yaml
from docs.site.reference import metrics
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from stanchion import Stanchion, Worker
from stanchion.alerts.alerts import monitor_of_store
from stanchion.alerts.collector import StoreMetrics
from stanchion.alerts.records import Level
from stanchion.core.project import FILES, RUNBOOK
from stanchion.manager.dispatch.figures import EngineStatus
from stanchion.manager.service.metrics import ManagerCollector
from stanchion.ops.deployment.programs import backlog_metric, lag_metric
from stanchion.ops.deployment.rendering import grafana, prometheus
from stanchion.ops.deployment.settings import Deployment
from stanchion.ops.web.access.callers import Tokens
from stanchion.ops.web.probes import WebCollector
from stanchion.ops.web.site import Site
from stanchion.stores.memory import MemoryStore
from stanchion.stores.records.jobs import JobState, Lease
from stanchion.stores.records.managers import QueueFigures
from stanchion.stores.records.outcomes import Bury, Commit, Rollback
from stanchion.telemetry.counts import name_of
from stanchion_conformance.jobs.chunk_contents import chunk
from tests.telemetry.scrape import get
from tests.worker.conftest import ended, until

ROOT = Path(__file__).parents[2]
OF_THE_SCRAPE = frozenset({"instance", "job", "le"})


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(grafana().text)
    return found


def rules(runbook: str | None = None) -> list[dict[str, Any]]:
    groups = yaml.safe_load(prometheus(runbook).text)["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> dict[str, str]:
    """All expressions, by where they stand."""
    found = {f"rule {rule['alert']}": rule["expr"] for rule in rules()}
    for panel in dashboard()["panels"]:
        found |= {f"{panel['title']} {one['refId']}": one["expr"] for one in panel["targets"]}
    return {where: text.replace("$queue", ".*") for where, text in found.items()}


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The labels of each sample that workers, managers and stores export."""
    store = MemoryStore()
    app = Stanchion(store=store)

    @app.task(name="fails", queue="mail", max_attempts=1)
    def fails() -> None:
        raise ValueError

    job = fails.enqueue()
    app.queue("idle").push({})
    store.push([chunk(2, queue="idle")])
    worker = Worker(app, metrics=True)
    worker.start()
    ended(app, job.id)
    store.clock_offset = 1000.0
    registry = worker._registry
    assert registry is not None
    until(lambda: "stanchion_jobs_died_total" in _samples(registry))
    of_worker = _samples(registry)
    worker.stop(0)
    return {**of_worker, **_samples(_of_manager()), **_of_store(store), **_samples(_of_page(app))}


def _of_manager() -> CollectorRegistry:
    registry = CollectorRegistry()
    status = EngineStatus((QueueFigures("mail", 1, 2, 3.0, 4, 5, 6, 7, 8, 9, 10),), (), 1, 2, 3, True)
    ManagerCollector(lambda: status, lambda: True).register(registry)
    return registry


def _of_store(store: MemoryStore) -> dict[str, set[str]]:
    text = StoreMetrics.of(lambda: monitor_of_store(store)).text(openmetrics=False).decode()
    return {one.name: set(one.labels) for family in text_string_to_metric_families(text) for one in family.samples}


def _of_page(app: Stanchion) -> CollectorRegistry:
    registry = CollectorRegistry()
    WebCollector(Site(app, Tokens([])), lambda: 0).register(registry)
    return registry


def _samples(registry: CollectorRegistry) -> dict[str, set[str]]:
    return {sample.name: set(sample.labels) for family in registry.collect() for sample in family.samples}


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the metrics of an expression, each with the labels by which it is selected."""
    for name, inside in re.findall(r"(stanchion_\w+)(?:\{([^}]*)\})?", expression):
        yield name, set(re.findall(r"(\w+)\s*[=!]", inside))


@pytest.mark.parametrize("where", expressions())
def test_an_expression_asks_for_what_is_exported(where: str, exported: dict[str, set[str]]) -> None:
    expression = expressions()[where]
    promql_parser.parse(expression)
    found = list(selectors(expression))
    assert found
    for name, labels in found:
        assert name in exported, f"{where}: no {name}"
        assert labels <= exported[name] | OF_THE_SCRAPE
    grouped = {label.strip() for inside in re.findall(r"by \(([^)]*)\)", expression) for label in inside.split(",")}
    assert grouped <= set.union(*(exported[name] for name, _ in found)) | OF_THE_SCRAPE, where


LEASE = Lease("01a1fc69-dac4-74f4-a99e-8e16cdc39180", "token", "mail")
KNOWN: dict[str, set[str]] = {
    "outcome": {name_of(one) for one in (Commit(LEASE), Rollback(LEASE, 0, "error"), Bury(LEASE, "error"))},
    "state": {JobState.READY, JobState.SCHEDULED, JobState.WAITING, JobState.RUNNING},
    "level": set(get_args(Level)),
}
"""Values of labels by which expressions select."""


def test_expressions_select_values_that_exist() -> None:
    scaler = Deployment()
    texts = {**expressions(), "backlog": backlog_metric(scaler), "lag": lag_metric(scaler)}
    selected = set()
    for where, text in texts.items():
        for label, values in re.findall(r'(outcome|state|level)\s*=~?\s*"([^"]+)"', text):
            assert set(values.split("|")) <= KNOWN[label], where
            selected.add(label)
    assert selected == set(KNOWN)


def test_the_scaler_asks_for_exported_metrics(exported: dict[str, set[str]]) -> None:
    for text in (backlog_metric(Deployment(queues=("mail",))), lag_metric(Deployment(queues=("mail",)))):
        found = list(selectors(text))
        assert len(found) == 2
        for name, labels in found:
            assert labels <= exported[name]


def test_rules_name_a_section_of_the_docs_and_labels_that_they_keep() -> None:
    for rule in rules():
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page.startswith(f"{FILES}/docs/")
        text = (ROOT / page.removeprefix(f"{FILES}/")).read_text("utf-8")
        assert not anchor or "{{" in anchor or re.search(f"^###? {anchor.replace('-', '.')}$", text, re.I | re.M), rule[
            "alert"
        ]
        assert rule["labels"]["severity"] in ("page", "ticket")
        used = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        kept = re.findall(r"by \(([^)]*)\)", rule["expr"])
        assert not kept or used <= {label.strip() for label in kept[0].split(",")}, rule["alert"]


def test_names_and_units_are_by_convention(exported: dict[str, set[str]]) -> None:
    ours = {name for name in exported if name.startswith("stanchion_") and not name.endswith("_created")}
    assert all(re.fullmatch(r"[a-z_]+", name) for name in ours)
    assert not [name for name in ours if re.search(r"_(ms|millis|minutes|percent)\b", name)]


def test_every_metric_is_documented(exported: dict[str, set[str]]) -> None:
    page = metrics.page()
    bases = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in exported if name.startswith("stanchion_")}
    assert {name for name in bases if f"`{name}`" not in page} == set()
    told = set(re.findall(r"^\| `(stanchion_\w+)`", page, re.MULTILINE))
    assert told == bases


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in dashboard()["panels"]]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(cells) == len(set(cells))
    assert all(p["x"] + p["w"] <= 24 for p in places)


def test_your_runbook_replaces_the_projects() -> None:
    links = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules("https://wiki.example.com/ops#")}
    assert links["StanchionJobsDie"] == "https://wiki.example.com/ops#dead-letters"
    assert links["StanchionNeedsAPersonNow"] == "https://wiki.example.com/ops#{{ $labels.rule }}"
    assert not [link for link in links.values() if link.startswith(RUNBOOK)]


def test_the_paths_of_the_probes_are_served() -> None:
    app = Stanchion("memory://")
    app.task(name="t", queue="q")(print)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    worker = Worker(app, health_port=port)
    worker.start()
    try:
        assert [get(port, path)[0] for path in ("/livez", "/readyz")] == [200, 200]
    finally:
        worker.stop(0)
