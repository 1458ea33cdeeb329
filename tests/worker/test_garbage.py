"""The garbage collector of a worker process."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from stanchion import Stanchion
from stanchion.service.garbage import THRESHOLD
from stanchion.service.settings import WorkerSettings

JOBS = """
import gc
from stanchion import Stanchion

app = Stanchion("sqlite:///jobs.db?synchronous=off")
frozen = gc.get_freeze_count()  # Python 3.12 begins with some
{before}

@app.task(name="look")
def look():
    return [gc.get_threshold()[0], gc.get_freeze_count() > frozen, gc.isenabled()]
"""

AS_IT_WAS = gc.get_threshold()[0]


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("", [THRESHOLD, True, True]),
        ("gc.set_threshold(1234)", [1234, False, True]),
        ("gc.disable()", [AS_IT_WAS, False, False]),
    ],
)
def test_a_worker_process_collects_less_unless_the_program_chose(tmp_path: Path, before: str, found: object) -> None:
    (tmp_path / "jobs.py").write_text(JOBS.format(before=before))
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db?synchronous=off")
    app.setup()
    job = app.enqueue("look")
    settings = WorkerSettings("jobs:app", until_empty=True)
    code = f"from stanchion.service.process import *; run_worker_process({settings!r})"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
    assert job.result() == found
    app.close()
