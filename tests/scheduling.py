"""Which process runs which tests, where there are several."""

from xdist.scheduler import LoadFileScheduling


class OneSpark(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Each file goes to one process, and all tests with Spark to the same: they share a session, which takes 2 GB."""

    def _split_scope(self, nodeid: str) -> str:
        together = "tests/spark/"
        return together if nodeid.startswith(together) else str(super()._split_scope(nodeid))
