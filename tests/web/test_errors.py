"""Errors in groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.core.ids import new_id
from stanchion.ops.reads.errors import FAILED, Errors, read_errors
from stanchion.ops.reads.filters import JobFilter
from stanchion.stores.registry import open_store
from stanchion.telemetry.failures import FailureTally
from tests.web.conftest import Browser


@pytest.fixture
def work() -> Iterator[Stanchion]:
    app = Stanchion(store=open_store("memory://"))

    def fail(order: int = 0) -> None:
        raise ValueError(f"no stock for {order}")

    for name in ("ship", "pack"):
        app.task(name=name, queue="work", max_attempts=1)(fail)
    app.task(name="again", queue="work", max_attempts=9)(fail)
    yield app
    app.close()


def read(app: Stanchion, **wanted: str) -> Errors:
    return read_errors(context_of(app), app.store, JobFilter.of(wanted), app.store.now())


def tally(app: Stanchion, *, dead: bool = False) -> None:
    """Tally all that has failed, as a worker does."""
    found = FailureTally()
    for job in app.find(limit=1000):
        for entry in job.errors:
            found.add(job.queue, job.task, entry["group"], entry["error"], job.id, new=True, dead=dead)
    found.merge(app.store)


def test_the_same_error_of_another_task_is_another_group(work: Stanchion) -> None:
    for name in ("ship", "pack", "ship"):
        work.enqueue(name)
    work.drain()
    groups = read(work).groups
    assert [(group.task, group.dead, group.queues) for group in groups] == [
        ("ship", 2, ["work"]),
        ("pack", 1, ["work"]),
    ]
    assert groups[0].key != groups[1].key
    assert groups[0].command == f"stanchion retry --queue work --task ship --error {groups[0].key}"


def test_what_fails_and_is_retried_is_shown_too(work: Stanchion) -> None:
    for number in range(3):
        work.enqueue("again", number)
    work.drain()
    found = [read(work)]
    tally(work)
    found.append(read(work))
    assert [one.tallied for one in found] == [False, True]
    for one in found:
        (group,) = one.groups
        assert (group.error, group.dead, group.in_the_hour(work.store.now())) == ("ValueError: no stock for ‹n›", 0, 3)
        assert len(group.ids) == 3


def test_the_dead_are_those_of_now(work: Stanchion) -> None:
    """What was re-driven is dead no more, whatever was tallied."""
    handles = [work.enqueue("ship", number) for number in range(3)]
    work.drain()
    tally(work, dead=True)
    work.retry_job(handles[0].id)
    (group,) = read(work).groups
    assert (group.dead, group.failures.dead) == (2, 3)


def test_a_filter_that_no_tally_knows_counts_jobs(work: Stanchion) -> None:
    work.using("ship", tenant="acme").enqueue(1)
    work.enqueue("ship", 2)
    work.drain()
    tally(work)
    assert read(work, queue="work").tallied
    assert read(work, queue="other").groups == []
    assert read(work, task="pack").groups == []
    found = read(work, tenant="acme")
    assert (found.tallied, [group.dead for group in found.groups]) == (False, [1])


class TestPages:
    def test_a_group_has_a_page(self, browser: Browser, app: Stanchion) -> None:
        @app.task(name="ship", queue="ship", max_attempts=1)
        def ship(order: int) -> None:
            raise ValueError(f"no stock for {order} <script>")

        for number in range(3):
            ship.enqueue(number)
        app.drain(["ship"])
        (group,) = {job.error_group for job in app.find(task="ship")}
        listed = browser.get("/errors").text
        assert f"newest {FAILED:,} of these and of jobs that back off" in listed
        assert f'href="/errors/{group}"' in listed
        page = browser.get(f"/errors/{group}").text
        assert "<h1>ship dies of ValueError</h1>" in page
        assert "<b>3</b> jobs are dead with it now, and 3 attempts failed with it in the last hour" in page
        assert f"stanchion retry --queue ship --task ship --error {group} --dry-run" in page
        assert "no stock for ‹n› &lt;script&gt;" in page

    def test_the_source_is_told(self, browser: Browser, app: Stanchion) -> None:
        found = FailureTally()
        found.add(
            "mail", "mail.send", "00000007", "OSError: no route, password=hunter2", new_id(), new=True, dead=False
        )
        found.merge(app.store)
        listed = browser.get("/errors").text
        assert "as the workers tally them" in listed
        assert "hunter2" not in listed
        page = browser.get("/errors/00000007").text
        assert "<h1>mail.send fails with OSError</h1>" in page
        assert "no job is dead with it now" in page
        assert "OSError: no route" in page

    def test_an_unknown_group(self, browser: Browser) -> None:
        assert browser.get("/errors/00000000").status_code == 404
        assert browser.get("/errors/nonsense").status_code == 404
