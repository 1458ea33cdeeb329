"""Jobs have one name, wherever people meet them: of their task, else key, station, or first fields."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.ops.cli.live.sample import sample
from stanchion.ops.naming import job_name, job_names
from stanchion.ops.reads.lists import page_of
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Query
from tests.cli.conftest import Run
from tests.web.conftest import Browser, site_of

NAMES = {
    "task": "pay",
    "key": "order-9",
    "station": "clean",
    "moved": "load",
    "letter": "clean",
    "fields": "order 17, city Paris, paid true",
    "secret": "user eva, password •••",
    "text": "hello world",
    "number": "12",
    "list": '["a", 1]',
    "empty": "payload",
    "nested": "id 3",
    "long": "note " + 42 * "x" + "…",
}


@pytest.fixture
def memory() -> Iterator[Stanchion]:
    app = Stanchion("memory://")
    app.setup()
    yield app
    app.close()


def filled(app: Stanchion) -> dict[str, str]:
    """Push a job of each kind; return their ids by kind."""
    app.task(name="pay", queue="mail")(lambda: None)
    etl = app.pipeline("etl")
    etl.station("clean", to="load", max_attempts=1)(lambda item: item)
    etl.station("load")(lambda item: item)
    mail, clean = app.queue("mail"), app.queue("etl.clean")
    moved = clean.push({"a": 1}).id
    assert app.drain(["etl.clean"]) == 1
    clean.configure(dead_letter="etl.dead")
    letter = clean.push({"a": 2}).id
    clean.reserve()[0].bury("no")
    return {
        "task": app.enqueue("pay", queue="mail").id,
        "key": mail.push({"a": 1}, key="order-9").id,
        "station": clean.push({"a": 3}).id,
        "moved": moved,
        "letter": letter,
        "fields": mail.push({"order": 17, "city": "Paris", "none": None, "paid": True, "more": 1}).id,
        "secret": mail.push({"user": "eva", "password": "hunter2"}).id,
        "text": mail.push(" hello\n world").id,
        "number": mail.push(12).id,
        "list": mail.push(["a", 1]).id,
        "empty": mail.push({}).id,
        "nested": mail.push({"order": {"id": 1}, "id": 3}).id,
        "long": mail.push({"note": "x" * 9000}).id,
    }


def test_each_list_and_each_page_has_the_name(memory: Stanchion) -> None:
    app, ids = memory, filled(memory)
    with Browser(site_of(app)) as browser:
        listed = dict(re.findall(r'href="/jobs/([0-9a-f-]{36})">([^<]*)<', browser.get("/jobs").text))
        for kind, name in NAMES.items():
            shown = name.replace('"', "&#34;")
            assert listed[ids[kind]] == shown, kind
            assert re.search(rf"</svg>{re.escape(shown)} ", browser.get(f"/jobs/{ids[kind]}").text), kind
    now = app.store.now()
    jobs = page_of(context_of(app), app.store, Query(), now, None).jobs
    names = job_names(context_of(app), app.store, jobs, now)
    assert {kind: names[job_id] for kind, job_id in ids.items()} == NAMES
    assert {kind: job_name(context_of(app), job) for kind in NAMES if (job := app.get(ids[kind]))} == NAMES


def test_payloads_are_read_only_for_names_and_only_small_ones(
    memory: Stanchion, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = memory
    read: list[int] = []
    fetch = app.store.fetch

    def counted(ids: list[str]) -> dict[str, JobRow]:
        read.append(len(ids))
        return fetch(ids)

    monkeypatch.setattr(app.store, "fetch", counted)
    app.queue("keys").push(1, key="k")
    names_of = lambda queue: job_names(context_of(app), app.store, app.find(queue=queue, limit=50), app.store.now())  # noqa: E731
    assert set(names_of("keys").values()) == {"k"}
    assert read == []
    app.queue("small").push_many({"n": number} for number in range(20))
    assert len(set(names_of("small").values())) == 20
    assert read == [5, 15]
    read.clear()
    app.queue("large").push_many({"n": number, "blob": "x" * 400_000} for number in range(20))
    assert sum(name != "payload" for name in names_of("large").values()) == 5
    assert read == [5]


def test_running_jobs_and_holders_have_names(memory: Stanchion) -> None:
    app = memory
    app.semaphore("psp", 1)
    for number in range(2):
        app.queue("mail").push({"order": number}, limits=["psp"])
    app.store.set_semaphore("psp", 1)
    app.queue("mail").reserve(2)
    assert list(sample(app).names.values()) == ["order 0"]
    with Browser(site_of(app)) as browser:
        text = browser.get("/semaphores/psp").text
        assert "order 0</a>" in text
        assert "order 1</a>" in text


def test_the_shell_shows_the_name(run: Run, app: Stanchion) -> None:
    job = app.queue("mail").push({"order": 17, "password": "hunter2"})
    for command in (["jobs"], ["show", job.id]):
        printed = run(*command).out
        assert "order 17" in printed
        assert "hunter2" not in printed
