"""stanchion copy, and what it is made of."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from stanchion import Push, Stanchion, chain
from stanchion.ops.cli.console.session import Exit
from stanchion.ops.cli.store.copy import Bars
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion_conformance.harness import find_jobs, new_job
from tests.cli.conftest import Answer, Run


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Stanchion]:
    """The destination."""
    app = Stanchion(f"sqlite:///{tmp_path}/there.db")
    yield app
    app.close()


@pytest.fixture
def copy(run: Run, app: Stanchion, there: Stanchion) -> Callable[..., Answer]:
    """Copy from one to the other, where no other process takes jobs."""
    return lambda *options: run("copy", app.url, there.url, "--settle", "0", *options)


def rows(store: Store) -> dict[str, JobRow]:
    """Return all jobs of a store."""
    return {row.id: row for row in find_jobs(store, limit=100_000)}


def all_kinds(app: Stanchion) -> None:
    """Put jobs of every kind into two queues."""
    app.queue("mail", history_ttl=3600, max_running=50, dead_letter="letters")
    mail = app.queue("mail")
    mail.push_many([Push({"n": n}, priority=n - 3, tenant="acme", key=str(n), headers={"h": n}) for n in range(6)])
    mail.push("later", delay=3600, timeout=5, max_attempts=7)
    done, failed, dead, cancelled = mail.reserve(4)
    done.progress(0.5)
    done.commit({"sent": True})
    failed.rollback(delay=60, error="ValueError: é")
    dead.bury("broken")
    cancelled.abandon("enough")
    other = app.queue("other")
    other.push_many(range(3))
    other.reserve()[0].bury("no letters here")
    other.replay([other.pop().id])  # type: ignore[union-attr]


class TestTheCommand:
    def test_moves_all_that_is_queued(self, copy: Callable[..., Answer], app: Stanchion, there: Stanchion) -> None:
        all_kinds(app)
        before = rows(app.store)
        live = {job: row for job, row in before.items() if row.finished_at is None}
        settings = {one.name: one for one in app.store.queues()}
        answer = copy()
        assert answer.code == 0, answer.err
        assert rows(there.store) == live
        assert rows(app.store) == {job: row for job, row in before.items() if job not in live}
        assert {one.name: one for one in there.store.queues()} == settings
        assert all(one.paused for one in app.store.queues())
        assert answer.out.splitlines()[0].split() == ["QUEUE", "COPIED", "HISTORY", "KEY", "TAKEN", "RUNNING", "NOW"]
        assert answer.out.splitlines()[2].split() == ["mail", "4", "0", "0", "0", "resumed"]
        assert [job.payload for job in there.queue("other").reserve(5)] == [2, 1]
        assert there.store.workers() == app.store.workers() == []

    def test_moves_history_when_asked(self, copy: Callable[..., Answer], app: Stanchion, there: Stanchion) -> None:
        all_kinds(app)
        before = rows(app.store)
        (letters, mail, other) = copy("--history", "--json").json
        assert rows(there.store) == before
        assert rows(app.store) == {}
        assert mail == {
            "queue": "mail",
            "live": 4,
            "history": 2,
            "refused": [],
            "unfit": {},
            "of_flows": 0,
            "running": 0,
            "resumed": True,
        }
        assert (letters["live"], other["live"], other["history"]) == (1, 2, 2)
        assert set(there.queue("mail").counts()) == {0}

    def test_only_some_queues(self, copy: Callable[..., Answer], app: Stanchion, there: Stanchion) -> None:
        for name in ("a", "b", "c"):
            app.queue(name).push(name)
        assert [one["queue"] for one in copy("--queue", "c", "-q", "a", "--json").json] == ["c", "a"]
        assert {row.queue for row in rows(there.store).values()} == {"a", "c"}
        assert [one.name for one in app.store.queues() if one.paused] == ["a", "c"]

    def test_keeps_what_is_sealed(self, copy: Callable[..., Answer], app: Stanchion, there: Stanchion) -> None:
        keys = [Fernet.generate_key()]
        sealed = Stanchion(app.url, keys=keys)
        job = sealed.queue("q").push({"card": "4111"})
        sealed.close()
        stored = rows(app.store)[job.id].payload
        copy()
        assert rows(there.store)[job.id].payload == stored
        assert str(stored).startswith("enc:")
        opened = Stanchion(there.url, keys=keys)
        assert opened.queue("q").reserve()[0].payload == {"card": "4111"}
        opened.close()

    def test_again_has_nothing_to_do_but_what_came_later(
        self, copy: Callable[..., Answer], app: Stanchion, there: Stanchion
    ) -> None:
        app.queue("q").push_many(range(2_500))
        assert [one["live"] for one in copy("--json").json] == [2_500]
        assert [one["live"] for one in copy("--json").json] == [0]
        app.queue("q").push("late")
        assert [one["live"] for one in copy("--json").json] == [1]
        assert there.queue("q").size().ready == 2_501

    def test_leaves_the_queues_paused_when_asked(
        self, copy: Callable[..., Answer], app: Stanchion, there: Stanchion
    ) -> None:
        app.queue("q").push(1)
        assert copy("--leave-paused", "--json").json[0]["resumed"] is False
        assert there.queue("q").settings.paused

    def test_a_job_that_no_push_takes_stays(
        self, copy: Callable[..., Answer], app: Stanchion, there: Stanchion
    ) -> None:
        q = app.queue("q")
        odd = [q.push(n) for n in range(6)]
        fine, done = q.push("fine"), q.push("done", priority=9)
        q.reserve()[0].commit()
        values = ("payload = '{'", "limits = '[\"smtp\"]'", "priority = 900", "headers = '5'")
        with closing(sqlite3.connect(app.url.removeprefix("sqlite:///"))) as connection, connection:
            for job, value in zip(
                odd, (*values, "tenant = 'a' || char(10)", "task = CAST(x'e4' AS TEXT)"), strict=True
            ):
                connection.execute(f"UPDATE stanchion_jobs SET {value} WHERE id = ?", (job.id,))
            connection.execute("UPDATE stanchion_history SET result = 'none' WHERE id = ?", (done.id,))
        answer = copy("--json", "--history")
        assert answer.code == Exit.FAILED
        (copied,) = answer.json
        reasons = {job.id: copied["unfit"].get(job.id, "") for job in (*odd, done)}
        words = ("payload must be JSON", "limits", "priority", "headers", "tenant", "not UTF-8", "result must be JSON")
        assert [word for word, reason in zip(words, reasons.values(), strict=True) if word not in reason] == []
        assert f"job {odd[0].id} of q stays in the source: the payload must be JSON" in answer.err
        assert (copied["live"], copied["history"], copied["resumed"]) == (1, 0, True)
        assert set(rows(app.store)) == set(reasons)
        assert set(rows(there.store)) == {fine.id}

    def test_a_queue_with_a_wrong_name_is_refused(
        self, copy: Callable[..., Answer], app: Stanchion, there: Stanchion
    ) -> None:
        app.store.push([new_job(queue="mail#3")])
        app.queue("q").push(1)
        assert "no queue may be named like 'mail#3' of the source" in copy().error
        assert there.store.queues() == []
        assert not app.queue("q").settings.paused
        assert copy("--queue", "q").code == 0

    def test_a_key_that_is_taken_stays(self, copy: Callable[..., Answer], app: Stanchion, there: Stanchion) -> None:
        stays = app.queue("q").push("here", key="k")
        goes = app.queue("q").push("free", key="free")
        there.queue("q").push("there", key="k")
        answer = copy("--json")
        assert answer.code == Exit.FAILED
        assert answer.json[0]["refused"] == [stays.id]
        assert f"job {stays.id} stays in the source" in answer.err
        assert list(rows(app.store)) == [stays.id]
        assert goes.id in rows(there.store)
        assert not there.queue("q").settings.paused
        there.queue("q").reserve()
        while (job := there.queue("q").pop()) is not None:
            assert job.payload != "here"

    def test_running_jobs_are_left_to_finish(
        self, copy: Callable[..., Answer], app: Stanchion, there: Stanchion
    ) -> None:
        app.queue("q").push_many(range(5))
        running = app.queue("q").reserve(2, lease=600)
        answer = copy("--wait", "0", "--json")
        assert answer.code == Exit.UNFINISHED
        assert (answer.json[0]["running"], answer.json[0]["live"]) == (2, 3)
        assert "run the same command again" in answer.err
        assert there.queue("q").settings.paused
        running[0].commit()
        running[1].rollback(delay=0)
        assert copy().code == Exit.OK
        assert there.queue("q").size().ready == 4
        assert app.queue("q").size().total == 0

    def test_what_is_rolled_back_meanwhile_goes_too(
        self, copy: Callable[..., Answer], app: Stanchion, there: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        app.queue("q", dead_letter="letters").push_many(range(5))
        back, dead = app.queue("q").reserve(2, lease=600)

        class Ending(Bars):
            """Has the jobs end as soon as they are waited for."""

            def waiting(self, running: int, seconds: float) -> None:
                super().waiting(running, seconds)
                if running == 2:
                    back.rollback(delay=0)
                    dead.bury("broken")

        monkeypatch.setattr("stanchion.ops.cli.store.copy.Bars", Ending)
        answer = copy("--wait", "30s")
        assert answer.code == 0, answer.err
        assert "2 jobs are still running in the source; waiting up to 30 s" in answer.err
        assert (there.queue("q").size().ready, there.queue("letters").size().ready) == (4, 1)
        assert app.queue("q").size().total == app.queue("letters").size().total == 0

    def test_a_lease_that_nobody_holds_is_waited_for(
        self, copy: Callable[..., Answer], app: Stanchion, there: Stanchion
    ) -> None:
        app.queue("q").push(1)
        app.queue("q").reserve(lease=1)
        assert copy("--wait", "30").code == 0
        assert there.queue("q").size().ready == 1

    def test_gives_calls_under_way_the_time_to_end(self, run: Run, app: Stanchion, there: Stanchion) -> None:
        app.queue("q").push(1)
        answer = run("copy", app.url, there.url, "--settle", "200ms")
        assert answer.code == 0
        assert "calls in progress get 0.2 s to end" in answer.err

    def test_nothing_to_copy(self, copy: Callable[..., Answer], app: Stanchion) -> None:
        assert app.store.queues() == []
        answer = copy()
        assert (answer.code, answer.err) == (Exit.FAILED, "no queues to copy\n")


class TestRefused:
    @pytest.mark.parametrize(
        ("args", "said"),
        [
            (["{here}", "{here}"], "same store"),
            (["{here}", "sqlite:///{folder}/../{name}/jobs.db"], "same store"),
            (["{here}", "{there}", "--queue", "nowhere"], "no queue 'nowhere'; it has q"),
            (["{here}", "{there}", "-q", "q", "-q", "q"], "'q' is given twice"),
            (["{here}", "{there}", "-q", ""], "a queue must be 1 to 200"),
            (["memory://", "{there}"], "the source, memory://, lives in one process"),
            (["{here}", "memory://"], "the destination, memory://, lives in one process"),
            (["sqlite:///{folder}/none.db", "{there}"], "there is no file"),
            (["{here}", "nosql://x"], "no store understands"),
            (["{here}", "{there}", "--url", "{here}"], "two stores as arguments"),
            (["{here}", "{there}", "--wait", "long"], "--wait must be a duration"),
        ],
    )
    def test_bad_input_changes_nothing(
        self, run: Run, app: Stanchion, there: Stanchion, tmp_path: Path, args: list[str], said: str
    ) -> None:
        job = app.queue("q").push(1)
        words = {"here": app.url, "there": there.url, "folder": tmp_path, "name": tmp_path.name}
        answer = run("copy", *(arg.format(**words) for arg in args), STANCHION_URL="")
        assert answer.code == Exit.BAD_INPUT
        assert said in answer.error
        assert list(rows(app.store)) == [job.id]
        assert not app.queue("q").settings.paused
        assert app.store.workers() == []

    def test_a_server_without_the_tables(self, run: Run, app: Stanchion, pg_url: str) -> None:
        app.queue("q").push(1)
        answer = run("copy", app.url, pg_url)
        assert answer.code == Exit.FAILED
        assert f"the destination has no Stanchion tables; make them with: stanchion setup --url {pg_url}" in (
            answer.error.replace("the destination: the database", "the destination")
        )
        assert not app.queue("q").settings.paused


def test_jobs_of_flows_stay(copy: Callable[..., Answer], app: Stanchion, there: Stanchion) -> None:
    @app.task(name="largest", queue="q")
    def largest(one: int, other: int) -> int:
        return max(one, other)

    flow = chain(largest.s(1, 2), largest.s(0)).enqueue()
    largest.enqueue(3, 4)
    answer = copy()
    assert answer.code == Exit.FAILED
    assert "2 jobs of q belong to flows and stay in the source" in answer.err
    assert there.queue("q").size().total == 1
    app.queue("q").resume()
    app.drain()
    assert flow.result(0) == 2


@pytest.mark.parametrize("there", ["pg_url", "mariadb_url", "redis_url", "mongo_url"])
def test_there_and_back(run: Run, app: Stanchion, there: str, request: pytest.FixtureRequest) -> None:
    """What differs between databases is in the conformance suite; this is the way through each of them."""
    url = request.getfixturevalue(there)
    all_kinds(app)
    before, settings = rows(app.store), app.store.queues()
    run("setup", "--url", url)
    answer = run("copy", app.url, url, "--settle", "0", "--history")
    assert answer.code == 0, answer.err
    with closing(Stanchion(url)) as other:
        assert rows(other.store) == before
        assert other.store.queues() == settings
    answer = run("copy", url, app.url, "--settle", "0", "--history")
    assert answer.code == 0, answer.err
    assert rows(app.store) == before
