"""The middleware that comes with the package: log context, Sentry, Django."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stanchion import Bury, Cancel, MissingExtra, Retry, RetryAfter, Snooze, Stanchion
from stanchion.context import context_of
from stanchion.middleware import DjangoConnections, LogContext, Sentry
from stanchion.service.logs import JsonLines
from tests.worker.conftest import ended, working

KINDS = ["sync", "async"]


@pytest.fixture
def app() -> Iterator[Stanchion]:
    app = Stanchion("memory://")
    yield app
    app.close()


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The log as the worker writes it, in JSON."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonLines())
    logging.root.addHandler(handler)
    yield text
    logging.root.removeHandler(handler)


def records(lines: io.StringIO, logger: str = "shop") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [one for one in found if one["logger"] == logger]


log = logging.getLogger("shop")


class TestLogContext:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("route", ["drain", "worker"])
    def test_names_the_job_in_each_record(self, app: Stanchion, lines: io.StringIO, kind: str, route: str) -> None:
        app.middleware(LogContext())

        def charge() -> None:
            log.warning("charged")

        async def acharge() -> None:
            await asyncio.to_thread(log.warning, "charged")

        job = app.task(name="charge", queue="money")(charge if kind == "sync" else acharge).enqueue()
        if route == "drain":
            app.drain()
        else:
            with working(app):
                ended(app, job.id)
        log.warning("outside")
        inside, outside = records(lines)
        assert {name: inside.get(name) for name in ("job", "task", "attempt", "queue")} == {
            "job": job.id,
            "task": "charge",
            "attempt": 1,
            "queue": "money",
        }
        assert not {"job", "task", "attempt", "queue"} & outside.keys()

    def test_names_the_number_of_jobs_of_a_batch(self, app: Stanchion, lines: io.StringIO) -> None:
        app.middleware(LogContext())

        @app.task(name="charge", queue="money", batch=10)
        def charge(orders: list[int]) -> None:
            log.warning("charged %d", len(orders))

        charge.enqueue_many([(1,), (2,)])
        app.drain()
        (record,) = records(lines)
        assert {name: record.get(name) for name in ("job", "jobs", "task", "attempt", "queue")} == {
            "job": None,
            "jobs": 2,
            "task": "charge",
            "attempt": None,
            "queue": "money",
        }

    def test_leaves_what_the_call_says(self, app: Stanchion, lines: io.StringIO) -> None:
        app.middleware(LogContext())

        @app.task(name="charge")
        def charge() -> None:
            log.warning("charged", extra={"job": "another", "order": 17})

        charge.enqueue()
        app.drain()
        (record,) = records(lines)
        assert (record["job"], record["order"], record["task"]) == ("another", 17, "charge")

    def test_reaches_handlers_of_loggers_and_those_made_later(self, app: Stanchion) -> None:
        app.middleware(LogContext())

        @app.task(name="charge", queue="money")
        def charge() -> None:
            logging.getLogger("shop.own").warning("charged")

        own, text = logging.getLogger("shop.own"), io.StringIO()
        for _ in range(2):
            charge.enqueue()
            app.drain()
            if not own.handlers:
                own.addHandler(handler := logging.StreamHandler(text))
                handler.setFormatter(logging.Formatter("%(task)s %(attempt)s %(message)s"))
                logging.getLogger("shop.another")  # a new logger: all are read again
        own.removeHandler(handler)
        assert text.getvalue() == "charge 1 charged\n"

    def test_names_the_span(self, lines: io.StringIO) -> None:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider

        app = Stanchion("memory://", traces=True)
        traces = context_of(app).traces
        assert traces is not None
        traces._tracer = TracerProvider().get_tracer("test")
        app.middleware(LogContext())
        seen: list[str] = []

        @app.task(name="charge")
        def charge() -> None:
            seen.append(f"{trace.get_current_span().get_span_context().trace_id:032x}")
            log.warning("charged")

        charge.enqueue()
        app.drain()
        assert [record["trace_id"] for record in records(lines)] == seen


@pytest.fixture
def events() -> Iterator[list[dict[str, Any]]]:
    import sentry_sdk
    from sentry_sdk.envelope import Envelope
    from sentry_sdk.transport import Transport

    found: list[dict[str, Any]] = []

    class Kept(Transport):
        def capture_envelope(self, envelope: Envelope) -> None:
            found.extend(json.loads(item.get_bytes()) for item in envelope.items)

    sentry_sdk.init(dsn="http://key@localhost/1", transport=Kept, traces_sample_rate=1.0, default_integrations=False)
    yield found
    sentry_sdk.init(default_integrations=False)


def of_kind(events: list[dict[str, Any]], kind: str | None) -> list[dict[str, Any]]:
    return [event for event in events if event.get("type") == kind]


class TestSentry:
    @pytest.mark.parametrize("kind", KINDS)
    def test_reports_the_errors_of_attempts(self, app: Stanchion, events: list[dict[str, Any]], kind: str) -> None:
        app.middleware(Sentry())

        def charge(order: int) -> None:
            raise ConnectionError(f"no answer for {order}")

        async def acharge(order: int) -> None:
            charge(order)

        retry = Retry.constant(0, max_attempts=2)
        job = app.task(name="charge", queue="money", retry=retry)(charge if kind == "sync" else acharge).enqueue(7)
        app.drain()
        errors = of_kind(events, None)
        assert [error["exception"]["values"][0]["value"] for error in errors] == ["no answer for 7"] * 2
        assert [error["contexts"]["stanchion"]["attempt"] for error in errors] == [1, 2]
        assert errors[0]["contexts"]["stanchion"]["job"] == job.id
        assert errors[0]["tags"]["stanchion.queue"] == "money"
        assert errors[0]["transaction"] == "charge"
        transactions = of_kind(events, "transaction")
        assert [(one["transaction"], one["contexts"]["trace"]["status"]) for one in transactions] == [
            ("charge", "internal_error")
        ] * 2

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("outcome", [Bury("no"), Cancel("no"), Snooze(60), RetryAfter(60)])
    @pytest.mark.parametrize("raised", [True, False])
    def test_an_outcome_is_no_issue(
        self, app: Stanchion, events: list[dict[str, Any]], kind: str, outcome: Exception, raised: bool
    ) -> None:
        app.middleware(Sentry())

        def charge() -> Any:
            if raised:
                raise outcome
            return outcome

        async def acharge() -> Any:
            return charge()

        with app.testing():
            app.task(name="charge")(charge if kind == "sync" else acharge).enqueue()
            app.drain()
        assert of_kind(events, None) == []
        (transaction,) = of_kind(events, "transaction")
        assert transaction["contexts"]["trace"]["status"] == "ok"

    def test_an_error_of_a_batch_is_one_issue(self, app: Stanchion, events: list[dict[str, Any]]) -> None:
        app.middleware(Sentry())

        @app.task(name="charge", queue="money", batch=10)
        def charge(orders: list[int]) -> None:
            raise ConnectionError(f"no answer for {orders}")

        charge.enqueue_many([(1,), (2,)])
        app.drain()
        (error,) = of_kind(events, None)
        assert error["contexts"]["stanchion"] == {"task": "charge", "queue": "money", "jobs": 2}
        assert error["transaction"] == "charge"

    def test_a_time_out_is_one(self, app: Stanchion, events: list[dict[str, Any]]) -> None:
        app.middleware(Sentry())

        @app.task(name="slow", timeout=0.05, max_attempts=1)
        def slow() -> None:
            while True:
                sum(range(1000))

        with working(app):
            ended(app, slow.enqueue().id)
        assert [one["exception"]["values"][0]["type"] for one in of_kind(events, None)] == ["TaskTimeout"]

    def test_continues_the_trace_in_the_headers(self, app: Stanchion, events: list[dict[str, Any]]) -> None:
        app.middleware(Sentry())
        trace, span = "0123456789abcdef0123456789abcdef", "0123456789abcdef"
        task = app.task(name="charge")(lambda: None)
        task.using(headers={"sentry-trace": f"{trace}-{span}-1"}).enqueue()
        app.drain()
        (transaction,) = of_kind(events, "transaction")
        assert transaction["contexts"]["trace"]["trace_id"] == trace
        assert transaction["contexts"]["trace"]["parent_span_id"] == span


class TestDjango:
    @pytest.mark.parametrize("kind", KINDS)
    def test_closes_old_connections_around_each_attempt(
        self, app: Stanchion, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        import django.db

        seen: list[str] = []

        class Connection:
            def __init__(self, alias: str, in_atomic_block: bool) -> None:
                self.alias, self.in_atomic_block = alias, in_atomic_block

            def close_if_unusable_or_obsolete(self) -> None:
                seen.append(f"close {self.alias}")

        connections = [Connection("default", False), Connection("of the caller's transaction", True)]
        handler = SimpleNamespace(all=lambda initialized_only: connections if initialized_only else [])
        monkeypatch.setattr(django.db, "connections", handler)
        monkeypatch.setattr(django.db, "reset_queries", lambda: seen.append("reset"))
        app.middleware(DjangoConnections())

        def charge() -> None:
            seen.append("job")
            connections[0].in_atomic_block = True  # it leaves a transaction open
            raise ConnectionError

        async def acharge() -> None:
            charge()

        app.task(name="charge", max_attempts=1)(charge if kind == "sync" else acharge).enqueue()
        app.drain()
        assert seen == ["reset", "close default", "job", "close default"]


@pytest.mark.parametrize(
    ("kind", "module", "extra"), [(Sentry, "sentry_sdk", "sentry"), (DjangoConnections, "django.db", "django")]
)
def test_without_their_library_they_name_the_extra(
    monkeypatch: pytest.MonkeyPatch, kind: Any, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, _absent())
    with pytest.raises(MissingExtra, match=rf"stanchion\[{extra}\]"):
        kind()


def _absent() -> ModuleType | None:
    return None
