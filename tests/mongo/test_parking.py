"""Many jobs that wait for the same: passed over by a claim, and parked many by one command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from pymongo import monitoring
from pymongo.collection import Collection

from stanchion.core.ids import new_id, new_ids
from stanchion.stores.cas.claim import Parked
from stanchion.stores.mongo.claims.claim import DueJobs
from stanchion.stores.mongo.store import MongoStore
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import UNLANED, JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion_conformance.harness import NewStore, counts_of, row_of, sizes_of, slot_of

SMTP = limits_text(Limits(("smtp",)))
SMTP_TOO = limits_text(Limits(("smtp", "zebra")))
OTHER = limits_text(Limits(("smtp2",)))
"""Begins alike, and is another."""


class Commands(monitoring.CommandListener):
    """Counts the commands by their names."""

    counted: ClassVar[Counter[str]] = Counter()

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.counted[event.command_name] += 1

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...

    def failed(self, event: monitoring.CommandFailedEvent) -> None: ...


monitoring.register(Commands())


@pytest.fixture
def queue() -> str:
    """A queue of its own for each test."""
    return new_id()


@pytest.fixture
def store(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[MongoStore]:
    """A store with a semaphore that is full, and two that are not; it parks few jobs at once."""
    with monkeypatch.context() as patched:
        patched.setattr("stanchion.stores.mongo.claims.claim.PARKED_AT_ONCE", 50)
        patched.setattr("stanchion.stores.mongo.claims.claim.PARKED_FEW", 10)
        yield from with_semaphores(new_store())


def with_semaphores(store: Store) -> Iterator[MongoStore]:
    assert isinstance(store, MongoStore)
    store.set_semaphore("smtp", 0)
    store.set_semaphore("smtp2", 9)
    store.set_semaphore("zebra", 9)
    yield store
    for settings in store.queues():
        store.drop_queue(settings.name)


def push(store: MongoStore, queue: str, count: int, **fields: Any) -> list[str]:
    jobs = [NewJob(job, queue, "{}", **fields) for job in new_ids(count)]
    store.push(jobs)
    return [job.id for job in jobs]


def claim(store: MongoStore, queue: str, limit: int = 1, **fields: Any) -> Claimed:
    return store.claim(Claim(queue, limit, new_id(), worker="w", **fields))


def test_the_first_free_job_is_found_in_few_commands(
    store: MongoStore, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(store, queue, 250, limits=SMTP)
    free = push(store, queue, 3)
    monkeypatch.setattr("stanchion.stores.cas.claim.time", SimpleNamespace(monotonic=lambda: 0.0))
    Commands.counted.clear()
    claimed = claim(store, queue, 5)
    assert ([row.id for row in claimed.rows], claimed.retry_in) == (free, 0.0)
    assert sum(Commands.counted.values()) <= 40
    assert sizes_of(store, queue).waiting == 5 + 10 + 50, "a run is parked last, as skipping took no time"
    more = push(store, queue, 3)
    ticks = count()
    monkeypatch.setattr("stanchion.stores.cas.claim.time", SimpleNamespace(monotonic=lambda: next(ticks) / 1000))
    Commands.counted.clear()
    assert [row.id for row in claim(store, queue, 5).rows] == more
    assert sum(Commands.counted.values()) < 60
    assert 5 + 10 + 50 + 50 < sizes_of(store, queue).waiting < 250
    monkeypatch.undo()
    Commands.counted.clear()
    while sizes_of(store, queue).waiting < 250:
        assert claim(store, queue).rows == []
    assert sum(Commands.counted.values()) < 60
    assert claim(store, queue).retry_in is None
    assert counts_of(store, queue).reserved == 6


def test_a_run_is_parked_from_one_lane_and_in_one_page(store: MongoStore, queue: str, monkeypatch: Any) -> None:
    """Else the server would sort the whole queue for each part, as its index is in order within a lane."""
    asked: list[Any] = []
    find = Collection.find

    def heard(jobs: Any, *args: Any, **options: Any) -> Any:
        asked.append((args, options))
        return find(jobs, *args, **options)

    push(store, queue, 150, limits=SMTP)
    push(store, queue, 1)
    assert len(claim(store, queue).rows) == 1
    push(store, queue, 1)
    monkeypatch.setattr("stanchion.stores.cas.claim.time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(Collection, "find", heard)
    assert len(claim(store, queue).rows) == 1
    runs = [(args[0], options) for args, options in asked if "run_at" in args[0]]
    assert [(wanted["lane"], options["batch_size"]) for wanted, options in runs] == [(UNLANED, 11), (UNLANED, 51)]


def test_a_claim_breaks_off_when_its_time_is_over(
    store: MongoStore, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stanchion.stores.cas.claim.CLAIM_SECONDS", 0.0)
    push(store, queue, 120, limits=SMTP)
    (free,) = push(store, queue, 1)
    rows: list[JobRow] = []
    calls = 0
    while not rows:
        claimed = claim(store, queue, 40)
        rows, calls = claimed.rows, calls + 1
        assert rows or claimed.retry_in == 0.0
    assert [row.id for row in rows] == [free]
    assert calls > 1


def test_what_begins_alike_is_not_passed_over(store: MongoStore, queue: str) -> None:
    push(store, queue, 20, limits=SMTP)
    others = push(store, queue, 5, limits=OTHER)
    assert [row.id for row in claim(store, queue, 3).rows] == others[:3]
    assert [(row_of(store, job).state, row_of(store, job).slots_held) for job in others[3:]] == [("queued", 0)] * 2


def test_they_go_on_in_their_order_when_there_is_a_slot(store: MongoStore, queue: str) -> None:
    ids = push(store, queue, 15, limits=SMTP_TOO)
    assert claim(store, queue).rows == []
    assert slot_of(store, "smtp") == ([], ids)
    store.set_semaphore("smtp", 1)
    done = []
    while rows := claim(store, queue, 9).rows:
        done += [row.id for row in rows]
        assert store.settle([Commit(row.lease) for row in rows]) == [JobState.DONE]
    assert done == ids
    assert slot_of(store, "smtp") == slot_of(store, "zebra") == ([], [])


@pytest.mark.parametrize("limits", [None, OTHER])
def test_a_long_line_of_an_order_key(store: MongoStore, queue: str, limits: str | None) -> None:
    ids = push(store, queue, 150, order_key="k", limits=limits)
    push(store, queue, 1, order_key="kk")
    rows = claim(store, queue).rows
    done = [row.id for row in rows]
    Commands.counted.clear()
    assert len(claim(store, queue).rows) == 1
    assert sum(Commands.counted.values()) < 60
    for _ in range(4):
        store.settle([Commit(row.lease) for row in rows])
        rows = claim(store, queue, 9).rows
        done += [row.id for row in rows]
    assert done == ids[:5]


def test_who_holds_its_order_key_is_not_passed_over(
    store: MongoStore, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes back while a claim parks others behind it."""
    (holder,) = push(store, queue, 1, order_key="k")
    (row,) = claim(store, queue).rows
    push(store, queue, 40, order_key="k", priority=9)
    (free,) = push(store, queue, 1, priority=-1)
    park_few = DueJobs.park_few

    def back_meanwhile(due: DueJobs, *given: Any) -> Parked:
        parked = park_few(due, *given)
        store.settle([Rollback(row.lease, 0.0)])
        return parked

    monkeypatch.setattr(DueJobs, "park_few", back_meanwhile)
    assert [row.id for row in claim(store, queue, 2).rows] == [holder, free]
    assert sizes_of(store, queue).waiting == 40, "the others are parked last"


def test_a_job_that_changes_meanwhile_is_not_parked(
    store: MongoStore, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = push(store, queue, 5, limits=SMTP)
    (free,) = push(store, queue, 1)
    update_many = Collection.update_many

    def interrupted(jobs: Any, wanted: Any, update: Any, *args: Any, **options: Any) -> Any:
        if update.get("$set", {}).get("state") == JobState.WAITING.value:
            monkeypatch.undo()
            store.cancel(ids[3:4])
            jobs.update_one({"_id": ids[4]}, {"$unset": {"limits": ""}, "$inc": {"version": 1}})
        return update_many(jobs, wanted, update, *args, **options)

    monkeypatch.setattr(Collection, "update_many", interrupted)
    assert [row.id for row in claim(store, queue).rows] == ids[4:]
    assert [row.id for row in claim(store, queue).rows] == [free]
    assert row_of(store, ids[3]).state == JobState.CANCELLED


def test_a_slot_that_comes_free_meanwhile_is_taken(
    store: MongoStore, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = push(store, queue, 120, limits=SMTP)
    update_many = Collection.update_many

    def interrupted(jobs: Any, wanted: Any, update: Any, *args: Any, **options: Any) -> Any:
        answer = update_many(jobs, wanted, update, *args, **options)
        if update.get("$set", {}).get("state") == JobState.WAITING.value:
            monkeypatch.undo()
            slots = store.server.outside.place.slots
            slots.update_one({"_id": "s:smtp"}, {"$set": {"capacity": 2}, "$inc": {"free": 2}})  # and looks late
        return answer

    monkeypatch.setattr(Collection, "update_many", interrupted)
    found = [row.id for row in claim(store, queue, 9).rows]
    assert (found or [row.id for row in claim(store, queue, 9).rows]) == ids[:2]
