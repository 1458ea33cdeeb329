"""stanchion report, without Spark."""

from __future__ import annotations

import json
import re
import shlex
import sys
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest

from stanchion import Stanchion
from stanchion.errors import MissingExtra
from stanchion.reporting.report import report
from tests.cli.conftest import Run


@pytest.fixture
def done(app: Stanchion) -> Stanchion:
    mail = app.queue("mail")
    mail.push_many(range(5))
    for job in mail.reserve(5):
        if job.payload:
            job.commit()
        else:
            job.bury("TimeoutError: no answer in 7 s")
    return app


def test_writes_the_page(run: Run, done: Stanchion, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    answer = run("report", "--out", str(page), "--title", "A day")
    assert (answer.code, answer.out) == (0, f"wrote {page}: 5 finished jobs\n")
    text = page.read_text()
    assert "<h1>1 of 5 jobs died, in mail.</h1>" in text
    (dead,) = done.queue("mail").find(state="dead")
    assert f"stanchion retry --queue mail --error {dead.error_group}" in text
    assert dead.id in text
    assert run("retry", "--queue", "mail", "--error", str(dead.error_group)).out == "retried: 1 job\n"


def test_each_command_of_the_page_finds_its_jobs(run: Run, app: Stanchion, tmp_path: Path) -> None:
    """Of tasks, of dead letters elsewhere, of items of chunks, and of queues whose names a shell would read."""
    app.queue("lost & found").configure(dead_letter="letters")
    app.queue("lost & found").push_many(range(2))
    for job in app.queue("lost & found").reserve(2):
        job.bury(f"TimeoutError: no answer in {job.payload} s")

    @app.task(queue="work", max_attempts=1)
    def ship(order: int) -> None:
        raise ValueError(f"order {order} is lost")

    ship.enqueue(1)
    etl = app.pipeline("etl")

    @etl.station("raw", max_attempts=1)
    def raw(item: dict[str, int]) -> None:
        raise KeyError("all" if item["n"] >= 10 else f"item {item['n']}")

    etl.push_chunks([{"n": n} for n in range(4)], size=4)
    etl.push_chunks([{"n": 10}] * 200, size=200)
    etl.push({"n": 1})
    app.drain()
    page = tmp_path / "page.html"
    run("report", "--out", str(page))
    commands = [unescape(one) for one in re.findall(r">(stanchion retry [^<]+)<", page.read_text())]
    found = {}
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "stanchion"
        found[arguments[2], arguments[-1]] = run(*arguments, "--dry-run").out
    assert sorted((queue, told) for (queue, _), told in found.items()) == [
        ("etl.raw", "would retry: 1 job\n"),
        ("etl.raw", "would retry: 5 jobs\n"),
        ("lost & found", "would retry: 2 jobs\n"),
        ("work", "would retry: 1 job\n"),
    ]


def test_figures(run: Run, done: Stanchion) -> None:
    found = run("report", "--json", "--queue", "mail").json
    assert found["whole"]["jobs"] == 5
    assert found["errors"]["rows"][0]["error"] == "TimeoutError: no answer in ‹n› s"
    assert run("report", "--json", "--queue", "other").code == 1
    assert done.queue("mail").counts().pushed == 5


@pytest.mark.usefixtures("done")
def test_nothing_in_the_time(run: Run, tmp_path: Path) -> None:
    answer = run("report", "--until", "1h", "--out", str(tmp_path / "page.html"))
    assert answer.code == 1
    assert "no job has finished" in answer.err
    assert "Nothing to report" in (tmp_path / "page.html").read_text()


def without_spark(*_: object) -> None:
    raise MissingExtra("spark", "the report")


@pytest.mark.usefixtures("done")
def test_too_many_for_python(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[report.__module__], "MOST", 4)
    monkeypatch.setattr("stanchion.ops.cli.wings.report._by_spark", without_spark)
    answer = run("report", "--out", str(tmp_path / "page.html"))
    assert answer.code != 0
    assert "more than 4 jobs have finished in this time" in answer.error
    assert "pip install 'stanchion[spark]'" in answer.error


def test_the_period_before(done: Stanchion) -> None:
    now = datetime.now(UTC)
    soon = now + timedelta(hours=1)
    found = report(done, since=soon, until=soon + timedelta(days=1)).figures
    assert (found["whole"]["jobs"], found["before"]["jobs"], found["before"]["dead"]) == (0, 5, 1)
    assert report(done, until=soon).figures["before"] is None
    found = report(done, since=now - timedelta(days=1)).figures
    assert (found["whole"]["jobs"], found["before"]["jobs"]) == (5, 0)


def test_the_oldest_that_waits(done: Stanchion) -> None:
    assert report(done).figures["now"] is None
    done.queue("mail").push(1)
    assert report(done).figures["now"]["queue"] == "mail"
    assert report(done, queues=["other"]).figures["now"] is None


def test_a_job_waits_from_the_moment_when_it_is_due(done: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    done.queue("mail").push(1)
    due = done.store.stats(["mail"], ["next_due"])["mail"].next_due
    assert due is not None
    monkeypatch.setattr(done.store, "now", lambda: due)
    assert report(done).figures["now"] == {"queue": "mail", "oldest": 0.0}
    monkeypatch.setattr(done.store, "now", lambda: due - 1)
    assert report(done).figures["now"] is None


def test_dead_letters_wait_for_nobody(app: Stanchion) -> None:
    app.queue("mail", dead_letter="mail-dead").push(1)
    (job,) = app.queue("mail").reserve()
    job.bury("gone")
    made = report(app)
    assert (made.figures["whole"]["dead"], made.figures["now"]) == (1, None)
    assert made.figures["tasks"]["rows"][0]["queue"] == "mail"
    assert report(app, queues=["mail-dead"]).jobs == 0
    json.loads(made.json())
