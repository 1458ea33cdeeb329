"""What workers count, and how the counts of processes are added up."""

from __future__ import annotations

import pytest

from stanchion.stores.records.jobs import SECOND, JobRow, JobState, Lease
from stanchion.stores.records.outcomes import Bury, Commit, Outcome, Rollback
from stanchion.telemetry.counts import DELAY_BUCKETS, RUN_BUCKETS, JobCounts, Sums, buckets_of, name_of, sums_in

LEASE = Lease("q", "id", "token")


def row(queue: str = "q", task: str | None = "t", *, waited: float = 0.0) -> JobRow:
    due = 1_900_000_000 * SECOND
    return JobRow("id", queue, -1, "running", 0, 0, due, due, "", task=task, started_at=due + int(waited * SECOND))


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        (Commit(LEASE), "done"),
        (Rollback(LEASE, 0.0, "no"), "failed"),
        (Rollback(LEASE, 9.0), "released"),
        (Rollback(LEASE, 0.0, refund=True), "released"),
        (Bury(LEASE, "no"), "dead"),
        (None, "settled"),
    ],
)
def test_names_of_outcomes(outcome: Outcome | None, name: str) -> None:
    assert name_of(outcome) == name


def test_attempts_times_and_delays() -> None:
    counts = JobCounts()
    counts.ended(row(waited=2), 0.02, Commit(LEASE))
    counts.ended(row(waited=-5), 0.02, Commit(LEASE))
    counts.ended(row(task=None), 9999.0, Rollback(LEASE, 0.0, "no"))
    sums = counts.sums(slots=4)
    assert sums.attempts == {("q", "t", "done"): 2, ("q", "", "failed"): 1}
    buckets, total = buckets_of(sums.run["q", "t"], RUN_BUCKETS)
    assert (dict(buckets)["0.01"], dict(buckets)["0.025"], dict(buckets)["+Inf"], total) == (0, 2, 2, 0.04)
    assert buckets_of(sums.run["q", ""], RUN_BUCKETS)[0][-2:] == [("3600.0", 0), ("+Inf", 1)]
    delays, waited = buckets_of(sums.delay["q",], DELAY_BUCKETS)
    assert (dict(delays)["0.005"], dict(delays)["2.5"], waited) == (2, 3, 2.0)


def test_a_bound_is_part_of_its_bucket() -> None:
    counts = JobCounts()
    counts.ended(row(waited=60), 30.0, Commit(LEASE))
    sums = counts.sums()
    assert dict(buckets_of(sums.run["q", "t"], RUN_BUCKETS)[0])["30.0"] == 1
    assert dict(buckets_of(sums.delay["q",], DELAY_BUCKETS)[0])["60.0"] == 1


def test_dead_and_lost() -> None:
    counts = JobCounts()
    counts.stored(["q", "q", None, "other"], [JobState.DEAD, JobState.DONE, JobState.DEAD, None])
    sums = counts.sums()
    assert (sums.dead, sums.lost) == ({("q",): 1}, {(): 1})


def test_sums_are_added_and_survive_as_text() -> None:
    one, other = JobCounts(), JobCounts()
    one.ended(row(), 0.02, Commit(LEASE))
    other.ended(row(), 0.5, Commit(LEASE))
    other.ended(row("new"), 0.5, Commit(LEASE))
    total = Sums()
    total.add(sums_in(one.sums(slots=3, healthy=1).text()))
    total.add(sums_in(other.sums(slots=4, healthy=0).text()))
    assert total.attempts == {("q", "t", "done"): 2, ("new", "t", "done"): 1}
    assert total.run["q", "t"][-1] == 0.52
    assert total.gauges == {("slots",): 7, ("healthy",): 0}


def test_of_a_process_that_has_ended_only_what_it_counted_stays() -> None:
    counts, past = JobCounts(), Sums()
    counts.ended(row(), 0.02, Commit(LEASE))
    past.add(counts.sums(slots=3), gauges=False)
    assert (past.attempts, past.gauges) == ({("q", "t", "done"): 1}, {})


def test_a_text_that_was_cut_off() -> None:
    text = JobCounts().sums(slots=3).text()
    assert sums_in(text[:-5]).gauges == {}
    assert sums_in("").attempts == {}


def test_a_copy_does_not_change() -> None:
    counts = JobCounts()
    counts.ended(row(), 0.02, Commit(LEASE))
    before = counts.sums()
    counts.ended(row(), 0.02, Commit(LEASE))
    counts.fold()
    assert before.run["q", "t"][-1] == 0.02
