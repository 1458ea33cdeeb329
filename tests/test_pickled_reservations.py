"""A reservation goes to another process by pickle."""

import pickle
import subprocess
import sys
from pathlib import Path

from stanchion import JobState, Stanchion
from stanchion.jobs.held_job import lease_of

COMMIT = "import pickle, sys; pickle.load(sys.stdin.buffer).commit('in another process')"


def test_and_ends_there(tmp_path: Path) -> None:
    queue = Stanchion(f"sqlite:///{tmp_path}/jobs.db").queue("jobs")
    queue.push({"n": 1}, headers={"h": 1})
    (job,) = queue.reserve(lease=300)
    subprocess.run([sys.executable, "-c", COMMIT], input=pickle.dumps(job), check=True)
    (done,) = queue.history()
    assert (done.state, done.result, done.headers) == (JobState.DONE, "in another process", {"h": 1})


def test_with_its_lease(tmp_path: Path) -> None:
    queue = Stanchion(f"sqlite:///{tmp_path}/jobs.db").queue("jobs")
    queue.push(1)
    (job,) = queue.reserve()
    copy = pickle.loads(pickle.dumps(job))  # noqa: S301 - our own
    assert (lease_of(copy), copy.payload, copy.attempt) == (lease_of(job), 1, 1)
    copy.extend(60)
    copy.rollback(0, "no")
    assert queue.size().ready == 1
