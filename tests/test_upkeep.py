"""The time that upkeep takes, and what it reads."""

import time
from collections.abc import Sequence

import pytest

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.expiry import end_overdue
from stanchion.stores.rules.trimming import Trimming
from stanchion.stores.rules.upkeep import Budget, purge_each


def test_each_queue_gets_a_portion_however_little_time_there_is():
    asked = []

    def purge(queue: str) -> int:
        asked.append(queue)
        return 10 if queue != "b" else 9

    assert purge_each(purge, ["a", "b", "c"], 10, Budget(0)) == ["a", "c"]
    assert asked == ["a", "b", "c"]


def test_with_time_left_all_are_purged_in_turn():
    asked, left = [], {"a": [10, 10, 3], "b": [10, 0]}

    def purge(queue: str) -> int:
        asked.append(queue)
        return left[queue].pop(0)

    assert purge_each(purge, ["a", "b"], 10, Budget(60)) == []
    assert asked == ["a", "b", "a", "b", "a"]


def test_expired_jobs_are_ended_in_portions_as_far_as_time_allows():
    left = [1200]

    def end_some(most: int) -> int:
        ended = min(most, left[0])
        left[0] -= ended
        return ended

    end_overdue(end_some, Budget(0))
    assert left == [700]
    end_overdue(end_some, Budget(60))
    assert left == [0]


class FewEnds:
    """Finished jobs of one queue, by end and outcome, and the portions that were read of them."""

    def __init__(self, jobs: list[tuple[int, str]]) -> None:
        self.jobs, self.read = jobs, list[tuple[int, int]]()

    def now(self) -> int:
        return 100 * SECOND

    def after_portion(self, queue: str, after: int, before: int, portion: int) -> int | None:  # noqa: ARG002
        self.read.append((after, before))
        found = sorted(end for end, _ in self.jobs if after <= end <= before)
        return found[portion] if len(found) > portion else None

    def beyond(self, queue: str, newest: int, portion: int) -> list[int]:  # noqa: ARG002
        self.read.append((newest, portion))
        return sorted((end for end, _ in self.jobs), reverse=True)[newest : newest + portion]

    def delete_of(self, queue: str, outcome: str, after: int, before: int, portion: int) -> int:  # noqa: ARG002
        such = [one for one in sorted(self.jobs) if one[1] == outcome and after <= one[0] <= before][:portion]
        self.jobs = [one for one in self.jobs if one not in such]
        return len(such)

    def oldest(self, queue: str, count: int) -> list[str]:  # noqa: ARG002
        return [f"{end} {outcome}" for end, outcome in sorted(self.jobs)[:count]]

    def delete(self, queue: str, ids: Sequence[str], before: int) -> None:  # noqa: ARG002
        self.jobs = [(end, outcome) for end, outcome in self.jobs if end > before or f"{end} {outcome}" not in ids]


DONE_SOON = QueueSettings("q", history_ttl_done=10.0)


def test_jobs_that_stay_are_read_once():
    ends = FewEnds([*((end, "dead") for end in range(1, 8)), (8, "done"), (9, "dead"), (90 * SECOND + 1, "done")])
    upkeep = Trimming(ends, 3)
    assert upkeep.trim_each([DONE_SOON, QueueSettings("kept")], Budget(0)) == ["q"]
    assert ends.read == [(0, 90 * SECOND)]
    assert upkeep.trim_each([DONE_SOON], Budget(60)) == []
    assert [after for after, _ in ends.read] == [0, 5, 9]
    assert [end for end, outcome in ends.jobs if outcome == "done"] == [90 * SECOND + 1]
    assert upkeep.trim_each([DONE_SOON], Budget(0)) == []
    assert ends.read[-1] == (90 * SECOND + 1, 90 * SECOND)


def test_jobs_that_came_late_are_found_within_an_hour(monkeypatch: pytest.MonkeyPatch):
    ends, now = FewEnds([(5, "dead")]), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    upkeep = Trimming(ends, 3)
    upkeep.trim_each([DONE_SOON], Budget(0))
    ends.jobs.append((4, "done"))
    upkeep.trim_each([DONE_SOON], Budget(0))
    assert (4, "done") in ends.jobs
    now[0] += 3600
    upkeep.trim_each([DONE_SOON], Budget(0))
    assert ends.jobs == [(5, "dead")]


class SharedEnds(FewEnds):
    """Finished jobs of which another process deletes a portion at a moment."""

    def __init__(self, jobs: list[tuple[int, str]], moment: str) -> None:
        super().__init__(jobs)
        self.moment = moment

    def at(self, moment: str) -> None:
        if self.moment == moment:
            self.jobs = sorted(self.jobs)[-12:]

    def oldest(self, queue: str, count: int) -> list[str]:
        self.at("before the oldest are read")
        found = super().oldest(queue, count)
        self.at("after the oldest are read")
        return found

    def delete(self, queue: str, ids: Sequence[str], before: int) -> None:
        self.at("before they are deleted")
        super().delete(queue, ids, before)


@pytest.mark.parametrize(
    "moment", ["before the oldest are read", "after the oldest are read", "before they are deleted"]
)
def test_processes_that_trim_together_delete_no_more(moment: str):
    together = [(5, f"done {number:02}") for number in range(20)]
    ends = SharedEnds(together, moment)
    for _ in range(2):
        assert Trimming(ends, 100).trim_each([QueueSettings("q", history_max=7)], Budget(0)) == []
    assert ends.jobs == together[-7:]


def test_a_large_history_max_is_checked_less_often(monkeypatch: pytest.MonkeyPatch):
    ends, now = FewEnds([]), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    upkeep = Trimming(ends, 3)
    for newest, checks in ((10_000, 2), (40_000, 1)):
        for _ in range(2):
            upkeep.trim_each([QueueSettings("q", history_max=newest)], Budget(0))
        assert ends.read == [(newest, 3)] * checks
        ends.read.clear()
    now[0] += 2
    upkeep.trim_each([QueueSettings("q", history_max=40_000)], Budget(0))
    assert ends.read == [(40_000, 3)]
    ends.jobs = [(end, "done") for end in range(40_004)]
    now[0] += 2
    assert upkeep.trim_each([QueueSettings("q", history_max=40_000)], Budget(0)) == ["q"]
    assert upkeep.trim_each([QueueSettings("q", history_max=40_000)], Budget(0)) == []
    assert len(ends.jobs) == 40_000
