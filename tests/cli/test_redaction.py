"""What people are not to see is hidden alike on pages, in the API, by each command, in reports, logs and traces."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion, Worker, redacted
from stanchion.context import context_of
from stanchion.service.logs import FORMATS, log_to_stderr
from tests.cli.conftest import Run
from tests.cli.test_worker import wait_until
from tests.web.conftest import Browser, site_of

SECRETS = ("4111-secret", "hunter2", "s3cret-header", "positional-pin", "s3cret-result")


@pytest.fixture
def ids(app: Stanchion, caplog: pytest.LogCaptureFixture) -> dict[str, str]:
    """Jobs with secrets by the names of their keys and parameters: one dead, one done; the worker's log is caught."""

    @app.task(name="pay", queue="pay", max_attempts=1)
    def pay(amount: int, card_pin: str, **_: Any) -> None:
        raise ValueError(f"no {amount} for {card_pin}: password=hunter2, card: '4111-secret'")

    @app.task(name="ask", queue="pay")
    def ask() -> dict[str, str]:
        return {"token": "s3cret-result", "shown": "yes"}

    headers = {"authorization": "s3cret-header"}
    order = {"card": "4111-secret", "password": "hunter2"}
    made = {
        "pay": pay.using(headers=headers).enqueue(7, "positional-pin", order=order).id,
        "ask": ask.enqueue().id,
    }
    worker = Worker(app, queues=["pay"], threads=1)
    worker.start()
    wait_until(lambda: all(job.finished_at for job in app.find(queue="pay")))
    worker.stop()
    assert "attempt 1 failed" in caplog.text
    _refuse_secrets(caplog.text, "the log")
    return made


def _refuse_secrets(text: str, where: str) -> None:
    assert [secret for secret in SECRETS if secret in text] == [], where


COMMANDS = (
    ["show", "{pay}"],
    ["show", "{pay}", "--json"],
    ["show", "{ask}"],
    ["jobs"],
    ["jobs", "--json"],
    ["jobs", "--error", "{group}", "--json"],
    ["errors"],
    ["errors", "--json"],
    ["report", "--json"],
    ["report", "--out", "{page}"],
    ["top", "--once"],
    ["alerts", "--json"],
    ["push", "pay", '{{"password": "hunter2"}}', "--json"],
)


@pytest.mark.parametrize("args", COMMANDS, ids=lambda args: " ".join(args[:1] + args[2:3]))
def test_each_command_hides_them(
    run: Run, app: Stanchion, ids: dict[str, str], tmp_path: Path, args: list[str]
) -> None:
    page = tmp_path / "report.html"
    group = app.find(state="dead")[0].error_group
    said = run(*(one.format(**ids, page=page, group=group) for one in args))
    assert said.out
    _refuse_secrets(said.out + said.err + (page.read_text() if page.exists() else ""), " ".join(args))


@pytest.mark.parametrize("args", [["errors"], ["errors", "--json"]], ids=["text", "json"])
def test_groups_of_errors_that_no_worker_has_tallied_hide_them(run: Run, app: Stanchion, args: list[str]) -> None:
    app.queue("pay").push(1)
    app.queue("pay").reserve()[0].bury("no answer, password=sesame")  # groups mask what has digits
    said = run(*args).out
    assert "no answer" in said
    assert "sesame" not in said


def test_reveal_shows_them(run: Run, ids: dict[str, str]) -> None:
    shown = run("show", ids["pay"], "--reveal", "--json").out
    assert [secret for secret in SECRETS[:4] if secret not in shown] == []
    assert "s3cret-result" in run("show", ids["ask"], "--reveal").out
    assert [entry["act"] for entry in json.loads(run("audit", "--json").out)].count("show hidden") == 2


def test_pages_and_the_api_hide_them(app: Stanchion, ids: dict[str, str]) -> None:
    site = site_of(app)
    browser = Browser(site)
    paths = [f"/jobs/{ids['pay']}", f"/jobs/{ids['ask']}", "/jobs", "/errors", "/queues/pay", "/", "/report"]
    paths += [f"/api/v1/jobs/{one}" for one in ids.values()]
    paths += ["/api/v1/jobs", "/api/v1/errors", "/api/v1/report", "/api/v1/alerts"]
    for path in paths:
        answer = browser.get(path)
        assert answer.status_code == 200, path
        _refuse_secrets(answer.text, path)
    site.close()


@pytest.mark.parametrize("form", FORMATS)
def test_the_log_of_a_process_hides_them(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    said = io.StringIO()
    monkeypatch.setattr("sys.stderr", said)
    monkeypatch.setattr(logging, "root", logging.RootLogger(logging.WARNING))
    log_to_stderr("info", form)
    try:
        raise ValueError("password=hunter2")
    except ValueError:
        logging.root.exception("it failed with token=s3cret-result", extra={"card": "4111-secret"})
    logging.root.handlers[0].flush()
    assert "it failed with" in said.getvalue()
    _refuse_secrets(said.getvalue(), form)


def test_an_event_for_an_error_tracker_hides_them() -> None:
    frame = {"vars": {"password": "'hunter2'", "amount": "7"}, "context_line": "pay(card='4111-secret')"}
    event = {"exception": {"values": [{"value": "token=s3cret-result", "stacktrace": {"frames": [frame]}}]}}
    told = redacted(event)
    _refuse_secrets(json.dumps(told), "the event")
    assert told["exception"]["values"][0]["stacktrace"]["frames"][0]["vars"]["amount"] == "7"


def test_a_task_may_say_that_it_hides_nothing(app: Stanchion) -> None:
    @app.task(name="swipe", queue="doors", hide=())
    def swipe(card: str) -> str:
        return card

    job = swipe.enqueue("a card")
    assert context_of(app).hidden.of(app.store, ["swipe"]) == {}
    assert job.job().payload == {"args": ["a card"]}
