"""Which process runs which tests, where there are several."""

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SPARK = "tests/spark/test_"
KILLS = "tests/spark/test_ that kill"

SECONDS = {
    KILLS: 60.0,
    SPARK: 5.0,
    "tests/test_big_flows.py": 45.0,
    "tests/crash/test_mixed.py": 30.0,
    "tests/crash/": 14.0,
    "tests/mongo/test_slots.py": 14.0,
    "tests/mongo/test_flows.py": 7.0,
    "tests/worker/test_scheduler.py": 8.5,
    "tests/sql/test_slots.py": 5.5,
    "tests/demo/": 3.5,
    "tests/docs/": 2.6,
    "tests/protocol/": 2.5,
    "tests/mongo/": 2.0,
    "tests/redis/": 1.5,
    "tests/sql/": 1.0,
    "tests/worker/": 1.0,
    "tests/servers/": 1.0,
    "tests/conformance/test_mongo": 0.5,
    "tests/conformance/test_mariadb": 0.4,
    "tests/conformance/test_postgres": 0.3,
}
"""About how long a test takes on a busy machine, by how its name begins."""

USUAL = 0.1


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Each file goes to one process, and the tests with Spark to two: they share a session, which takes 2 GB.

    What takes longest begins first, so that no process is left with a long file when all others are done.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(SPARK):
            return KILLS if "_kills.py" in nodeid else SPARK
        return str(super()._split_scope(nodeid))

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(max(self.workqueue, key=self._seconds), last=False)
        super()._assign_work_unit(node)

    def _seconds(self, scope: str) -> float:
        each = next((seconds for folder, seconds in SECONDS.items() if scope.startswith(folder)), USUAL)
        return each * len(self.workqueue[scope])
