"""What a supervisor of Spark does: one Java comes up at a time; queries that Spark gave up by itself start again."""

import fcntl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

STARTS_MAX = 40
"""So often a query is started again whose Python processes did not come up within Spark's own ten seconds."""


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Let no other test bring up a Java meanwhile, in whatever process it runs: two at once take too long for Spark."""
    with Path(tempfile.gettempdir(), "stanchion-tests-java.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_spark_too_slow(error: BaseException) -> bool:
    """Tell whether a query failed because its Python processes did not come up in time."""
    return "connect back" in str(error)


def supervised(run: Callable[[], object]) -> None:
    """Run a query, again where Spark's processes were too slow to come up; any other error is raised."""
    for left in reversed(range(STARTS_MAX)):
        try:
            run()
        except Exception as error:
            if not left or not is_spark_too_slow(error):
                raise
            time.sleep(1)  # others that make this machine busy may come to their end
        else:
            return
