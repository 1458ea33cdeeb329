"""A plain station that kills an executor: `python -m tests.spark.dead_executor MASTER URL MARK`.

The first item that finds the file MARK deletes it, and kills the Java process of its task.
"""

import os
import signal
import sys
from pathlib import Path

from stanchion import Retry, Stanchion
from stanchion.spark import session
from stanchion.spark.stations import engine
from tests.spark.conftest import FAST
from tests.spark.supervision import one_at_a_time

ITEMS = 300
HEARTBEAT = 2.0


def parent_of(pid: int) -> int:
    """Return the process that started another one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def main(master: str, url: str, mark: str) -> None:
    """Bring items through two plain stations, in whose midst an executor dies."""
    with one_at_a_time():
        spark = session(master, **FAST)
    app = Stanchion(url)
    etl = app.pipeline("etl")

    def raw(n: int) -> int:
        if n == ITEMS // 2 and Path(mark).exists():
            Path(mark).unlink()
            os.kill(parent_of(os.getppid()), signal.SIGKILL)
            signal.pause()
        return n

    etl.station("raw", to="done", retry=Retry.constant(0, jitter=0))(raw)
    etl.station("done")(lambda n: n)
    etl.push_many(range(ITEMS))
    engine.run(etl, spark=spark, available_now=True, heartbeat=HEARTBEAT)
    app.close()
    spark.stop()
    print("{}")


if __name__ == "__main__":
    main(*sys.argv[1:])
