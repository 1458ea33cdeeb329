"""What is left of jobs that are finished, or taken to another store, in Redis."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.redis.store import RedisStore
from tests.redis.conftest import QUEUE, Open, new_jobs
from tests.servers.redis import RedisServer


def test_a_job_that_is_claimed_meanwhile_is_not_taken(
    any_server: RedisServer, opened: Open, store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((job,),) = (new_jobs(1),)
    store.push([job])
    other, script = opened(any_server.url()), store._jobs.script

    def after_a_claim(name: str, *arguments: Any) -> Any:
        if name == "take":
            other.claim(Claim(QUEUE, 1, "token", lease=1000.0))
        return script(name, *arguments)

    monkeypatch.setattr(store._jobs, "script", after_a_claim)
    assert store.take([job.id]) == []
    assert store.fetch([job.id])[job.id].state == JobState.RUNNING


def test_a_finished_job_leaves_its_key(store: RedisStore) -> None:
    for number in range(3):
        store.push([NewJob(new_id(), QUEUE, "{}", key=f"k{number}")])
    rows = store.claim(Claim(QUEUE, 3, "token", lease=1000.0)).rows
    assert store.server.command("HLEN", store.server.keys.queue(QUEUE) + "keys") == 3
    store.settle([Commit(row.id, row.token or "") for row in rows])
    assert store.server.command("HLEN", store.server.keys.queue(QUEUE) + "keys") == 0
