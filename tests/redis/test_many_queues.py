"""Thousands of queues take few round trips: in a heartbeat, and where the server has lost its scripts."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.redis.store import RedisStore
from stanchion_conformance.harness import new_job

QUEUES = [f"queue-{number}" for number in range(300)]


def alone(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that grows with each command that is not sent together with others."""
    client, sent = store.server.client, list[Any]()
    execute = client.execute_command

    def noted(*parts: Any, **options: Any) -> Any:
        sent.append(parts[0])
        return execute(*parts, **options)

    monkeypatch.setattr(client, "execute_command", noted)
    return sent


def test_a_heartbeat_asks_for_all_queues_at_once(one: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [new_job(queue=queue) for queue in QUEUES[:2]]
    one.push(jobs)
    row = WorkerRow("w1", "host", 1, tuple(QUEUES), 8, 10.0)
    one.beat([row])
    for job in jobs:
        assert one.claim(Claim(queue=job.queue, limit=1, token=new_id(), worker="w1", lease=None)).rows
    one.cancel([job.id for job in jobs])
    sent = alone(one, monkeypatch)
    assert set(one.beat([row]).cancelled) == {job.id for job in jobs}
    assert len(sent) < 20


def test_a_lost_script_is_sent_once(one: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    one.push([new_job(queue=queue) for queue in QUEUES])
    one.server.client.script_flush()
    sent = alone(one, monkeypatch)
    found = one.stats(QUEUES, ["states", "heads"])
    assert all(stats.states.ready == len(stats.heads) == 1 for stats in found.values())
    assert len(sent) < 20
