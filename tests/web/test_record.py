"""What the page keeps in the store: the audit log and bulk work."""

from __future__ import annotations

import re
import time

import pytest

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.ops import audit
from stanchion.ops.audit import AuditLog, Entry
from stanchion.ops.web.bulk_work import bulk
from stanchion.ops.web.bulk_work.bulk import BulkWork, BulkWorks
from stanchion.ops.web.bulk_work.runner import Runner
from stanchion.ops.web.site import Site
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.registry import open_store
from tests.web.conftest import Browser

DAY = 86_400 * SECOND


@pytest.fixture
def store() -> Store:
    return open_store("memory://?clock=frozen")


class TestAuditLog:
    def log(self, store: Store) -> AuditLog:
        return AuditLog(lambda: store)

    def test_entries_come_newest_first_and_none_is_lost(self, store: Store) -> None:
        log = self.log(store)
        for number in range(3 * audit.CHUNK + 7):
            log.add(Entry(number, "ana", "pause", f"q{number}"))
        seen, before = [], None
        while True:
            entries, before = log.newest(audit.CHUNK, before)
            seen += [entry.subject for entry in entries]
            if before is None:
                break
        assert seen == [f"q{number}" for number in reversed(range(3 * audit.CHUNK + 7))]

    def test_two_processes_write_one_log(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        one, other = self.log(store), self.log(store)
        original = store.compare_and_set
        raced: list[str] = []

        def racing(kind: str, name: str, text: str | None, version: int) -> bool:
            if not raced:
                raced.append(name)
                other.add(Entry(1, "ben", "pause", "other"))
            return original(kind, name, text, version)

        monkeypatch.setattr(store, "compare_and_set", racing)
        one.add(Entry(2, "ana", "pause", "one"))
        assert [entry.subject for entry in one.newest(10)[0]] == ["one", "other"]

    def test_it_is_kept_for_90_days(self, store: Store) -> None:
        log = self.log(store)
        for number in range(2 * audit.CHUNK):
            log.add(Entry(number, "ana", "pause", "old"))
        log.add(Entry(91 * DAY, "ana", "pause", "new"))
        assert [entry.subject for entry in log.newest(1000)[0]] == ["new"]
        assert len(store.values(audit.KIND)) == 2

    def test_texts_are_bounded(self, store: Store) -> None:
        self.log(store).add(Entry(1, "ana", "pause", "x" * 9999, note="y" * 9999))
        (entry,) = self.log(store).newest(10)[0]
        assert len(entry.subject) == len(entry.note) == 300


def test_what_can_not_be_recorded_is_not_done(
    browser: Browser, site: Site, app: Stanchion, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stanchion.errors import StoreUnavailable

    def silent(_: Entry) -> None:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(site.audit, "add", silent)
    assert browser.submit("/pause/orders", note="why").status_code == 503
    assert not app.queue("orders").settings.paused
    job = app.find(state="dead", limit=1)[0]
    assert browser.submit(f"/jobs/{job.id}/retry").status_code == 503
    assert app.get(job.id).state == "dead"  # type: ignore[union-attr]


class TestBulk:
    def finish(self, site: Site) -> BulkWork:
        """Wait until the newest work has ended."""
        for _ in range(6000):
            (work, _), *_ = site.bulk.all()
            if work.state != "running":
                return work
            site.runner.nudge()
            time.sleep(0.01)
        raise AssertionError("the work does not end")

    def test_all_that_match_are_cancelled(self, browser: Browser, site: Site, app: Stanchion) -> None:
        asked = browser.get("/bulk?act=cancel&queue=mail").text
        assert "Cancel 70 jobs?" in asked
        where = re.search(r'name="where" value="([^"]*)"', asked)
        assert where is not None
        answer = browser.submit("/bulk", act="cancel", where=where[1].replace("&amp;", "&"), total="70", back="/jobs")
        assert answer.status_code == 303
        work = self.finish(site)
        assert (work.done, work.left_out, work.state) == (70, 0, "finished")
        assert app.queue("mail").size().total == 0
        assert "70 jobs cancelled" in browser.get("/jobs").text
        acts = re.findall(r'<td class="nowrap">([\w: ]+)</td>', browser.get("/audit").text)
        assert acts == ["cancel: finished", "cancel"]

    def test_ticked_ones_are_retried(self, browser: Browser, site: Site, app: Stanchion) -> None:
        dead = [job.id for job in app.find(state="dead", limit=3)]
        browser.submit("/bulk", act="retry", id=dead[:2], total="2", back="/jobs?state=dead")
        assert self.finish(site).done == 2
        assert [app.get(job).state for job in dead] == ["ready", "ready", "dead"]  # type: ignore[union-attr]

    def test_all_that_match_are_copied_once_even_if_a_round_is_repeated(
        self, browser: Browser, site: Site, app: Stanchion
    ) -> None:
        assert "Replay 10 jobs?" in browser.get("/bulk?act=replay&state=dead&queue=payments").text
        browser.submit("/bulk", act="replay", where="state=dead&queue=payments", total="10", back="/jobs")
        work = self.finish(site)
        assert (work.done, work.left_out) == (10, 0)
        copies = app.find(queue="payments", state="ready", limit=100)
        assert len({job.origin for job in copies}) == len(copies) == 10
        site.runner._act(work, [job.origin for job in copies if job.origin is not None])
        assert len(app.find(queue="payments", state="ready", limit=100)) == 10
        assert "10 jobs copied" in browser.get("/jobs").text

    def test_a_filter_without_states_retries_the_dead_only(self, browser: Browser, site: Site) -> None:
        browser.submit("/bulk", act="retry", where="task=payments.capture", total="10")
        assert self.finish(site).where.startswith("state=dead&")

    def test_a_large_number_is_typed(self, browser: Browser, site: Site) -> None:
        work = {"act": "cancel", "where": "queue=mail", "total": "2000"}
        for number in ("", "2001", "10", "x"):
            assert browser.submit("/bulk", **work, number=number).status_code == 400
        assert site.bulk.all() == []
        assert browser.submit("/bulk", **work, number="2,000").status_code == 303

    def test_one_error_is_retried(self, browser: Browser, site: Site, app: Stanchion) -> None:
        @app.task(name="ship", queue="ship", max_attempts=1)
        def ship(order: int) -> None:
            raise ValueError(f"no stock for {order}" if order % 2 else f"no address for {order}")

        for number in range(7):
            ship.enqueue(number)
        app.drain(["ship"])
        link = r"/errors/(\w+)\"><span class=\"err whole\">\S+ no stock"
        (group,) = re.findall(link, browser.get("/errors").text)
        assert "<h1>3 dead jobs of ship</h1>" in browser.get(f"/jobs?state=dead&error={group}&task=ship").text
        assert "Retry 3 jobs?" in browser.get(f"/bulk?act=retry&state=dead&error={group}").text
        browser.submit("/bulk", act="retry", where=f"state=dead&error={group}", total="3")
        assert self.finish(site).done == 3
        assert app.queue("ship").size().ready == 3

    def test_a_large_group_is_not_counted(self, browser: Browser, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stanchion.ops.web.acts.bulk.READ", 2)
        asked = browser.get("/bulk?act=retry&state=dead&error=00000000").text
        assert "Retry all matching jobs?" in asked
        assert 'name="rate" inputmode="numeric" value="20"' in asked
        browser.submit("/bulk", act="retry", where="state=dead&error=00000000", total="0")
        assert self.finish(site).done == 0

    def test_jobs_in_another_state_are_refused(self, browser: Browser) -> None:
        assert browser.get("/bulk?act=retry&state=done").status_code == 400
        assert browser.get("/bulk?act=delete&state=done").status_code == 400


class TestRunner:
    def runner(self, store: Store) -> tuple[Runner, BulkWorks]:
        works = BulkWorks(lambda: store)
        return Runner(lambda: context_of(Stanchion(store=store)), works, AuditLog(lambda: store)), works

    def work(self, store: Store, **fields: object) -> BulkWork:
        work = BulkWork("w", "cancel", "queue=mail", (), "ana", store.now(), 1200)
        return work._replace(**fields)  # type: ignore[arg-type]

    def fill(self, store: Store, count: int) -> Stanchion:
        app = Stanchion(store=store)
        app.queue("mail").push_many([{"n": number} for number in range(count)])
        return app

    def test_it_goes_in_rounds_by_a_cursor(self, store: Store) -> None:
        app = self.fill(store, 1200)
        runner, works = self.runner(store)
        works.write(self.work(store), 0)
        done = []
        for _ in range(3):
            runner.step()
            done.append(works.all()[0][0].done)
        assert done == [500, 1000, 1200]
        assert app.queue("mail").size().total == 0

    def test_later_jobs_are_not_meant(self, store: Store) -> None:
        app = self.fill(store, 3)
        runner, works = self.runner(store)
        works.write(self.work(store), 0)
        store.clock_offset += 5
        app.queue("mail").push({"later": True})
        runner.step()
        assert app.queue("mail").size().total == 1

    def test_another_process_goes_on_from_the_cursor(self, store: Store) -> None:
        app = self.fill(store, 700)
        first, works = self.runner(store)
        works.write(self.work(store), 0)
        first.step()
        second, _ = self.runner(store)
        second.step()
        assert app.queue("mail").size().total == 200  # the first one may be alive
        store.clock_offset += bulk.OWNED / SECOND + 1
        second.step()
        assert app.queue("mail").size().total == 0

    def test_a_stop_holds(self, store: Store) -> None:
        app = self.fill(store, 1200)
        runner, works = self.runner(store)
        works.write(self.work(store), 0)
        runner.step()
        assert works.stop("w", store.now())
        runner.step()
        assert app.queue("mail").size().total == 700
        assert works.all()[0][0].state == "stopped"
        assert not works.stop("w", store.now())

    def test_a_rate_holds(self, store: Store) -> None:
        app = self.fill(store, 100)
        runner, works = self.runner(store)
        works.write(self.work(store, rate=20.0), 0)
        runner.step()
        runner.step()  # a second has not passed
        assert app.queue("mail").size().total == 80
        store.clock_offset += 1
        runner.step()
        assert app.queue("mail").size().total == 60

    def test_old_works_are_deleted(self, store: Store) -> None:
        _, works = self.runner(store)
        works.write(self.work(store, state="finished", ended_at=store.now()), 0)
        assert works.listed(store.now()) != []
        later = store.now() + bulk.KEPT + 1
        assert works.listed(later) == []
        works.delete_old(later)
        assert works.all() == []
