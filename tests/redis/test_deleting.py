"""What is left of jobs that are finished or deleted, in Redis."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRef, JobState, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.redis.store import RedisStore
from stanchion_conformance.harness import find_jobs
from tests.redis.conftest import QUEUE, Open, new_jobs
from tests.redis.deaths import at_every_call
from tests.servers.redis import RedisServer


def test_a_job_that_is_claimed_meanwhile_is_not_deleted(
    any_server: RedisServer, opened: Open, store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((job,),) = (new_jobs(1),)
    store.push([job])
    other, run = opened(any_server.url()), store.server.run

    def after_a_claim(name: str, *arguments: Any) -> Any:
        if name == "delete_jobs":
            other.claim(Claim(QUEUE, 1, "token", lease=1000.0))
        return run(name, *arguments)

    monkeypatch.setattr(store.server, "run", after_a_claim)
    assert store.delete([JobRef(job.id)]) == [False]
    assert store.fetch([job.id])[job.id].state == JobState.RUNNING


@pytest.mark.parametrize("finished", [True, False])
def test_a_deletion_whose_answer_was_lost_is_told_of(opened: Open, redis_url: str, *, finished: bool) -> None:
    def prepare(store: RedisStore) -> list[JobRef]:
        store.push(new_jobs(5))
        running, *jobs = store.claim(Claim(QUEUE, 5 if finished else 1, "token", lease=1000.0)).rows
        store.settle([Commit(row.lease) for row in jobs])
        gone = JobRef(new_id(), 1 if finished else None)
        return [JobRef(running.id), gone, *(row.ref for row in find_jobs(store) if row.id != running.id)]

    def act(store: RedisStore, refs: list[JobRef]) -> None:
        assert store.delete(refs) == [False, False, True, True, True, True]

    for scene in at_every_call(opened, redis_url, "lost", prepare, act):
        assert [row.id for row in find_jobs(scene.witness)] == [scene.made[0].id]


def test_a_finished_job_leaves_its_key(store: RedisStore) -> None:
    for number in range(3):
        store.push([NewJob(new_id(), QUEUE, "{}", key=f"k{number}")])
    rows = store.claim(Claim(QUEUE, 3, "token", lease=1000.0)).rows
    assert store.server.command("HLEN", store.server.keys.queue(QUEUE) + "keys") == 3
    store.settle([Commit(row.lease) for row in rows])
    assert store.server.command("HLEN", store.server.keys.queue(QUEUE) + "keys") == 0
