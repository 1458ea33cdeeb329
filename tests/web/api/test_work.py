"""Push, reserve and outcomes."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from stanchion import Push, Stanchion
from stanchion.context import context_of
from stanchion.ops.web.api import repeats
from stanchion.stores.records.outcomes import Progress
from tests.web.api.conftest import Client

PUSH, RESERVE = "queues/mail/jobs", "queues/mail/reserve"
HEADERS = {"Idempotency-Key": "order-17"}
BODY = {"jobs": [{"payload": 1}, {"payload": 2, "key": "k"}]}


def pushed(client: Client, *payloads: Any, queue: str = "mail", **options: Any) -> list[str]:
    body = {"jobs": [{"payload": one, **options} for one in payloads]}
    return [one["id"] for one in client.asks("pushJobs", f"queues/{queue}/jobs", body)["jobs"]]


def reserved(client: Client, queue: str = "mail", **options: Any) -> dict[str, Any]:
    (job,) = client.asks("reserveJobs", f"queues/{queue}/reserve", options)["jobs"]
    return dict(job)


class TestPush:
    def test_payloads_and_calls_are_stored_with_their_options(self, client: Client, fresh: Stanchion) -> None:
        jobs = [
            {"payload": {"a": [1, None, "é"]}, "priority": 7, "tenant": "acme", "headers": {"h": 1}, "max_attempts": 2},
            {"task": "mail.send", "args": [1], "kwargs": {"to": "b"}, "delay": 60, "key": "k"},
            {"payload": None, "run_at": "2100-01-01T00:00:00Z", "priority": "interactive", "rate": "5/m", "timeout": 9},
        ]
        ids = [one["id"] for one in client.asks("pushJobs", PUSH, {"jobs": jobs})["jobs"]]
        plain, call, late = (fresh.get(one) for one in ids)
        assert plain is not None
        assert call is not None
        assert late is not None
        assert (plain.payload, plain.priority, plain.tenant) == ({"a": [1, None, "é"]}, 7, "acme")
        assert (plain.headers, plain.max_attempts) == ({"h": 1}, 2)
        assert (call.task, call.payload, call.key) == ("mail.send", {"args": [1], "kwargs": {"to": "b"}}, "k")
        assert (late.payload, late.run_at.year, late.priority, late.timeout) == (None, 2100, 80, 9.0)

    def test_a_known_task_gives_its_defaults_and_checks_the_call(self, client: Client, fresh: Stanchion) -> None:
        @fresh.task(name="greet", max_attempts=3, priority=5)
        def greet(name: str) -> None: ...

        (one,) = client.asks("pushJobs", PUSH, {"jobs": [{"task": "greet", "args": ["a"]}]})["jobs"]
        job = fresh.get(one["id"])
        assert job is not None
        assert (job.max_attempts, job.priority, job.queue) == (3, 5, "mail")
        problem = client.refused(422, "invalid", "POST", PUSH, {"jobs": [{"task": "greet"}]})
        assert problem["errors"][0]["pointer"] == "/jobs/0"

    @pytest.mark.parametrize(
        ("job", "pointer"),
        [
            ({}, ""),
            ({"payload": 1, "task": "t"}, ""),
            ({"payload": 1, "args": []}, ""),
            ({"payload": 1, "priority": 101}, "/priority"),
            ({"payload": 1, "priority": True}, "/priority"),
            ({"payload": 1, "delay": -1}, "/delay"),
            ({"payload": 1, "run_at": "tomorrow"}, "/run_at"),
            ({"payload": 1, "run_at": "2031-01-01T00:00:00"}, "/run_at"),
            ({"payload": 1, "key": "a\0b"}, "/key"),
            ({"payload": 1, "tenant": "\ud800"}, ""),
            ({"payload": "\ud800"}, ""),
            ({"payload": 1, "limits": ["unheard"]}, None),
            ({"payload": 1, "headers": {"a": "x" * 70_000}}, ""),
            ({"payload": 1, "unheard": 1}, ""),
            ({"payload": "x" * 1_100_000}, ""),
        ],
    )
    def test_a_wrong_job_is_named_and_nothing_is_stored(
        self, client: Client, fresh: Stanchion, job: dict[str, Any], pointer: str | None
    ) -> None:
        text = json.dumps({"jobs": [{"payload": 1}, job]})  # escapes lone surrogates, as any client can
        problem = client.refused(
            422, "invalid", "POST", PUSH, content=text, headers={"Content-Type": "application/json"}
        )
        if pointer is not None:
            assert problem["errors"][0]["pointer"] == f"/jobs/1{pointer}"
        assert fresh.find() == []

    def test_a_taken_key_is_told(self, client: Client) -> None:
        (first,) = pushed(client, 1, key="k")
        (again,) = client.asks("pushJobs", PUSH, {"jobs": [{"payload": 2, "key": "k"}]})["jobs"]
        assert again == {"id": first, "duplicate": True}
        body = {"jobs": [{"payload": 2, "key": "k", "on_duplicate": "raise"}]}
        assert client.refused(409, "duplicate-key", "POST", PUSH, body)["job"] == first


class TestRepeatedPush:
    def test_nothing_is_stored_again(self, client: Client, fresh: Stanchion) -> None:
        pushed(client, 0, key="k")
        first = client.asks("pushJobs", PUSH, BODY, headers=HEADERS)
        job = reserved(client, limit=1)
        client.asks("commitJob", f"jobs/{job['id']}/commit", {"token": job["token"]})
        answer = client.post(PUSH, json=BODY, headers=HEADERS)
        assert answer.json() == first
        assert answer.headers["idempotent-replayed"] == "true"
        assert len(fresh.find()) == 2

    def test_another_body_is_refused(self, client: Client, fresh: Stanchion) -> None:
        client.asks("pushJobs", PUSH, BODY, headers=HEADERS)
        client.refused(422, "invalid", "POST", PUSH, {"jobs": [{"payload": 3}]}, headers=HEADERS)
        assert len(fresh.find()) == 2
        client.asks("pushJobs", "queues/other/jobs", BODY, headers=HEADERS)

    def test_a_refused_push_leaves_the_key_free(self, client: Client) -> None:
        pushed(client, 0, key="k")
        body = {"jobs": [{"payload": 1, "key": "k", "on_duplicate": "raise"}]}
        client.refused(409, "duplicate-key", "POST", PUSH, body, headers=HEADERS)
        client.asks("pushJobs", PUSH, BODY, headers=HEADERS)

    def test_after_a_death_before_the_end_the_same_jobs_are_stored(
        self, client: Client, fresh: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(repeats.Repeats, "finish", lambda *_: None)
            body = {"jobs": [{"payload": 1}, {"payload": 2, "key": "k", "on_duplicate": "raise"}]}
            first = client.asks("pushJobs", PUSH, body, headers=HEADERS)
        assert client.asks("pushJobs", PUSH, body, headers=HEADERS) == first
        assert len(fresh.find()) == 2

    def test_the_records_are_bounded(self, client: Client, fresh: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(repeats, "SLOTS", 1)
        monkeypatch.setattr(repeats, "HELD", 3)
        answers = [
            client.asks("pushJobs", PUSH, {"jobs": [{"payload": 1}]}, headers={"Idempotency-Key": str(number)})
            for number in range(5)
        ]
        (value,) = fresh.store.values(repeats.KIND)
        assert len(json.loads(value.text)) == 3
        again = client.asks("pushJobs", PUSH, {"jobs": [{"payload": 1}]}, headers={"Idempotency-Key": "4"})
        assert again == answers[4]


class TestReserve:
    def test_who_reserves_gets_all_of_the_job(self, client: Client) -> None:
        pushed(client, {"password": "x"})
        job = reserved(client, lease=60, holder="php-7")
        assert (job["payload"], job["state"], job["worker"]) == ({"password": "x"}, "running", "php-7")
        assert job["lease_until"] > job["started_at"]
        assert client.asks("reserveJobs", RESERVE)["jobs"] == []

    def test_it_waits_for_the_first(self, client: Client) -> None:
        found: list[Any] = []
        waiting = threading.Thread(target=lambda: found.append(reserved(client, wait=20)))
        waiting.start()
        pushed(client, "late")
        waiting.join(60)
        assert found[0]["payload"] == "late"

    def test_two_clients_get_no_job_twice(self, client: Client) -> None:
        ids = pushed(client, *range(60))
        found: list[list[str]] = [[], []]

        def take(mine: list[str]) -> None:
            while jobs := client.post(RESERVE, json={"limit": 7}).json()["jobs"]:
                mine += [job["id"] for job in jobs]

        threads = [threading.Thread(target=take, args=(mine,)) for mine in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(found[0] + found[1]) == sorted(ids)

    def test_only_jobs_of_the_lanes_come(self, client: Client, fresh: Stanchion) -> None:
        fresh.queue("mail").configure(lanes=8, lanes_per_tenant=1)
        fresh.queue("mail").push_many([Push(number, tenant=f"t{number}") for number in range(20)])
        jobs = client.asks("reserveJobs", RESERVE, {"limit": 100, "first_lane": 2, "last_lane": 3})["jobs"]
        assert {job["lane"] for job in jobs} <= {2, 3}
        client.refused(422, "invalid", "POST", RESERVE, {"first_lane": 3, "last_lane": 2})

    def test_sealed_payloads_go_back(self, client: Client, fresh: Stanchion) -> None:
        from cryptography.fernet import Fernet

        other = Stanchion(store=fresh.store, keys=[Fernet.generate_key()])
        job = other.queue("mail").push("sealed")
        assert "--app" in client.refused(409, "conflict", "POST", RESERVE, {})["detail"]
        again = other.get(job.id)
        assert again is not None
        assert (again.state, again.attempts) == ("ready", 0)

    def test_payloads_too_deep_for_an_answer_go_back(
        self, client: Client, fresh: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def too_deep(_: Any) -> bytes:
            raise RecursionError

        job = fresh.queue("mail").push([[]])
        monkeypatch.setattr("stanchion.ops.web.api.routes.outcomes.encoded", too_deep)
        client.refused(409, "conflict", "POST", RESERVE, {})
        again = fresh.get(job.id)
        assert again is not None
        assert (again.state, again.attempts) == ("ready", 0)

    @pytest.mark.parametrize("depth", [300, 900, 940, 960, 980, 990])
    def test_a_deep_payload_is_no_fault(self, client: Client, depth: int) -> None:
        text = json.dumps({"jobs": [{"payload": 0}]}).replace("0", "[" * depth + "]" * depth)
        pushed = client.post(PUSH, content=text, headers={"Content-Type": "application/json"})
        assert pushed.status_code in (201, 400, 422)
        for path in ("jobs", *(f"jobs/{one['id']}" for one in pushed.json().get("jobs", ()))):
            assert client.get(path).status_code in (200, 409)
        assert client.post(RESERVE).status_code in (200, 409)

    @pytest.mark.parametrize(
        "body", [{"limit": 0}, {"limit": 101}, {"limit": -1}, {"wait": 21}, {"lease": 0}, {"limit": "1"}, [], {"n": 1}]
    )
    def test_wrong_wishes_are_refused(self, client: Client, body: Any) -> None:
        client.refused(422, "invalid", "POST", RESERVE, body)


class TestOutcomes:
    @pytest.mark.parametrize(
        ("act", "body", "state"),
        [
            ("commit", {"result": {"n": 1}}, "done"),
            ("rollback", {"error": "no answer", "delay": 0}, "ready"),
            ("rollback", {"delay": 60, "payload": "next"}, "scheduled"),
            ("release", {}, "ready"),
            ("move", {"queue": "other", "payload": 2}, "ready"),
            ("bury", {"reason": "why"}, "dead"),
            ("abandon", {}, "cancelled"),
        ],
    )
    def test_each_ends_the_reservation(
        self, client: Client, fresh: Stanchion, act: str, body: dict[str, Any], state: str
    ) -> None:
        pushed(client, 1)
        job = reserved(client)
        path = f"jobs/{job['id']}/{act}"
        found = client.asks(f"{act}Job", path, {"token": job["token"], **body})
        assert found["id"] == job["id"]
        stored = fresh.get(job["id"])
        assert stored is not None
        assert stored.state == state
        if act == "commit":
            assert stored.result == {"n": 1}
        if act in ("rollback", "release", "move"):
            client.refused(409, "lease-lost", "POST", path, {"token": job["token"], **body})

    @pytest.mark.parametrize("act", ["commit", "bury", "abandon"])
    def test_an_end_may_be_repeated_under_its_token_only(self, client: Client, act: str) -> None:
        pushed(client, 1)
        job = reserved(client)
        path = f"jobs/{job['id']}/{act}"
        first = client.asks(f"{act}Job", path, {"token": job["token"]})
        assert client.asks(f"{act}Job", path, {"token": job["token"]}) == first
        client.refused(409, "lease-lost", "POST", path, {"token": "0123456789abcdef"})

    def test_an_old_token_changes_nothing(self, client: Client, fresh: Stanchion) -> None:
        pushed(client, 1)
        old = reserved(client)
        client.asks("releaseJob", f"jobs/{old['id']}/release", {"token": old["token"]})
        new = reserved(client)
        for act, more in (("commit", {}), ("extend", {"seconds": 5}), ("progress", {"progress": 0.5}), ("bury", {})):
            client.refused(409, "lease-lost", "POST", f"jobs/{old['id']}/{act}", {"token": old["token"], **more})
        job = fresh.get(old["id"])
        assert job is not None
        assert (str(job.state), float(job.progress)) == ("running", 0)
        client.asks("commitJob", f"jobs/{new['id']}/commit", {"token": new["token"]})

    def test_extend_and_progress_tell_of_a_cancel(self, client: Client) -> None:
        pushed(client, 1)
        job = reserved(client)
        held = {"id": job["id"], "state": "running", "cancelled": False}
        at = f"jobs/{job['id']}"
        assert client.asks("extendJob", f"{at}/extend", {"token": job["token"], "seconds": 90}) == held
        client.asks("cancelJob", f"{at}/cancel")
        found = client.asks("progressJob", f"{at}/progress", {"token": job["token"], "progress": 0.5})
        assert found == {**held, "cancelled": True}
        assert client.asks("getJob", at)["progress"] == 0.5

    def test_progress_is_written_rarely_and_its_last_value_with_the_outcome(
        self, client: Client, fresh: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pushed(client, 1)
        job, store = reserved(client), context_of(fresh).store
        monkeypatch.setattr("stanchion.context.progress.EVERY", 3600.0)
        written: list[float] = []
        settle = store.settle

        def counted(outcomes: Any, *args: Any, **options: Any) -> Any:
            written.extend(one.value for one in outcomes if isinstance(one, Progress))
            return settle(outcomes, *args, **options)

        monkeypatch.setattr(store, "settle", counted)
        at, token = f"jobs/{job['id']}", job["token"]
        for number in range(50):
            client.asks("progressJob", f"{at}/progress", {"token": token, "progress": number / 100})
        assert written == [0.0]
        client.asks("commitJob", f"{at}/commit", {"token": token})
        assert written == [0.0, 0.49]

    def test_an_unknown_job_is_not_found(self, client: Client) -> None:
        client.refused(404, "not-found", "POST", "jobs/01a21718-c74f-706c-8238-6e01079f6aef/commit", {"token": "x"})
