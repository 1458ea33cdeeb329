"""Lists, their pages, and the acts of operators."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from stanchion import Push, Stanchion
from stanchion.core.ids import new_id
from stanchion.ops import redriving
from stanchion.ops.web.api.asgi import OPERATIONS
from stanchion.ops.web.api.operation import time_text
from stanchion.ops.web.site import Site
from stanchion.telemetry import rollups
from tests.web.api.conftest import Client
from tests.web.attacks import SECRET
from tests.web.conftest import OPERATE, READ
from tests.worker.conftest import until

ODD = ("a/b", "..", "jobs", "a/jobs", "?x=1#y", "b/pause", "ü 1", ".")


def walk(client: Client, operation: str, path: str, **query: Any) -> Iterator[list[Any]]:
    """Yield the pages of a list."""
    after: str | None = ""
    while after is not None:
        page = client.asks(operation, path, params={**query, **({"after": after} if after else {})})
        yield page["items"]
        after = page["next"]


LISTS = {
    one.id: one.path.removeprefix("/")
    for one in OPERATIONS
    if one.method == "GET" and "limit" in one.query and one.id not in ("listAudit",)
}


class TestPages:
    @pytest.mark.parametrize("operation", LISTS)
    def test_a_walk_gives_each_item_once(self, shop_client: Client, operation: str) -> None:
        (whole,) = walk(shop_client, operation, LISTS[operation], limit=500)
        limit = 40 if operation == "listJobs" else 3
        pages = list(walk(shop_client, operation, LISTS[operation], limit=limit))
        assert all(len(page) <= limit for page in pages)
        assert [_key(one) for page in pages for one in page] == [_key(one) for one in whole]

    @pytest.mark.parametrize("query", [{}, {"state": ["ready", "dead"]}, {"queue": "mail"}, {"band": "eventual"}])
    def test_a_walk_of_jobs_gives_each_once_while_jobs_come_and_go(
        self, shop_client: Client, app: Stanchion, query: dict[str, Any]
    ) -> None:
        found: list[str] = []
        meant = {one["id"] for page in walk(shop_client, "listJobs", "jobs", limit=500, **query) for one in page}
        for number, page in enumerate(walk(shop_client, "listJobs", "jobs", limit=40, **query)):
            found += [one["id"] for one in page]
            app.queue("mail").push({"n": number})
            app.queue("later").push_many([Push(number, delay=5)])
        assert len(found) == len(set(found))
        assert set(found) == meant

    def test_the_count_says_what_it_is(self, shop_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        of_mail = shop_client.asks("listJobs", "jobs", params={"queue": "mail", "limit": 5})
        whole = shop_client.asks("listJobs", "jobs", params={"queue": "mail", "limit": 500})
        assert of_mail["count"] == whole["count"] == {"value": len(whole["items"]), "kind": "exact"}
        following = shop_client.asks("listJobs", "jobs", params={"queue": "mail", "limit": 5, "after": of_mail["next"]})
        assert following["count"] == of_mail["count"]
        monkeypatch.setattr("stanchion.ops.reads.lists.COUNTED", 20)
        monkeypatch.setattr("stanchion.ops.web.api.routes.jobs.COUNTED", 20)
        many = shop_client.asks("listJobs", "jobs", params={"queue": "mail", "limit": 5})
        assert many["count"] == {"value": 20, "kind": "at_least"}

    def test_the_audit_log_is_walked(self, shop_client: Client) -> None:
        for number in range(60):
            shop_client.asks("pauseQueue", "queues/orders/pause", {"note": f"n{number}"})
        pages = walk(shop_client, "listAudit", "audit", limit=13)
        notes = []
        for page in pages:
            notes += [one["note"] for one in page]
            shop_client.asks("resumeQueue", "queues/orders/resume")
        assert notes == [f"n{number}" for number in reversed(range(60))]

    def test_a_group_of_errors_leads_to_its_jobs(self, shop_client: Client) -> None:
        groups = shop_client.asks("listErrors", "errors")["items"]
        jobs = [one for page in walk(shop_client, "listJobs", "jobs", error=groups[0]["key"]) for one in page]
        assert len(jobs) == groups[0]["dead"] == groups[0]["failed"] == sum(groups[0]["minutes"])
        assert SECRET not in str(groups) + str(jobs)


def _key(item: dict[str, Any]) -> Any:
    return next(item[name] for name in ("id", "key", "name", "address", "code", "at") if name in item)


class TestCursors:
    def test_one_of_another_list_filter_or_store_is_refused(self, shop_client: Client, client: Client) -> None:
        cursor = shop_client.asks("listJobs", "jobs", params={"queue": "mail", "limit": 2})["next"]
        for asked, path, query in (
            (shop_client, "jobs", {"queue": "orders"}),
            (shop_client, "jobs", {}),
            (shop_client, "queues", {}),
            (client, "jobs", {"queue": "mail"}),
        ):
            asked.refused(400, "foreign-cursor", "GET", path, params={**query, "after": cursor})

    def test_a_changed_one_is_refused(self, shop_client: Client) -> None:
        cursor = shop_client.asks("listJobs", "jobs", params={"limit": 2})["next"]
        for place in range(0, len(cursor) - 1, 5):
            other = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
            shop_client.refused(400, "foreign-cursor", "GET", "jobs", params={"after": other})
        for text in ("x", "é", "\0", "====", "A" * 4000):
            shop_client.refused(400, "foreign-cursor", "GET", "jobs", params={"after": text})

    def test_another_process_knows_it(self, site: Site, app: Stanchion) -> None:
        from tests.web.conftest import site_of

        cursor = Client(site).asks("listJobs", "jobs", params={"limit": 2})["next"]
        other = site_of(Stanchion(store=app.store))
        assert len(Client(other).asks("listJobs", "jobs", params={"limit": 2, "after": cursor})["items"]) == 2
        other.close()


class TestJobs:
    def test_hidden_values_stay_hidden_until_they_are_revealed(self, shop_client: Client, app: Stanchion) -> None:
        for state in ("dead", "done", "ready"):
            for job in app.find(state=state, limit=12):
                assert SECRET not in str(shop_client.asks("getJob", f"jobs/{job.id}"))
        dead = app.find(state="dead", limit=1)[0]
        assert SECRET in str(shop_client.asks("revealJob", f"jobs/{dead.id}/reveal"))
        assert shop_client.asks("listAudit", "audit")["items"][0]["act"] == "show hidden"

    def test_acts_are_audited_and_a_dry_run_does_nothing(self, shop_client: Client, app: Stanchion) -> None:
        dead, live = app.find(state="dead", limit=1)[0].id, app.find(state="ready", limit=1)[0].id
        for act, job, jobs in (("retry", dead, 1), ("cancel", live, 1), ("replay", dead, 1), ("cancel", dead, 0)):
            found = shop_client.asks(f"{act}Job", f"jobs/{job}/{act}", params={"dry_run": "true"})
            assert (found["dry_run"], found["jobs"]) == (True, jobs)
        assert shop_client.asks("listAudit", "audit")["items"] == []
        copy = shop_client.asks("replayJob", f"jobs/{dead}/replay")
        assert shop_client.asks("retryJob", f"jobs/{dead}/retry")["state"] == "ready"
        assert shop_client.asks("cancelJob", f"jobs/{live}/cancel")["state"] == "cancelled"
        replayed = app.get(copy["id"])
        assert replayed is not None
        assert replayed.origin == dead
        assert [one["act"] for one in shop_client.asks("listAudit", "audit")["items"]] == ["cancel", "retry", "replay"]
        shop_client.refused(409, "conflict", "POST", f"jobs/{live}/cancel")
        shop_client.refused(409, "conflict", "POST", f"jobs/{dead}/replay")

    def test_what_is_not_there_is_not_found(self, shop_client: Client) -> None:
        for method, path in (
            ("GET", "jobs/x"),
            ("GET", "queues/unheard"),
            ("POST", "queues/unheard/pause"),
            ("GET", "flows/x"),
            ("GET", "pipelines/x"),
            ("GET", "semaphores/x"),
            ("POST", "schedules/x/run"),
            ("GET", "bulk/0123456789abcdef"),
            ("DELETE", "bulk/x%00"),
            ("GET", "problems/x"),
            ("GET", "nothing"),
            ("GET", "../v2/jobs"),
        ):
            shop_client.refused(404, "not-found", method, path)


class TestQueues:
    def test_the_schema_of_a_queue(self, client: Client, fresh: Stanchion) -> None:
        fresh.queue("plain").push(1)
        fresh.queue("typed", schema="id bigint not null").push({"id": 1})
        assert client.asks("getQueue", "queues/plain")["schema"] is None
        assert client.asks("getQueue", "queues/typed")["schema"] == {
            "version": 1,
            "ddl": "id bigint NOT NULL",
            "fields": [{"name": "id", "type": "bigint", "nullable": False}],
        }

    @pytest.mark.parametrize("name", ODD)
    def test_any_name_has_an_address(self, client: Client, fresh: Stanchion, name: str) -> None:
        at = f"queues/{quote(name, safe='').replace('.', '%2E')}"
        client.asks("pushJobs", f"{at}/jobs", {"jobs": [{"payload": 1}]})
        (job,) = client.asks("reserveJobs", f"{at}/reserve")["jobs"]
        assert job["queue"] == name
        assert client.asks("getQueue", at)["queue"]["name"] == name
        client.asks("configureQueue", at, {"max_running": 3})
        client.asks("pauseQueue", f"{at}/pause", {"note": "why"})
        settings = fresh.queue(name).settings
        assert (settings.paused, settings.max_running) == (True, 3)
        assert [one.name for one in fresh.queues()] == [name]

    def test_a_partitioned_queue_is_one(self, client: Client) -> None:
        client.asks("configureQueue", "queues/big", {"partitions": 4})
        client.asks("pushJobs", "queues/big/jobs", {"jobs": [{"payload": number} for number in range(40)]})
        assert [one["name"] for one in client.asks("listQueues", "queues")["items"]] == ["big"]
        assert client.asks("getQueue", "queues/big")["queue"]["size"]["ready"] == 40
        found = [one for page in walk(client, "listJobs", "jobs", queue="big", limit=7) for one in page]
        assert len({one["id"] for one in found}) == len(found) == 40
        assert {one["queue"] for one in found} == {"big"}
        jobs = client.asks("reserveJobs", "queues/big/reserve", {"limit": 40})["jobs"]
        for job in jobs:
            client.asks("commitJob", f"jobs/{job['id']}/commit", {"token": job["token"]})
        assert client.asks("getQueue", "queues/big")["queue"]["totals"]["committed"] == len(jobs)
        client.refused(422, "invalid", "POST", "queues/big%231/jobs", {"jobs": [{"payload": 1}]})

    def test_a_job_tells_its_waits_that_are_over(self, client: Client) -> None:
        jobs = [{"payload": number, "order_key": "k"} for number in range(2)]
        _, second = client.asks("pushJobs", "queues/mail/jobs", {"jobs": jobs})["jobs"]
        (held,) = client.asks("reserveJobs", "queues/mail/reserve", {"limit": 2})["jobs"]
        assert client.asks("getJob", f"jobs/{second['id']}")["past_waits"] == []
        client.asks("commitJob", f"jobs/{held['id']}/commit", {"token": held["token"]})
        found = client.asks("getJob", f"jobs/{second['id']}")
        (wait,) = found["past_waits"]
        assert (wait["kind"], wait["name"], found["older_waits"]) == ("order_key", "k", False)
        assert found["enqueued_at"] <= wait["since"] <= wait["until"]

    def test_settings_change_and_are_audited(self, client: Client, fresh: Stanchion) -> None:
        body = {"max_rate": 5.5, "lanes": 8, "history_ttl": 60, "dead_letter": "dead", "ordered_by": "tenant"}
        found = client.asks("configureQueue", "queues/mail", body)["settings"]
        assert {name: found[name] for name in body} == body
        client.asks("configureQueue", "queues/mail", {"max_rate": None}, params={"dry_run": "true"})
        assert fresh.queue("mail").settings.max_rate == 5.5
        assert [one["act"] for one in client.asks("listAudit", "audit")["items"]] == ["set settings"]
        for wrong in ({}, {"lanes": 0}, {"max_rate": "x"}, {"unheard": 1}, {"paused": True}, {"lease": 0}):
            client.refused(422, "invalid", "PATCH", "queues/mail", wrong)

    def test_a_retention_replaces_those_by_outcome(self, client: Client, fresh: Stanchion) -> None:
        fresh.queue("mail").configure(history_ttl={"done": 60, "dead": 90, "default": 90}, history_max=9)
        found = client.asks("configureQueue", "queues/mail", {"history_ttl": 90, "history_ttl_dead": 30})["settings"]
        assert [found[f"history_ttl{one}"] for one in ("", "_done", "_dead", "_cancelled")] == [90, None, 30, None]
        (audited,) = client.asks("listAudit", "audit")["items"]
        assert audited["note"] == "history_ttl 1m30s → 1m30s, history_ttl_done 1m → none, history_ttl_dead none → 30s"

    def test_a_pause_has_its_note(self, client: Client) -> None:
        client.asks("pushJobs", "queues/mail/jobs", {"jobs": [{"payload": 1}]})
        assert client.asks("pauseQueue", "queues/mail/pause", {"note": "why"})["jobs"] == 1
        pause = client.asks("getQueue", "queues/mail")["pause"]
        assert (pause["who"], pause["note"]) == ("local", "why")
        assert client.asks("reserveJobs", "queues/mail/reserve")["jobs"] == []
        client.asks("resumeQueue", "queues/mail/resume")
        assert client.asks("getQueue", "queues/mail")["pause"] is None


class TestBulk:
    def test_it_is_counted_begun_shown_and_stopped(self, shop_client: Client, app: Stanchion) -> None:
        body = {"act": "cancel", "where": {"queue": "mail", "state": ["ready"]}}
        dry = shop_client.asks("beginBulkWork", "bulk", body, params={"dry_run": "true"})
        assert dry["count"] == {"value": app.queue("mail").size().ready, "kind": "exact"}
        answer = shop_client.post("bulk", json={**body, "rate": 1})
        assert answer.status_code == 202
        at = answer.headers["location"]
        assert at == f"/api/v1/bulk/{answer.json()['id']}"
        assert shop_client.asks("getBulkWork", f"http://127.0.0.1:7118{at}")["state"] == "running"
        stopped = shop_client.asks("stopBulkWork", f"http://127.0.0.1:7118{at}")
        assert stopped["state"] == "stopped"
        assert [one["act"] for one in shop_client.asks("listAudit", "audit")["items"]] == ["stop cancel", "cancel"]

    def test_copies_are_made_too(self, shop_client: Client) -> None:
        work = shop_client.asks("beginBulkWork", "bulk", {"act": "replay", "where": {"queue": "payments"}})
        assert shop_client.asks("getBulkWork", f"bulk/{work['id']}")["act"] == "replay"

    @pytest.mark.parametrize("act", ["retry", "cancel", "replay"])
    def test_what_it_leaves_out_is_counted_by_reason(self, shop_client: Client, app: Stanchion, act: str) -> None:
        queue = app.queue("unfitting")
        queue.push_many([1, 2])
        done, running = queue.reserve(2)
        done.commit()
        ids = [done.id, running.id, "00000000-0000-7000-8000-000000000000"]
        verdicts = {
            "retry": lambda: redriving.retried(app.store, ids),
            "cancel": lambda: redriving.cancelled(app.store, ids),
            "replay": lambda: redriving.copied(app.store, ids, [new_id() for _ in ids]),
        }[act]()
        work = shop_client.asks("beginBulkWork", "bulk", {"act": act, "ids": ids})
        assert (work["left_out"], work["reasons"]) == (0, {})
        until(lambda: shop_client.asks("getBulkWork", f"bulk/{work['id']}")["state"] == "finished")
        work = shop_client.asks("getBulkWork", f"bulk/{work['id']}")
        assert work["left_out"] == sum(work["reasons"].values()) >= 1
        assert work["reasons"] == redriving.refusals(verdicts)
        assert shop_client.asks("listBulkWork", "bulk")["items"][0]["reasons"] == work["reasons"]

    def test_wrong_wishes_are_refused(self, shop_client: Client) -> None:
        for body in (
            {"act": "retry"},
            {"act": "delete", "where": {}},
            {"act": "retry", "where": {"state": ["running"]}},
            {"act": "retry", "where": {}, "ids": ["x"]},
            {"act": "retry", "where": {"since": "soon"}},
            {"act": "retry", "ids": []},
        ):
            shop_client.refused(422, "invalid", "POST", "bulk", body)
        shop_client.refused(409, "conflict", "POST", "bulk", {"act": "cancel", "where": {"queue": "unheard"}})


def test_semaphores_and_schedules_take_their_acts(shop_client: Client, app: Stanchion) -> None:
    semaphore = shop_client.asks("getSemaphore", "semaphores/psp")
    assert len(semaphore["waiting"]) == semaphore["semaphore"]["waiting"] == 2
    assert shop_client.asks("resizeSemaphore", "semaphores/psp", {"capacity": 4})["capacity"] == 4
    name = quote("<b>nightly</b>", safe="")
    assert shop_client.asks("pauseSchedule", f"schedules/{name}/pause")["schedule"]["paused"]
    assert shop_client.asks("resumeSchedule", f"schedules/{name}/resume", {"note": "x"})["schedule"]["next"]
    job = app.get(shop_client.asks("runSchedule", f"schedules/{name}/run")["job"])
    assert job is not None
    assert job.task == "mail.send"


def test_what_the_figures_say(shop_client: Client, app: Stanchion) -> None:
    alerts = shop_client.asks("listAlerts", "alerts")["items"]
    key = alerts[0]["key"]
    shop_client.asks("lookAfterAlert", "alerts/on-it", {"key": key})
    found = {one["key"]: one["on_it"] for one in shop_client.asks("listAlerts", "alerts")["items"]}
    assert found[key]["who"] == "local"
    assert [one["band"] for one in shop_client.asks("getMonitor", "monitor")["bands"]]
    assert (
        shop_client.asks("listSamples", "samples", params={"queue": "mail"})["items"][0]["ready"]
        == app.queue("mail").size().ready
    )
    shop_client.refused(422, "invalid", "GET", "samples", params={"from": "noon"})
    at = rollups.past(app.store, ["mail"], 1, app.store.now())["mail"][-1].at
    for hour in (30, 60):  # as if this one had been kept then
        name = f"mail@{at // rollups.HOUR - hour}"
        point = [at - hour * rollups.HOUR, 77, 0.0, 1, 0, 0, 0]
        assert app.store.compare_and_set(rollups.KIND, name, json.dumps([point]), 0)
    span = {"queue": "mail", "from": "2001-01-01T00:00:00Z"}
    found = shop_client.asks("listSamples", "samples", params=span)["items"]
    assert [one["ready"] for one in found if one["ready"] == 77] == [77]
    until = {**span, "to": time_text(at - 2 * rollups.HOUR)}
    assert len(shop_client.asks("listSamples", "samples", params=until)["items"]) == 1
    report = shop_client.asks("getReport", "report", params={"since": "1h"})
    assert report["made_at"] or report["counted"] is not None
    assert SECRET not in str(report)


def test_flows_and_pipelines_are_shown(client: Client, fresh: Stanchion) -> None:
    from stanchion import chain, group

    @fresh.task(name="one")
    def one(*_: Any) -> int:
        return 1

    handle = chain(one.s(), group([one.s(), one.s()]), one.s()).enqueue()
    flow = client.asks("getFlow", f"flows/{handle.id}")
    assert (flow["state"], flow["flow"]["kind"], flow["size"]) == ("running", "chain", 4)
    assert [one["id"] for one in client.asks("listFlows", "flows")["items"]] == [handle.id]
    fresh.queue("default").push(1)
    members = client.asks("listJobs", "jobs", params={"flow": handle.id})
    assert len(members["items"]) == members["count"]["value"] == 4
    pipeline = fresh.pipeline("etl")

    @pipeline.station("load")
    def load(item: Any) -> Any:
        return item

    assert [one["name"] for one in client.asks("listPipelines", "pipelines")["items"]] == ["etl"]
    client.asks("pushJobs", "queues/etl.load/jobs", {"jobs": [{"payload": 1}]})
    assert client.asks("getPipeline", "pipelines/etl")["stations"][0]["name"] == "load"
    client.asks("pausePipeline", "pipelines/etl/pause", {"note": "why"})
    assert fresh.queue("etl.load").settings.paused


def test_a_token_may_do_what_its_role_says(guarded: Site, app: Stanchion) -> None:
    reader, operator = Client(guarded, READ), Client(guarded, OPERATE)
    assert reader.asks("listQueues", "queues")["items"]
    for one in OPERATIONS:
        if one.method != "GET":
            path = one.shown_path[1:].format(queue="orders", id="x", name="psp", code="x")
            reader.refused(403, "forbidden", one.method, path)
    assert not app.queue("orders").settings.paused
    operator.asks("pauseQueue", "queues/orders/pause")
    assert reader.asks("listAudit", "audit")["items"][0]["who"] == "ana"
