"""A job pushed without the package is the same as one that the app pushes."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from stanchion import Job, Stanchion
from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND
from tests.plain_push.ways import Refused, Way

STRANGE = 'Ürsel\'s 50% \\ "Q" 🦆 '
CASES: list[tuple[Any, dict[str, Any]]] = [
    ({"id": 1}, {}),
    (None, {}),
    ([STRANGE, 1.5, True, None, {"a": []}], {"priority": -100, "tenant": STRANGE, "headers": {STRANGE: [STRANGE]}}),
    ("text", {"priority": 100, "key": STRANGE, "max_attempts": 3, "timeout": 1.5, "headers": {}}),
    ({}, {"order_key": STRANGE, "limits": ["smtp", "imap", "smtp"]}),
    (12345678901234567890, {"order_key": "k", "limits": []}),
    (7, {"limits": ["smtp"]}),
    (
        8,
        dict.fromkeys(
            ("task", "args", "priority", "run_at", "delay", "tenant", "key", "order_key", "limits", "headers")
        ),
    ),
    (9, dict.fromkeys(("max_attempts", "timeout"))),
]
REFUSALS: list[tuple[str | None, str | None, dict[str, Any], str]] = [
    (None, "1", {}, "queue must be 1 to 200 printable"),
    ("", "1", {}, "queue must be 1 to 200 printable"),
    ("q" * 201, "1", {}, "queue must be 1 to 200 printable"),
    ("two\nlines", "1", {}, "queue must be 1 to 200 printable"),
    ("no\u00a0break", "1", {}, "queue must be 1 to 200 printable"),
    *((name, "1", {}, "queue is named like a partition") for name in ("mail#0", "mail#3", "a#b#10", "##7", "q#1023")),
    ("q", None, {}, "payload"),
    ("q", "{", {}, "json"),
    ("q", "1", {"priority": 101}, "priority must be"),
    ("q", "1", {"priority": -101}, "priority must be"),
    ("q", "1", {"key": ""}, "key must be 1 to 200 printable"),
    ("q", "1", {"tenant": "t" * 201}, "tenant must be 1 to 200 printable"),
    ("q", "1", {"order_key": "\u2028"}, "order_key must be 1 to 200 printable"),
    ("q", "1", {"delay": -1}, "delay must be from 0"),
    ("q", "1", {"delay": 1e12}, "delay must be from 0"),
    ("q", "1", {"delay": 1, "run_at": "2030-01-31T08:00:00Z"}, "run_at or delay, not both"),
    ("q", "1", {"run_at": "tomorrow morning"}, ""),
    ("q", "1", {"headers": [1]}, "headers must be"),
    ("q", "1", {"headers": {"h": "x" * 66_000}}, "headers must be"),
    ("q", "1", {"max_attempts": 0}, "max_attempts must be"),
    ("q", "1", {"timeout": 0}, "timeout must be more than 0"),
    ("q", "1", {"limits": {"smtp": 1}}, "limits must be"),
    ("q", "1", {"limits": [str(n) for n in range(17)]}, "limits must be"),
    ("q", "1", {"args": [1]}, "args are the arguments of a task"),
    ("q", "1", {"task": "t"}, "the payload of a task must be"),
    ("q", '{"args": [], "more": 1}', {"task": "t"}, "the payload of a task must be"),
    ("q", '{"args": [], "kwargs": []}', {"task": "t"}, "the payload of a task must be"),
    ("q", '{"kwargs": {}}', {"task": "t"}, "the payload of a task must be"),
    ("q", None, {"task": ""}, "task must be 1 to 200 printable"),
    ("q", None, {"task": "t", "args": 1}, "args"),
    ("q", json.dumps("x" * (1 << 20)), {}, "more than 1048576 bytes"),
    ("q", "1", {"colour": "red"}, "colour"),
]
TIMES = {"run_at", "enqueued_at"}


def fields(store: Store, job_id: str) -> dict[str, Any]:
    """Return the stored fields of a job that do not depend on its push, JSON decoded."""
    row = store.fetch([job_id])[job_id]._asdict()
    decoded = {name: json.loads(row[name] or "null") for name in ("payload", "headers", "limits")}
    return {name: value for name, value in row.items() if name not in {"id", *TIMES}} | decoded


def test_it_equals_a_push_of_the_app(way: Way, app: Stanchion, store: Store) -> None:
    for name in ("smtp", "imap"):
        store.set_semaphore(name, 1)
    for number, (payload, options) in enumerate(CASES):
        before = store.now()
        pushed = way.push(f"{STRANGE}-{number}", json.dumps(payload), **options)
        (settings,) = store.queues([f"{STRANGE}-{number}"])
        assert settings.uses_slots == bool(options.get("order_key") or options.get("limits"))
        asked = {name: value for name, value in options.items() if name not in {"task", "args"}}
        own = app.queue(f"{STRANGE}-{number}").push(payload, **{**asked, "key": "another"})
        mine, other = fields(store, pushed), fields(store, own.id)
        assert mine == {**other, "key": options.get("key")}
        row = store.fetch([pushed])[pushed]
        assert before - SECOND // 100 <= row.enqueued_at == row.run_at <= store.now()
        assert pushed[14] == "7"
        assert pushed[19] in "89ab"
        made_at = int(pushed.replace("-", "")[:12], 16) * 1000
        assert before - SECOND // 100 <= made_at <= store.now()


def test_times(way: Way, store: Store) -> None:
    far = datetime(2039, 7, 1, 6, 30, 0, 250_000, UTC)
    for text in ("2039-07-01T06:30:00.250Z", "2039-07-01T08:30:00.250+02:00", "2039-06-30 23:00:00.250-07:30"):
        row = store.fetch([job := way.push("q", "1", run_at=text)])[job]
        assert row.run_at == int(far.timestamp() * SECOND), text
    row = store.fetch([job := way.push("q", "1", delay=90.5)])[job]
    assert row.run_at - row.enqueued_at == 90_500_000
    row = store.fetch([job := way.push("q", "1", run_at="1969-12-31T23:59:59Z")])[job]
    assert row.run_at == -SECOND
    assert store.stats(["q"], ["states"])["q"].states.scheduled == 4


def test_a_session_pushes_in_order(way: Way, app: Stanchion) -> None:
    order = [(n % 3 - 1, n) for n in range(60)]
    ids = way.run([way.pushing("q", str(n), {"priority": priority}) for priority, n in order])
    assert len(set(ids)) == 60
    assert sorted(ids) == ids, "ids ascend"
    claimed = app.queue("q").reserve(100)
    assert [job.payload for job in claimed] == [n for _, n in sorted(order, key=lambda each: (-each[0], each[1]))]
    assert app.queue("q").counts().pushed == 60


def refusal(way: Way, queue: str | None, payload: str | None, options: dict[str, Any]) -> str:
    """Return the message that refuses a push."""
    try:
        return f"nothing, it was pushed as {way.push(queue, payload, **options)}"
    except Refused as refused:
        return str(refused)


def test_bad_input_is_refused(way: Way, store: Store) -> None:
    for queue, payload, options, reason in REFUSALS:
        assert reason.lower() in refusal(way, queue, payload, options).lower(), (queue, reason)
    assert store.queues() == []
    assert store.stats(["q"], ["totals"])["q"].totals.pushed == 0


def test_a_name_that_no_partition_has_is_taken(way: Way, app: Stanchion) -> None:
    others = ("#3", "#", "q#", "q#1024", "q#03", "q#00", "q#3x", "q# 3", "q#-1", "q#" + "9" * 190, "q#\u0663", "#1#")
    for name in others:
        way.push(name, "1")
        app.queue(name).push(2)
        assert [job.payload for job in app.queue(name).reserve(5)] == [1, 2], name


def test_an_unknown_semaphore_is_refused(way: Way, store: Store) -> None:
    for name in ("smtp", "1", "null", "ARRAY"):
        store.set_semaphore(name, 1)
    for wrong in ("unknown", "", "n" * 201, 1, None, ["smtp"]):
        assert "semaphore" in refusal(way, "q", "1", {"limits": ["smtp", wrong]}), wrong
    job = way.push("q", "1", limits=["null", "ARRAY", "1", "ARRAY", "smtp"])
    assert fields(store, job)["limits"] == {"hold": ["1", "ARRAY", "null", "smtp"]}


def test_a_key_is_taken_while_its_job_lives(way: Way, app: Stanchion) -> None:
    q = app.queue("q")
    first = way.push("q", "1", key=STRANGE)
    assert way.push("q", "2", key=STRANGE) == first
    assert way.push("other", "2", key=STRANGE) != first
    assert q.push(3, key=STRANGE).id == first
    (job,) = q.reserve()
    assert way.push("q", "4", key=STRANGE) == first
    job.commit()
    second = way.push("q", "5", key=STRANGE)
    assert second != first
    assert q.push(6, key=STRANGE).id == second
    assert q.counts().pushed == 2
    assert [each.payload for each in q.find()] == [5, 1]


def test_it_wakes_who_waits(way: Way, app: Stanchion, store: Store) -> None:
    heard: list[bool] = []
    if store.capabilities.push_wakeup:
        listener = store.listen(["q"])
        waiting = threading.Thread(target=lambda: heard.append(listener.wait(60)))
        waiting.start()
        way.push("q", "1")
        waiting.join()
        listener.close()
        assert heard == [True]
        app.queue("q").pop()
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(app.queue("q").pop, wait=120)
        way.push("q", "2")
        popped = job.result(120)
    assert isinstance(popped, Job)
    assert popped.payload == 2


def test_a_worker_runs_a_task(way: Way, app: Stanchion) -> None:
    @app.task(name="shop.welcome")
    def welcome(user: int, greeting: str = "hello") -> str:
        return f"{greeting} {user}"

    ids = [
        way.push("mail", None, task="shop.welcome", args=[1]),
        way.push("mail", None, task="shop.welcome", args={"user": 2, "greeting": STRANGE}),
        way.push("mail", '{"args": [3], "kwargs": {"greeting": "hi"}}', task="shop.welcome"),
        way.push("mail", '{"args": [4]}', task="shop.welcome"),
        way.push("mail", None, task="shop.welcome"),
    ]
    own = welcome.using(queue="mail", key="x").enqueue(1)
    assert fields(app.store, ids[0]) == {**fields(app.store, own.id), "key": None}
    app.run(queues=["mail"], until_finished=True)
    found = {job.id: job for job in app.queue("mail").find()}
    assert [found[one].result for one in ids[:4]] == ["hello 1", f"{STRANGE} 2", "hi 3", "hello 4"]
    assert "user" in str(found[ids[4]].errors[-1]), "called without arguments"


def test_limits_hold(way: Way, app: Stanchion, store: Store) -> None:
    store.set_semaphore("smtp", 1)
    q = app.queue("q")
    for number in range(4):
        way.push("q", str(number), limits=["smtp"])
    for number in range(4, 8):
        way.push("q", str(number), order_key=f"k{number % 2}")
    way.push("q", "8")
    jobs = q.reserve(20)
    assert sorted(job.payload for job in jobs) == [0, 4, 5, 8]
    for job in jobs:
        job.commit()
    assert sorted(job.payload for job in q.reserve(20)) == [1, 6, 7]


def test_a_laned_queue_drains_it(way: Way, app: Stanchion) -> None:
    q = app.queue("q", lanes=4)
    q.push(0, tenant="acme")
    for number in range(1, 5):
        way.push("q", str(number), tenant="acme", **({"order_key": "k"} if number == 4 else {}))
    assert sorted(job.payload for job in q.reserve(10)) == [0, 1, 2, 3, 4]
    way.push("q", "5")
    (row,) = app.store.claim(Claim("q", 10, new_id(), lease=60, lanes=(-1, 0))).rows
    assert row.payload == "5"


def test_the_tenant_is_the_default_of_the_order_key(way: Way, app: Stanchion, store: Store) -> None:
    q = app.queue("q", ordered_by="tenant")
    own = [q.push(0, tenant="a", key="x"), q.push(0, key="y"), q.push(0, tenant="b", order_key="own", key="z")]
    options: list[dict[str, Any]] = [{"tenant": "a"}, {}, {"tenant": "b", "order_key": "own"}]
    pushed = [way.push("q", "0", **each) for each in options]
    assert [fields(store, one) for one in pushed] == [{**fields(store, job.id), "key": None} for job in own]
    assert [fields(store, one)["order_key"] for one in pushed] == ["a", None, "own"]
    store.configure("first", {"ordered_by": "tenant"})
    for payload, tenant in enumerate("aab"):
        way.push("first", str(payload), tenant=tenant)
    (settings,) = store.queues(["first"])
    assert settings.uses_slots
    assert sorted(job.payload for job in app.queue("first").reserve(5)) == [0, 2]


def test_an_ordered_queue_hands_it_out_in_order(way: Way, app: Stanchion) -> None:
    q = app.queue("q")
    q.configure(ordered=True)
    for number in range(3):
        way.push("q", str(number))
    for number in range(3):
        (job,) = q.reserve(5)
        assert job.payload == number
        job.commit()


def test_a_paused_queue_keeps_it(way: Way, app: Stanchion) -> None:
    q = app.queue("q")
    q.pause()
    way.push("q", "1")
    assert q.reserve() == []
    q.resume()
    assert [job.payload for job in q.reserve()] == [1]


def test_many_sessions_at_once(way: Way, app: Stanchion) -> None:
    def session(number: int) -> list[str]:
        calls = ({"key": f"k{n}"} if n % 5 == 0 else {} for n in range(250))
        return way.run([way.pushing("q", str(number), options) for options in calls])

    with ThreadPoolExecutor(4) as pool:
        ids = [one for of_session in pool.map(session, range(4)) for one in of_session]
    assert len(ids) == 1000
    assert len(set(ids)) == 4 * 200 + 50
    q = app.queue("q")
    assert q.counts().pushed == q.size().ready == 850
    assert {job.id for job in q.reserve(1000)} == set(ids)


def test_an_app_with_keys_reads_it(way: Way, store: Store) -> None:
    from cryptography.fernet import Fernet

    app = Stanchion(store=store, keys=[Fernet.generate_key()])
    way.push("q", '{"id": 1}')
    job = app.queue("q").pop()
    assert job is not None
    assert job.payload == {"id": 1}
