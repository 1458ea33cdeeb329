"""The cases of `many_queues` in a process of their own, as they count calls by a profiler.

In CPython 3.11 it never returns while an exception waits for a thread that is blocked, as time-outs of tasks leave it.
"""

import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).with_name("many_queues.py")


def test_work_grows_with_the_queues() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(CASES)]
    done = subprocess.run(command, cwd=CASES.parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
