"""The list of jobs that expire, by that time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stanchion.stores.cas.operate import Operator
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.redis.store import RedisStore
from stanchion_conformance.harness import claim, new_job, state
from tests.redis.conftest import QUEUE, Open


def listed(store: RedisStore) -> int:
    return int(store.server.command("ZCARD", store.server.keys.queue(QUEUE) + "overdue"))


def test_a_job_listed_too_early_is_looked_at_again(one: RedisStore) -> None:
    job = new_job(queue=QUEUE, expires=300.0)
    one.push([job])
    # The clock stood at a later time when it was listed.
    one.server.command("ZADD", one.server.keys.queue(QUEUE) + "overdue", 1, job.id)
    one.maintain()
    assert (state(one, job.id), listed(one)) == (JobState.READY, 1)
    one.clock_offset += 301
    one.maintain()
    assert (state(one, job.id), listed(one)) == (JobState.CANCELLED, 0)


def test_jobs_that_ended_in_time_leave_it_unread(opened: Open, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    end = Operator.end_overdue

    def ends(operator: Operator, ids: Sequence[str]) -> list[str]:
        read.extend(ids)
        return end(operator, ids)

    monkeypatch.setattr(Operator, "end_overdue", ends)
    one = opened(redis_url)
    assert isinstance(one, RedisStore)
    jobs = [new_job(queue=QUEUE, expires=300.0) for _ in range(20)]
    one.push(jobs)
    one.settle([Commit(row.lease) for row in claim(one, 19, queue=QUEUE)])
    one.clock_offset += 301
    one.maintain()
    assert read == [jobs[19].id]
    assert listed(one) == 0
