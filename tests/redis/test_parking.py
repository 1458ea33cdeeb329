"""Many jobs that wait for the same: parked in few and bounded steps, and passed over until they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from stanchion.core.ids import new_ids
from stanchion.stores.cas.claim import Parked
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.stores.redis.claim import DueJobs
from stanchion.stores.redis.client.layout import FIELD
from stanchion.stores.redis.client.server import Server
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.stores.rules.capacity.slots import semaphore_slot
from stanchion_conformance.harness import counts_of, sizes_of, slot_of
from tests.redis.conftest import QUEUE, Open
from tests.redis.keys import broken_rules

SMTP = limits_text(Limits(("smtp",)))
SMTP_AND_DISK = limits_text(Limits(("disk", "smtp")))


@pytest.fixture
def store(redis_url: str, opened: Open) -> RedisStore:
    store = opened(redis_url)
    store.set_semaphore("smtp", 0)
    store.set_semaphore("disk", 9)
    return store


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each script was run."""
    counted: Counter[str] = Counter()
    run = Server.run

    def counting(server: Server, name: str, *rest: Any) -> Any:
        counted[name] += 1
        return run(server, name, *rest)

    monkeypatch.setattr(Server, "run", counting)
    yield counted
    monkeypatch.undo()


def push(store: RedisStore, count: int, **fields: Any) -> list[str]:
    jobs = [NewJob(job, QUEUE, "{}", **fields) for job in new_ids(count)]
    store.push(jobs)
    return [job.id for job in jobs]


def claim(store: RedisStore, limit: int = 1, **fields: Any) -> Claimed:
    (token,) = new_ids(1)
    return store.claim(Claim(QUEUE, limit, token, worker="w", **fields))


def test_the_first_free_job_is_found_in_few_steps(store: RedisStore, scripts: Counter[str]) -> None:
    push(store, 25_000, limits=SMTP)
    free = push(store, 3)
    scripts.clear()
    claimed = claim(store, 5)
    assert ([row.id for row in claimed.rows], claimed.retry_in) == (free, 0.0)
    assert scripts["claim"] == 4  # one, and one for each ten thousand
    assert scripts["read"] == scripts["change"] == 1  # of the five that it met first
    assert (scripts["park"] - 1) * 2000 < sizes_of(store, QUEUE).waiting < 25_000
    assert broken_rules(store, QUEUE) == []


@pytest.mark.parametrize("lost", [False, True])
def test_a_large_claim_is_made_in_steps(
    store: RedisStore, scripts: Counter[str], monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    ids = push(store, 4500)
    run, left = Server.run, 2

    def losing(server: Server, name: str, *given: Any) -> Any:
        nonlocal left
        answer = run(server, name, *given)
        left -= name == "claim"
        if name == "claim" and left == 0:
            raise ConnectionError("the answer is lost")
        return answer

    if lost:
        monkeypatch.setattr(Server, "run", losing)
    scripts.clear()
    assert [row.id for row in claim(store, 4200).rows] == ids[:4200]
    assert scripts["claim"] == 3 + lost
    assert sizes_of(store, QUEUE).running == counts_of(store, QUEUE).reserved == 4200


def test_the_rest_is_parked_by_the_way(store: RedisStore, scripts: Counter[str]) -> None:
    ids = push(store, 6000, limits=SMTP)
    scripts.clear()
    claimed = claim(store, 3)
    assert claimed.rows == []
    assert scripts["park"] == 3  # by two thousand each
    assert slot_of(store, "smtp") == ([], ids)
    assert claim(store).retry_in is None
    assert broken_rules(store, QUEUE) == []


def test_a_claim_breaks_off_when_its_time_is_over(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stanchion.stores.cas.claim.CLAIM_SECONDS", 0.0)
    push(store, 5000, limits=SMTP)
    (free,) = push(store, 1)
    rows: list[JobRow] = []
    calls = 0
    while not rows:
        claimed = claim(store)
        rows, calls = claimed.rows, calls + 1
        assert rows or claimed.retry_in == 0.0
    assert [row.id for row in rows] == [free]
    assert calls > 1


def test_it_lasts_half_a_lease_at_most(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = 0.0
    monkeypatch.setattr("time.monotonic", lambda: passed)
    park_run = store._due.park_run

    def slow(*given: Any, **options: Any) -> Parked:
        nonlocal passed
        passed += 0.2
        return park_run(*given, **options)

    monkeypatch.setattr(store._due, "park_run", slow)
    push(store, 20_000, limits=SMTP)
    assert store.claim(Claim(QUEUE, 1, "t", lease=1.0)) == Claimed([], 0.0)
    assert passed == pytest.approx(0.6)  # the step in which the half was over was the last one


def test_no_job_is_parked_behind_one_that_is_handed_out(store: RedisStore) -> None:
    first = push(store, 5, limits=SMTP)
    (free,) = push(store, 1)
    push(store, 5, limits=SMTP)
    assert [row.id for row in claim(store).rows] == [free]
    assert slot_of(store, "smtp") == ([], first)


def test_in_lanes_none_is_parked_before_its_lane_is_served(store: RedisStore) -> None:
    store.configure(QUEUE, {"lanes": 2, "uses_lanes": True})
    (first, *_) = push(store, 5, limits=SMTP, lane=1)
    (free,) = push(store, 1, lane=2)
    assert [row.id for row in claim(store).rows] == [free]
    assert slot_of(store, "smtp") == ([], [first])


def test_those_that_hold_something_are_not_passed_over(store: RedisStore) -> None:
    """Of several semaphores, one that is full second leaves the first in the hands of the job."""
    store.set_semaphore("smtp", 1)
    store.set_semaphore("disk", 1)
    (one, other, third) = push(store, 3, limits=SMTP_AND_DISK)
    (plain,) = push(store, 1, limits=SMTP)
    (row,) = claim(store).rows
    assert row.id == one
    assert claim(store, 9).rows == []
    assert slot_of(store, "disk") == ([one], [other, third])
    assert slot_of(store, "smtp") == ([one], [plain])
    store.settle([Commit(row.lease)])
    done = []
    while rows := claim(store, 9).rows:
        done += [row.id for row in rows]
        assert set(store.settle([Commit(row.lease) for row in rows])) == {JobState.DONE}
    assert sorted(done) == sorted([other, third, plain])
    assert slot_of(store, "disk") == slot_of(store, "smtp") == ([], [])


@pytest.mark.parametrize("limits", [None, SMTP])
def test_a_long_line_of_an_order_key(store: RedisStore, scripts: Counter[str], limits: str | None) -> None:
    store.set_semaphore("smtp", 9)
    ids = push(store, 3000, order_key="k", limits=limits)
    (free,) = push(store, 1)
    rows = claim(store).rows
    done = [row.id for row in rows]
    scripts.clear()
    assert [row.id for row in claim(store).rows] == [free]
    assert scripts["change"] < 5
    for _ in range(4):
        store.settle([Commit(row.lease) for row in rows])
        rows = claim(store, 9).rows
        done += [row.id for row in rows]
    assert done == ids[:5]
    assert broken_rules(store, QUEUE) == []


@pytest.mark.parametrize(("others", "parked_first"), [(100, False), (2500, True)])
def test_who_holds_its_order_key_is_not_passed_over(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch, others: int, parked_first: bool
) -> None:
    """It comes back while a claim parks others behind it."""
    (holder,) = push(store, 1, order_key="k")
    (row,) = claim(store).rows
    push(store, others, order_key="k", priority=9)  # one step parks 2000
    (free,) = push(store, 1, priority=-1)
    park_few = DueJobs.park_few

    def back_meanwhile(due: DueJobs, *given: Any) -> Parked:
        monkeypatch.undo()
        parked = park_few(due, *given) if parked_first else None
        store.settle([Rollback(row.lease, 0.0)])
        return parked or park_few(due, *given)

    monkeypatch.setattr(DueJobs, "park_few", back_meanwhile)
    assert [row.id for row in claim(store, 2).rows] == [holder, free]
    assert sizes_of(store, QUEUE).waiting == others


def test_jobs_of_an_earlier_release_are_met_one_by_one(store: RedisStore) -> None:
    """Their state does not tell which slot they wait for first."""
    ids = push(store, 20, limits=SMTP)
    (free,) = push(store, 1)
    live = store.server.keys.queue(QUEUE) + "live"
    for job, state in store.server.client.hgetall(live).items():
        if job.decode() != free:
            store.server.client.hset(live, job, state.decode().rpartition(FIELD)[0] + FIELD + "1")
    assert [row.id for row in claim(store).rows] == [free]
    assert slot_of(store, "smtp") == ([], ids)
    store.set_semaphore("smtp", 2)
    assert [row.id for row in claim(store, 9).rows] == ids[:2]


def test_a_slot_that_comes_free_meanwhile_is_taken(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = push(store, 3000, limits=SMTP)
    script = store._jobs.script

    def interrupted(name: str, *given: Any) -> Any:
        answer = script(name, *given)
        if name == "park":
            monkeypatch.undo()
            capacity = store.server.keys.slot(semaphore_slot("smtp")) + "capacity"
            store.server.client.set(capacity, 2)  # and its looking at the slot is late
        return answer

    monkeypatch.setattr(store._jobs, "script", interrupted)
    assert [row.id for row in claim(store, 9).rows] == ids[:2]
