"""When jobs expire, whatever other programs have written."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path

import pytest

from stanchion import JobState, Stanchion
from stanchion.stores.rules.expiry import expiry_of
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion_conformance.harness import new_job

NEVER = 2**62


@pytest.mark.parametrize(
    ("expires", "at"),
    [(None, NEVER), (1.5, 1_500_007), (0.0, 7), (-1.0, 7), (1e300, NEVER), (math.inf, NEVER), (math.nan, NEVER)],
)
def test_the_time(expires: float | None, at: int) -> None:
    assert expiry_of(created(new_job(expires=expires), 7)) == at
    assert expiry_of(created(new_job(expires=-math.inf), 7)) == 7


@pytest.mark.parametrize(("written", "state"), [("9e999", JobState.RUNNING), ("-9e999", JobState.CANCELLED)])
def test_no_time_holds_up_a_queue(tmp_path: Path, written: str, state: JobState) -> None:
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db")
    queue = app.queue("orders")
    odd, other = queue.push(1, expires=1000), queue.push(2)
    connection = sqlite3.connect(tmp_path / "jobs.db")
    connection.execute(f"UPDATE stanchion_jobs SET expires = {written} WHERE expires IS NOT NULL")
    connection.commit()
    connection.close()
    app.maintain()
    assert other.id in [job.id for job in queue.reserve(2)]
    found = queue.get(odd.id)
    assert found is not None
    assert found.state is state
    app.close()
