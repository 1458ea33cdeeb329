"""The waits of a job that are over, from the lines of its row."""

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.records.jobs import UNLANED, JobRow, JobState
from stanchion.stores.rules.lifecycle.past_waits import last_wait_until, past_waits_of, wait_over


def row(*lines: str) -> JobRow:
    return JobRow(
        *(new_id(), "q", UNLANED, JobState.WAITING),
        priority=0,
        rank=0,
        run_at=0,
        enqueued_at=0,
        payload="1",
        past_waits="".join(f"{one}\n" for one in lines),
    )


def test_no_wait_begins_before_the_one_before_has_ended() -> None:
    found = past_waits_of(row('["semaphore","","a",10,50]', '["semaphore","","b",40,90]', '["semaphore","","c",60,80]'))
    assert [(one.slot.name, one.since, one.until) for one in found] == [("a", 10, 50), ("b", 50, 90), ("c", 80, 80)]


def test_waits_for_a_rate_that_defers_again_are_one() -> None:
    found = past_waits_of(row('["rate","","r",10,50]', '["rate","","r",50,90]'))
    assert [(one.since, one.until) for one in found] == [(10, 90)]


@pytest.mark.parametrize("line", ["", "x", "[", "5", "null", "{}", "[" * 9000, "[1,2,3,4,5]", '["a","b","c",1,true]'])
def test_lines_of_another_program_are_left_alone(line: str) -> None:
    deferred = row(line)._replace(state=JobState.SCHEDULED, promised=1, run_at=5)
    assert past_waits_of(deferred) == []
    assert last_wait_until(deferred.past_waits) == 0
    assert wait_over(deferred, 3) == deferred
