"""The parts of the page of one queue: errors, tenants, partitions, settings, a push by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

from stanchion import Push, Stanchion
from stanchion.core.text.error_kinds import group_of
from stanchion.errors import InvalidInput
from stanchion.ops.reads import queue_parts
from stanchion.ops.web.acts.settings import value_of
from stanchion.ops.web.live.past import QUEUES_MAX, Past
from stanchion.ops.web.site import Site
from stanchion.stores.records.workers import QueueTimes, WorkerRow
from stanchion.stores.registry import open_store
from stanchion.telemetry import rollups
from stanchion.telemetry.failures import FailureTally
from stanchion.telemetry.rollups import MINUTE, Point
from stanchion_conformance.jobs.chunk_contents import chunk
from tests.web.attacks import SECRET
from tests.web.conftest import READ, Browser, site_of


class TestParts:
    def test_its_errors_are_grouped_and_lead_to_a_retry(self, browser: Browser) -> None:
        text = browser.get("/queues/payments").text
        assert "From all dead jobs that are still in history" in text
        assert "/bulk?act=retry&amp;state=dead&amp;queue=payments&amp;task=payments.capture&amp;error=" in text
        assert SECRET not in text

    def test_its_errors_are_those_that_the_workers_tallied(self, browser: Browser, app: Stanchion) -> None:
        tally, error = FailureTally(), "TimeoutError: no answer in 5 s, password=swordfish"
        key = group_of(error, "mail.send")
        for number in range(4):
            tally.add("mail", "mail.send", key, error, f"job {number}", new=True, dead=False)
        tally.add("other", "mail.send", key, error, "job 5", new=True, dead=False)
        tally.merge(app.store)
        app.queue("mail").push("x")
        app.queue("mail").reserve()[0].rollback(error="E: else")
        browser.site.sampler.renew()
        text = browser.get("/queues/mail").text
        assert f'<a href="/errors/{key}?queue=mail">' in text
        assert "as the workers tally them" in text
        assert re.search(r">4</td><td><svg class=\"spark\"", text)
        assert "swordfish" not in text
        assert browser.get(f"/errors/{key}?queue=mail").status_code == 200

    def test_its_items_are_shown_where_jobs_carry_chunks(self, browser: Browser, app: Stanchion) -> None:
        app.store.push([chunk(300, queue="etl"), chunk(40, queue="etl", delay=60.0)])
        text = browser.get("/queues/etl").text
        assert "300 items, oldest " in text
        assert "40 items, not due yet" in text

    def test_its_schema_is_shown(self, browser: Browser, app: Stanchion) -> None:
        assert 'id="schema"' not in browser.get("/queues/mail").text
        app.queue("orders", schema="`<i>` bigint not null, city string").push({"<i>": 1})
        text = browser.get("/queues/orders").text
        assert "version 1" in text
        assert (
            '<dt class="foreign">&lt;i&gt;</dt><dd><span class="foreign">bigint</span> <small class="soft">never'
            in text
        )
        assert '<dd><span class="foreign">string</span></dd>' in text

    def test_tenants_are_shown_with_their_share(self, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
        text = browser.get("/queues/orders").text
        assert "Ready jobs by tenant" in text
        assert re.search(r">t0</a>.*?15 %</td><td class=\"num\">9</td>", text, re.DOTALL)
        monkeypatch.setattr(queue_parts, "SHOWN", 2)
        text = browser.get("/queues/orders").text
        assert "all others" in text
        assert "5 other tenants · of all ready jobs" in text
        monkeypatch.setattr(queue_parts, "READY", 10)
        assert "of the first 5,000 ready jobs" in browser.get("/queues/orders").text
        assert "Ready jobs by tenant" not in browser.get("/queues/mail").text

    def test_partitions_are_listed(self) -> None:
        app = Stanchion(store=open_store("memory://"))
        app.queue("wide", partitions=4).push_many([Push({"n": number}) for number in range(40)])
        site = site_of(app)
        text = Browser(site).get("/queues/wide").text
        assert text.count('<th scope="row">wide') == 5  # itself among them
        assert "wide has 40 ready jobs and no worker" in text
        site.close()
        app.close()

    def test_percentiles_are_shown_where_a_worker_tells_them(self, site: Site, app: Stanchion) -> None:
        browser = Browser(site)
        assert "p95" not in browser.get("/queues/mail").text
        times = QueueTimes("mail", "interactive", (8, 0, 0, 4), (0,) * 30 + (9,))
        app.store.beat([WorkerRow("w", "h", 1, ("mail",), 1, 600.0, times=(times,))])
        site.sampler.renew()
        text = browser.get("/queues/mail").text
        assert "<dt>Pick-up, p95</dt><dd>2 ms<small" in text
        assert '<dt>Run time, p95</dt><dd>0.4 s<small class="soft">p50 0.4 s, 5 min' in text
        assert re.search(r"Interactive<br>.*?</td><td class=\"num\">2 ms</td>", browser.get("/").text, re.DOTALL)
        assert "p95" not in browser.get("/queues/orders").text

    def test_a_queue_that_has_just_been_made_has_a_page(self, browser: Browser, app: Stanchion) -> None:
        browser.get("/queues/mail")
        app.queue("new").push({})
        assert "new has 1 ready job and no worker" in browser.get("/queues/new").text


class TestSpans:
    def test_two_days_are_shown_by_a_link(self, app: Stanchion) -> None:
        with app.testing() as clock:
            app.queue("late").push(1)
            for _ in range(3):
                assert rollups.take(app.store)
                clock.advance(60)
            clock.advance(7200)
            site = site_of(app)
            browser = Browser(site)
            for page in ("/queues/late", "/"):
                text = browser.get(page).text
                assert f'<a href="{page}?span=2d">The last two days</a>' in text
                text = browser.get(f"{page}?span=2d").text
                assert f'<a href="{page}">The last hour</a>' in text
                assert "The age of the oldest ready job rose from" in text
            assert browser.get("/queues/late?span=1y").status_code == 400
            site.close()

    def test_they_are_read_once_in_a_minute(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[list[str]] = []

        def noted(_store: Any, queues: list[str], hours: int, now: int) -> dict[str, list[Point]]:
            asked.append([*queues, str(hours)])
            return {queue: [Point(now, 1, 0.0, 1, 0, 0, 0)] for queue in queues}

        monkeypatch.setattr(rollups, "past", noted)
        past = Past(lambda: app.store)
        assert past.of("mail", 5) == past.of("mail", MINUTE - 1)
        assert [point.at for point in past.of("mail", MINUTE)] == [MINUTE]
        assert asked == [["mail", "48"]] * 2
        for number in range(QUEUES_MAX):
            past.of(f"queue {number}", MINUTE)
        past.of("mail", MINUTE)
        assert len(asked) == 3 + QUEUES_MAX


class TestSettings:
    def test_one_is_changed_with_who_changed_it(self, browser: Browser, app: Stanchion) -> None:
        assert 'value="none"' in browser.get("/set/orders?setting=max_rate").text
        assert (
            browser.submit("/set/orders", setting="max_rate", value="30", note="the <provider> asks").status_code == 303
        )
        assert app.queue("orders").settings.max_rate == 30
        text = browser.get("/queues/orders").text
        assert '<b>30 a second</b> <small class="soft">local,' in text
        assert "before: none" in text
        assert "none → 30: the &lt;provider&gt; asks" in browser.get("/audit").text
        browser.submit("/set/orders", setting="max_rate", value="none")
        assert app.queue("orders").settings.max_rate is None

    def test_a_single_retention_replaces_those_by_outcome(self, browser: Browser, app: Stanchion) -> None:
        app.queue("orders").configure(history_ttl={"done": "1d", "dead": "30d"})
        asked = browser.get("/set/orders?setting=history_ttl").text
        assert 'value="30d"' in asked
        assert "it replaces the times by outcome" in asked
        assert browser.submit("/set/orders", setting="history_ttl", value="30d").status_code == 303
        assert app.queue("orders").settings.shorter_ttls == {}
        assert "history_ttl_done 1d → none, history_ttl_cancelled 7d → none" in browser.get("/audit").text

    @pytest.mark.parametrize(
        ("setting", "value"),
        [("max_rate", "fast"), ("max_running", "1.5"), ("lease", "none"), ("history_ttl", "soon"), ("paused", "true"),
         ("lanes", "-4"), ("name", "x")],
    )  # fmt: skip
    def test_a_wrong_value_changes_nothing(self, browser: Browser, app: Stanchion, setting: str, value: str) -> None:
        before = app.queue("orders").settings
        assert browser.submit("/set/orders", setting=setting, value=value).status_code == 400
        assert app.queue("orders").settings == before

    def test_values_are_as_people_write_them(self) -> None:
        assert value_of("history_ttl", "7d") == 7 * 86_400
        assert value_of("max_running", " 4 ") == 4
        assert value_of("dead_letter", "none") is None
        assert value_of("dead_letter", "letters") == "letters"
        with pytest.raises(InvalidInput):
            value_of("partitions", "4")

    def test_who_reads_changes_and_pushes_nothing(self, guarded: Site) -> None:
        browser = Browser(guarded)
        browser.log_in(READ)
        assert "change…" not in browser.get("/queues/orders").text
        assert "Push a job" not in browser.get("/queues/orders").text
        assert browser.get("/push/orders").status_code == 400
        assert browser.submit("/set/orders", setting="max_rate", value="1").status_code == 403
        assert browser.submit("/push/orders", payload="{}").status_code == 403


class TestPush:
    def pushed(self, browser: Browser, **fields: Any) -> str:
        answer = browser.submit("/push/orders", **fields)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"].rpartition("/")[2])

    def test_a_payload_becomes_a_job(self, browser: Browser, app: Stanchion) -> None:
        job = app.get(
            self.pushed(browser, payload='{"n": [1, "<b>"]}', priority="interactive", tenant="t1", delay="5m")
        )
        assert job is not None
        assert (job.queue, job.payload, job.tenant, job.state) == ("orders", {"n": [1, "<b>"]}, "t1", "scheduled")
        assert job.priority >= 50
        other = app.get(self.pushed(browser, payload="null", priority="-3", key="once"))
        assert other is not None
        assert (other.payload, other.priority, other.key) == (None, -3, "once")
        assert ">push</td>" in browser.get("/audit").text

    @pytest.mark.parametrize(
        "fields", [{"payload": "{"}, {"payload": "1", "priority": "high"}, {"payload": "1", "delay": "soon"},
                   {"payload": "1" * 40_000}, {"payload": "[" * 20_000}],
    )  # fmt: skip
    def test_a_wrong_one_is_shown_again(self, browser: Browser, app: Stanchion, fields: dict[str, str]) -> None:
        before = app.queue("orders").size()
        answer = browser.submit("/push/orders", note="a <note>", **fields)
        assert answer.status_code == 400
        assert 'value="a &lt;note&gt;"' in answer.text
        assert 'role="alert"' in answer.text
        assert app.queue("orders").size() == before
