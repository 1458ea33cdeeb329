"""Documents that another program has inserted with values of wrong types: no claim fails, and their jobs are dead."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import ObjectId

from stanchion import Stanchion
from stanchion.stores.mongo.client.documents import Document, document_of
from stanchion.stores.mongo.store import MongoStore
from stanchion.stores.rules.lifecycle.error_entries import entries_of
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion_conformance.harness import QUEUE, NewStore, new_job
from stanchion_conformance.limits.semaphores import limited, took

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NO_TEXTS = (5, 1.5, True, {"a": 1}, ["x"], b"x", ObjectId(), NOW)
NO_NUMBERS = ("5", {"n": 5}, [5], True, NOW, b"5", None)
ODD: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("payload", "task", "headers", "tenant", "key", "order_key", "limits"), NO_TEXTS),
    **dict.fromkeys(("origin", "errors", "trail", "arrival_payload"), NO_TEXTS[:4]),
    **dict.fromkeys(("priority", "attempts", "failures", "enqueued_at", "slots_held", "rank"), NO_NUMBERS),
    "max_attempts": (*NO_NUMBERS, 2**31, -(2**40)),
    **dict.fromkeys(("timeout", "items"), NO_NUMBERS[:-1]),
    "version": NO_NUMBERS,
    "events": ("x", 5, {"a": 1}, None),
    "_id": (ObjectId(), 5, {"a": 1}),
}
MISSING = ("payload", "priority", "enqueued_at", "rank")


@pytest.fixture
def store(new_store: NewStore) -> MongoStore:
    store = new_store()
    assert isinstance(store, MongoStore)
    store.drop_queue(QUEUE)
    return store


def inserted(store: MongoStore, *changes: Document, queue: str = QUEUE) -> list[Any]:
    """Insert documents of due jobs with these fields, as another program does; return their ids. None: left out."""
    now = store.now()
    documents = [
        {**document_of(created(new_job(queue=queue), now)), "version": 0, "events": []} | change for change in changes
    ]
    jobs = store.server.call(lambda on, _again: on.jobs)
    jobs.insert_many(documents)
    return [one["_id"] for one in documents]


def reasons(store: MongoStore) -> list[str]:
    """Return the reasons of all dead jobs of the queue."""
    found = Stanchion(store=store).queue(QUEUE).find(state="dead", limit=1000)
    return [entries_of(store.fetch([job.id])[job.id])[-1]["error"] for job in found]


def check(store: MongoStore, odd: Sequence[Any], names: Sequence[str]) -> None:
    """Check that claims hand out the other jobs, and that the odd ones are dead by these fields."""
    fine = [new_job(), limited("smtp"), new_job(order_key="k")]
    store.push(fine)
    found: list[str] = []
    for _ in range(len(odd) + 10):
        found += took(store, 10)
    assert sorted(found) == sorted(job.id for job in fine)
    told = [
        reason.removeprefix("the job has values of wrong types, in ").partition(":")[0] for reason in reasons(store)
    ]
    assert sorted(told) == sorted(names)


@pytest.mark.parametrize("field", ODD)
def test_the_job_is_dead_and_others_run(store: MongoStore, field: str) -> None:
    odd = inserted(store, *({field: value} for value in ODD[field]))
    check(store, odd, [field] * len(odd))


def test_without_a_field(store: MongoStore) -> None:
    odd = inserted(store, *({} for _ in MISSING))
    jobs = store.server.call(lambda on, _again: on.jobs)
    for job, field in zip(odd, MISSING, strict=True):
        jobs.update_one({"_id": job}, {"$unset": {field: ""}})
    check(store, odd, MISSING)


@pytest.mark.parametrize("field", ["run_at", "lane", "rank", "state"])
@pytest.mark.parametrize("settings", [{}, {"lanes": 3}, {"max_running": 100}, {"ordered": True}])
def test_what_claims_look_at_stops_no_other_job(store: MongoStore, field: str, settings: dict[str, Any]) -> None:
    """A document that no claim finds waits; neither a claim nor a look fails by it."""
    store.configure(QUEUE, settings)
    odd = inserted(store, *({field: value} for value in (NOW, "5", [5], None, {"a": 1})))
    app = Stanchion(store=store)
    ran: list[int] = []
    note = app.task(name="note")(ran.append)
    for number in range(3):
        note.using(queue=QUEUE).enqueue(number)
    app.drain(queues=[QUEUE])
    assert sorted(ran) == [0, 1, 2]
    assert app.queue(QUEUE).find(state="done", limit=100) != []
    assert store.stats([QUEUE], ["states", "heads", "next_due", "totals"])[QUEUE].heads == ()
    assert store.stats([QUEUE], ["heads"])[QUEUE].heads == ()  # by steps in the index, as where there are many jobs
    assert len(store.fetch(odd)) == len(odd)
    assert store.lane_depths(QUEUE) is not None
    app.queue(QUEUE).find(limit=100)


@pytest.mark.parametrize("settings", [{}, {"lanes": 3}])
def test_upkeep_buries_what_no_claim_finds(store: MongoStore, settings: dict[str, Any]) -> None:
    store.configure(QUEUE, settings)
    fields, values = ("run_at", "lane", "state"), (NOW, "5", None, {"a": 1}, b"5")
    inserted(store, *({field: value} for field in fields for value in values))
    later = new_job(delay=5000.0)
    store.push([*(fine := [new_job(), new_job(order_key="k")]), later])
    (missing,) = inserted(store, {})
    jobs = store.server.call(lambda on, _again: on.jobs)
    jobs.update_one({"_id": missing}, {"$unset": {"run_at": ""}})
    found = [job for _ in range(5) for job in took(store, 10)]
    store.maintain()
    assert sorted(found) == sorted(job.id for job in fine)
    told = [reason.partition(":")[0].rpartition(" in ")[2] for reason in reasons(store)]
    assert sorted(told) == sorted([*fields * len(values), "run_at"])
    assert store.stats([QUEUE], ["states"])[QUEUE].states.scheduled == 1
    assert [row.state for row in store.fetch([later.id]).values()] == ["queued"]
    app = Stanchion(store=store)
    dead = app.queue(QUEUE).find(state="dead", limit=1000)
    for job in dead:
        app.queue(QUEUE).retry(job.id)
    took(store, 100)
    store.clock_offset += 1000.0  # a process looks into a queue every 900 s
    store.maintain()
    assert not app.queue(QUEUE).find(state="ready", limit=1000)


def test_upkeep_looks_once_in_a_while(store: MongoStore) -> None:
    store.configure(QUEUE, {})
    store.maintain()
    inserted(store, {"run_at": "5"})
    store.maintain()
    assert reasons(store) == []
    store.clock_offset += 1000.0
    store.maintain()
    assert len(reasons(store)) == 1


def test_whole_numbers_of_another_kind_fit(store: MongoStore) -> None:
    """Drivers of some languages store each number as a double."""
    now = store.now()
    changes = {"priority": 5.0, "rank": 5.0, "attempts": 0.0, "run_at": float(now), "version": 0.0, "lane": -1.0}
    odd = inserted(store, changes)
    assert took(store, 10) == odd
    (row,) = store.fetch(odd).values()
    assert (type(row.attempts), row.attempts, row.priority, row.run_at) == (int, 1, 5, now)
    assert reasons(store) == []


def test_a_dead_job_can_be_operated(store: MongoStore) -> None:
    app = Stanchion(store=store)
    (job,) = inserted(store, {"payload": {"to": "Ada"}, "task": 5})
    assert took(store, 1) == []
    found = app.get(job)
    assert found is not None
    assert (found.payload, found.task, found.attempts) == ({"to": "Ada"}, None, 1)
    app.queue(QUEUE).retry(job)
    assert took(store, 1) == []
    assert len(reasons(store)) == 1
    app.queue(QUEUE).retry(job)
    assert app.cancel(job) == "cancelled"


def test_an_unclaimed_job_can_be_cancelled(store: MongoStore) -> None:
    odd = inserted(store, {"payload": 5}, {"version": "x"}, {"rank": "x"}, {"run_at": "x"})
    assert store.cancel(odd) == ["cancelled"] * 4
