"""Probes and metrics, on the port of the page.

/livez, /healthz   200 while the process answers
/readyz            200 while the store answers, too
/metrics           for Prometheus; takes a token or a session, of any role

Probes take none, as Kubernetes probes have none, and reveal nothing but the status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from stanchion.alerts.alerts import monitor
from stanchion.alerts.collector import Keep, StoreMetrics
from stanchion.context import context_of
from stanchion.errors import MissingExtra, SchemaMismatch, StanchionError
from stanchion.ops.web.access.bearer import UnknownToken
from stanchion.ops.web.endpoints import Endpoints
from stanchion.ops.web.site import FIRST_SECONDS, Site
from stanchion.telemetry.prometheus import exposed, metric_families, new_registry
from stanchion.telemetry.server import Answer, verdict
from stanchion.telemetry.server import Route as Expose

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

RETRY: Final = {"Retry-After": "5"}


class Probes:
    """The routes for machines on the port of one site. `streams`: returns the open streams."""

    def __init__(self, endpoints: Endpoints, streams: Callable[[], int]) -> None:
        self._endpoints, self._site, self._streams = endpoints, endpoints.site, streams

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/livez", self.alive),
            Route("/healthz", self.alive),
            Route("/readyz", self.ready),
            Route("/metrics", self.metrics),
        ]

    async def alive(self, _: Request) -> Response:
        """Answer that the process works."""
        return _answer(verdict(None))

    async def ready(self, _: Request) -> Response:
        """Answer whether the store does."""
        return _answer(await run_in_threadpool(self._readiness))

    def _readiness(self) -> Answer:
        try:
            self._site.deadlines.read("readiness", "The store", lambda: self._site.store.now())
        except SchemaMismatch as error:
            return verdict(str(error))
        except StanchionError:
            return verdict("the store does not answer")
        return verdict("it stops" if self._site.closed else None)

    async def metrics(self, request: Request) -> Response:
        """Answer with the metrics of this process and of its store."""
        if (refused := self._refusal(request)) is not None:
            return refused
        return await run_in_threadpool(self._metrics, request.headers.get("accept", ""))

    def _metrics(self, accept: str) -> Response:
        try:
            return _answer(self._exposed(accept))
        except MissingExtra as error:
            return PlainTextResponse(f"{error}\n", 501)
        except StanchionError as error:
            return PlainTextResponse(f"{self._site.redaction.text(str(error))}\n", 503, RETRY)

    def _refusal(self, request: Request) -> Response | None:
        try:
            caller = self._site.bearers.caller_of(request, asyncio.get_running_loop().time())
        except UnknownToken as error:
            headers = {"Retry-After": str(int(error.wait) + 1)} if error.wait else {}
            return PlainTextResponse(f"{error}\n", 429 if error.wait else 401, headers)
        if caller is not None and caller.program is not None:
            return PlainTextResponse("the token of a program reads no metrics\n", 403)
        if caller is not None or (reason := self._endpoints.refusal(request)) is None:
            return None
        headers = {"WWW-Authenticate": 'Bearer realm="stanchion"'}
        return PlainTextResponse(f"{reason}: send a token in Authorization\n", 401, headers)

    @cached_property
    def _exposed(self) -> Expose:
        registry = new_registry()
        WebCollector(self._site, self._streams).register(registry)
        return exposed(registry, self._of_store)

    @cached_property
    def _of_store(self) -> StoreMetrics:
        return StoreMetrics(self._read)

    def _read(self, keep: Keep) -> None:
        """Return the pages' last reading while some are open; else read the store, within a deadline.

        A late reading continues in its thread and is kept: where it took longer than a scrape may wait, the next scrape
        is served it.
        """
        sampler = self._site.sampler
        if sampler.awake and sampler.sample:
            keep(sampler.sample.monitor)
            return
        self._site.deadlines.read("metrics", "The metrics", lambda: self._monitor(keep))

    def _monitor(self, keep: Keep) -> None:
        if not self._of_store.kept:
            self._site.deadlines.allow(FIRST_SECONDS)  # it counts all live jobs, and there is nothing else to serve
        keep(monitor(context_of(self._site.app)))


class WebCollector:
    """Exports the figures of the page's process."""

    def __init__(self, site: Site, streams: Callable[[], int]) -> None:
        self._site, self._streams = site, streams

    def register(self, registry: CollectorRegistry) -> None:
        """Export from this registry."""
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics."""
        return self._families()

    def _families(self) -> Iterator[Metric]:
        core = metric_families()
        for name, said, value in (
            ("stanchion_web_streams", "Tabs with an event stream.", self._streams()),
            ("stanchion_web_late_reads", "Reads of the store that are late now.", self._site.deadlines.late),
        ):
            gauge = core.GaugeMetricFamily(name, said)
            gauge.add_metric([], value)
            yield gauge
        renders = core.CounterMetricFamily("stanchion_web_renders", "Pages rendered again for open tabs.")
        renders.add_metric([], self._site.fragments.renders)
        yield renders


def _answer(found: Answer) -> Response:
    return Response(found.body, found.status, {"Content-Type": found.content_type})
