"""What a supervisor knows of its processes: whether one is frozen, and what those that ended have counted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from stanchion.service.settings import WorkerSettings
from stanchion.service.supervisor import Child
from stanchion.stores.records.outcomes import Commit
from stanchion.telemetry.counts import JobCounts, Sums
from stanchion.worker.process.remarks import Remarks
from tests.telemetry.test_counts import LEASE, row


def ended_process() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["false"])
    process.wait(60)
    return process


def test_one_that_has_not_written_its_status_for_long_is_frozen(tmp_path: Path) -> None:
    status = tmp_path / "worker-0"
    child = Child(WorkerSettings("shop:app"), status, Remarks())
    child._process = ended_process()
    assert not child.frozen()  # it starts
    status.write_text("ok")
    assert not child.frozen()
    os.utime(status, (0, 0))
    assert child.frozen()
    child._process = None
    assert not child.frozen()


def test_what_one_has_counted_stays_after_its_end(tmp_path: Path) -> None:
    status = tmp_path / "worker-0"
    child = Child(WorkerSettings("shop:app", metrics=True), status, Remarks())
    counts = JobCounts()
    counts.ended(row(), 0.02, Commit(LEASE))
    status.with_suffix(".metrics").write_text(counts.sums(slots=3).text())
    child._process = ended_process()
    for _ in range(2):
        found = Sums()
        child.add_to(found)
        assert found.attempts == {("q", "t", "done"): 1}
        child.check(stopping=False)
    assert found.gauges == {}
