"""A stream that buries misfits and whose processes are killed, and what must become of each job.

Each batch has as many misfits as its brake allows.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stanchion import JobState, Stanchion
from stanchion.core.ids import new_id
from stanchion.stores.records.jobs import NewJob
from tests.spark import killing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH = 20
MISFITS = 10
PERCENT = 100 * MISFITS // BATCH


def run(spark: SparkSession, url: str, folder: Path, mode: str, percent: int = PERCENT) -> None:
    """Send all that is ready and fits from `raw` to `clean`, from the checkpoint on."""

    def fitting(spark: SparkSession, url: str, folder: Path) -> DataFrame:
        given = {"typed": "true", "misfits": "bury", "maxMisfits": str(percent)}
        rows = killing.reading(spark, url, folder, "raw", BATCH, **given)
        columns = ["id as job_id"] if mode == "move" else []
        found: DataFrame = rows.selectExpr(*columns, "to_json(payload) as payload")
        return found

    killing.run(spark, url, folder, mode, make=fitting)


class Numbers:
    """What is in the queue, and must come out of it."""

    def __init__(self, app: Stanchion) -> None:
        self.app, self.fit, self.misfits = app, list[int](), list[str]()
        app.queue("raw", schema="n bigint not null")
        app.setup()

    def push(self, misfits: int = MISFITS) -> None:
        """Push a batch as a release does that knows no schemas."""
        known = len(self.fit) + len(self.misfits)
        made = [known + n if n >= misfits else f"no number {known + n}" for n in range(BATCH)]
        mixed = made[::2] + made[1::2]
        self.app.store.push([NewJob(new_id(), "raw", f'{{"n":{json.dumps(one)}}}') for one in mixed])
        self.fit += [one for one in made if isinstance(one, int)]
        self.misfits += [one for one in made if isinstance(one, str)]

    def check(self) -> None:
        """All has come to its end, once."""
        assert self.app.queue("raw").size().total == 0
        assert self._found("clean") == Counter(self.fit)
        assert self._found("raw", state=JobState.DEAD) == Counter(self.misfits)
        for job in self.app.queue("raw").find(state=JobState.DEAD, limit=10_000):
            assert "PayloadMisfit: field n is a string, not bigint" in str(job.errors)

    def check_buried(self, misfits: int) -> None:
        """There are so many dead letters."""
        assert self._found("raw", state=JobState.DEAD).total() == misfits

    def _found(self, queue: str, **given: Any) -> Counter[Any]:
        return Counter(job.payload["n"] for job in self.app.queue(queue).find(limit=10_000, **given))


if __name__ == "__main__":
    from tests.spark import killed_misfits

    killing.drive(lambda spark, url, folder: killed_misfits.run(spark, url, folder, sys.argv[3]))
