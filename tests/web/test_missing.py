"""What is not there: names in addresses, and a store that is not set up."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stanchion import Stanchion
from tests.web.conftest import Browser, site_of


@pytest.mark.parametrize(
    "path",
    [
        *("/queues/nosuch", "/pause/nosuch", "/resume/nosuch", "/set/nosuch?setting=max_rate", "/push/nosuch"),
        *("/pipelines/nosuch", "/pause-pipeline/nosuch", "/streams/release/nosuch", "/semaphores/nosuch"),
        *("/errors/nosuch", "/errors/01234567", "/jobs/nosuch", "/flows/nosuch", "/schedules/run/nosuch"),
    ],
)
def test_an_unknown_name_is_not_found(browser: Browser, path: str) -> None:
    answer = browser.get(path)
    assert answer.status_code == 404
    assert "<h1" in answer.text


@pytest.mark.parametrize("path", ["/pause/nosuch", "/semaphores/nosuch", "/bulk/nosuch/stop", "/schedules/run/nosuch"])
def test_no_act_finds_an_unknown_name(browser: Browser, path: str) -> None:
    assert browser.submit(path, note="x", capacity="1").status_code == 404


@pytest.fixture
def newer_file(tmp_path: Path) -> str:
    """The address of a SQLite file whose tables are from a later release."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = Stanchion(url)
    app.setup()
    app.close()
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as file, file:
        file.execute("UPDATE stanchion_meta SET version = 9999")
    return url


@pytest.mark.parametrize("store", ["postgresql", "newer"])
def test_a_store_that_is_not_set_up_is_told(store: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("pg_url" if store == "postgresql" else "newer_file")
    site = site_of(Stanchion(url))
    browser = Browser(site)
    for path in ("/", "/queues", "/queues/mail", "/jobs", "/errors", "/semaphores", "/report", "/audit", "/more"):
        answer = browser.get(path)
        assert answer.status_code == 503, path
        assert "The store is not set up" in answer.text
        assert ("stanchion setup" in answer.text) == (store == "postgresql")
    ready = browser.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["reason"] != "the store does not answer"
    assert browser.get("/api/v1/queues").status_code == 503
    assert browser.get("/livez").status_code == 200
    site.close()
