"""The checker finds what is wrong with a history: each broken one here breaks its rule and no other."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stanchion.stores.memory import MemoryStore
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.queues import Counts
from tests.crash.checker import Trial, broken_rules
from tests.crash.journal import LOST, UNAVAILABLE, Event, Journal, What, history
from tests.crash.producer import QUEUE, new_batch
from tests.crash.recording import recorded

pytestmark = pytest.mark.slow

PAYLOAD = '{"args":[0]}'


class Told:
    """A history in the making: a worker runs job "a", and "b" at its second attempt; "c" waits."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.rows = {
            "a": row("a", JobState.DONE, token="a1", attempts=1),
            "b": row("b", JobState.DONE, token="b2", attempts=2),
            "c": row("c", JobState.DONE, token="c1", attempts=1),
        }
        self.counts = Counts(pushed=3, reserved=4, committed=3, expired=1)
        for job in "abc":
            self.add("asked push", job, detail=PAYLOAD, batch="batch")
        for job in "abc":
            self.add("told push", job, detail="stored", batch="batch")
        self.delivery("a", "a1", 1)
        self.committed("a", "a1")
        self.delivery("b", "b1", 1)
        self.delivery("b", "b2", 2)
        self.committed("b", "b2")
        self.add("told commit", "b", "b1", detail=LOST)
        self.delivery("c", "c1", 1)
        self.committed("c", "c1")

    def add(self, what: What, job: str, token: str = "", attempt: int = 0, detail: str = "", batch: str = "") -> None:
        self.events.append(Event(float(len(self.events)), 1, what, job, token, attempt, detail, batch))

    def delivery(self, job: str, token: str, attempt: int) -> None:
        self.add("claimed", job, token, attempt)
        self.add("started", job, token, attempt)

    def committed(self, job: str, token: str) -> None:
        self.add("asked commit", job, token)
        self.add("told commit", job, token, detail=JobState.DONE)

    def forget(self, what: What, job: str) -> None:
        self.events = [event for event in self.events if (event.what, event.job) != (what, job)]

    def broken(self, doomed: str = "", *, drained: bool = True) -> list[str]:
        rows = list(self.rows.values())
        found = broken_rules(Trial(self.events, rows, self.counts, frozenset(doomed), drained))
        return [text.partition(":")[0] for text in found]


def row(job: str, state: JobState | str, *, token: str | None, attempts: int) -> JobRow:
    return JobRow(job, "q", 0, str(state), 0, 0, 0, 0, PAYLOAD, token=token, attempts=attempts, max_attempts=3)


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_sound_history(told: Told) -> None:
    assert told.broken() == []


def test_a_stored_job_is_gone(told: Told) -> None:
    for job in "abc":
        told.forget("told push", job)
    told.add("asked push", "d", detail=PAYLOAD, batch="other")
    told.add("told push", "d", detail="stored", batch="other")
    assert told.broken() == ["lost"]


def test_an_unacknowledged_push_may_be_missing(told: Told) -> None:
    told.add("asked push", "d", detail=PAYLOAD, batch="other")
    told.add("told push", "d", detail=UNAVAILABLE, batch="other")
    assert told.broken() == []


def test_half_a_push_is_there(told: Told) -> None:
    told.add("asked push", "d", detail=PAYLOAD, batch="batch")
    assert told.broken() == ["torn"]


def test_a_job_is_there_twice(told: Told) -> None:
    told.rows["again"] = told.rows["a"]
    told.counts = Counts(pushed=4, reserved=5, committed=4, expired=1)
    assert told.broken() == ["stored twice"]


def test_a_job_comes_from_nowhere(told: Told) -> None:
    told.forget("asked push", "a")
    assert told.broken() == ["invented"]


def test_a_payload_is_another(told: Told) -> None:
    told.rows["a"] = told.rows["a"]._replace(payload="{}")
    assert told.broken() == ["altered"]


def test_two_are_told_to_have_committed(told: Told) -> None:
    told.add("told commit", "b", "b1", detail=JobState.DONE)
    assert set(told.broken()) == {"committed 2 times", "undone"}


def test_a_committed_job_is_ready_again(told: Told) -> None:
    told.rows["a"] = row("a", JobState.READY, token="a1", attempts=1)
    told.counts = Counts(pushed=3, reserved=4, committed=2, expired=2)
    assert told.broken(drained=False) == ["undone"]


def test_a_job_is_done_that_nobody_committed(told: Told) -> None:
    told.forget("asked commit", "a")
    assert told.broken() == ["done by none"]


def test_a_refused_commit_was_made(told: Told) -> None:
    told.forget("told commit", "a")
    told.add("told commit", "a", "a1", detail=LOST)
    assert told.broken() == ["refused and yet committed"]


def test_a_commit_is_made_after_its_first_answer_got_lost(told: Told) -> None:
    told.forget("told commit", "a")
    told.add("told commit", "a", "a1", detail=UNAVAILABLE)
    assert told.broken() == []
    told.add("told commit", "a", "a1", detail=JobState.DONE)
    assert told.broken() == []


def test_a_committed_job_is_delivered_again(told: Told) -> None:
    told.delivery("a", "a2", 2)
    assert told.broken() == ["started after its commit"]


def test_a_job_given_back_starts_again_after_its_commit(told: Told) -> None:
    told.delivery("a", "a0", 1)
    assert told.broken() == ["started after its commit"]


def test_a_stalled_process_begins_an_earlier_delivery(told: Told) -> None:
    told.events = [event for event in told.events if (event.what, event.token) != ("started", "b1")]
    told.add("started", "b", "b1", 1)
    assert told.broken() == []


def test_a_claim_is_as_old_as_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may be stopped after the store has claimed and before the journal is written."""
    store = MemoryStore()
    store.push(new_batch(1, 0.0))
    claim, moments = store.claim, []

    def remembered(what: Claim) -> Claimed:
        claimed = claim(what)
        moments.append(time.monotonic())
        return claimed

    monkeypatch.setattr(store, "claim", remembered)
    recorded(store, Journal(tmp_path)).claim(Claim(QUEUE, 1, "token", "worker", 60_000_000))
    assert [event.at < moments[0] for event in history(tmp_path)] == [True]


def test_a_reservation_is_started_twice(told: Told) -> None:
    told.add("started", "c", "c1", 1)
    assert told.broken() == ["started 2 times under one token"]


def test_a_job_is_started_that_nobody_claimed(told: Told) -> None:
    told.forget("claimed", "a")
    assert told.broken() == ["started without a claim"]


def test_a_success_is_reported_twice(told: Told) -> None:
    told.add("succeeded", "a", "a1", 1)
    assert told.broken() == []
    told.add("succeeded", "a", "a1", 1)
    assert told.broken() == ["reported 2 times"]


def test_more_attempts_than_allowed(told: Told) -> None:
    told.rows["c"] = row("c", JobState.DONE, token="c1", attempts=4)
    told.counts = Counts(pushed=3, reserved=7, committed=3, expired=4)
    assert told.broken() == ["too many attempts"]


@pytest.mark.parametrize(
    "wrong",
    [{"pushed": 2}, {"committed": 2, "buried": 1}, {"reserved": 5}, {"expired": 0}, {"reserved": 5, "expired": 2}],
    ids=str,
)
def test_counts_that_do_not_add_up(told: Told, wrong: dict[str, int]) -> None:
    told.counts = told.counts._replace(**wrong)
    assert set(told.broken()) == {"miscounted"}


def test_a_job_given_back_unharmed_is_one_attempt_less(told: Told) -> None:
    told.counts = told.counts._replace(reserved=5, rolled_back=1)
    assert told.broken() == ["miscounted"]
    told.add("asked refund", "c", "c0")
    assert told.broken() == []
    told.rows["c"] = told.rows["c"]._replace(attempts=2)
    assert told.broken() == []
    told.add("told refund", "c", "c0", detail=JobState.READY)
    assert told.broken() == ["miscounted"]


def test_a_job_is_left(told: Told) -> None:
    told.rows["c"] = row("c", JobState.RUNNING, token="c1", attempts=1)
    told.forget("told commit", "c")
    told.counts = told.counts._replace(committed=2)
    assert told.broken() == ["unfinished"]
    assert told.broken(drained=False) == []


def test_a_doomed_job_must_be_dead(told: Told) -> None:
    assert told.broken(doomed="c") == ["unfinished"]
    told.forget("told commit", "c")
    told.rows["c"] = row("c", JobState.DEAD, token="c1", attempts=1)
    told.counts = told.counts._replace(committed=2, buried=1)
    assert told.broken(doomed="c") == []
    assert told.broken() == ["unfinished"]


def test_the_journal_gives_back_what_was_written(tmp_path) -> None:
    journal = Journal(tmp_path)
    events = [Event(2.0, 1, "asked push", "a", detail=PAYLOAD, batch="a"), Event(1.0, 1, "started", "b", "t", 3)]
    journal.write(events)
    (tmp_path / "killed.jsonl").write_text('[3.0, 2, "started", "c"]\n[4.0, 2, "sta')
    assert history(tmp_path) == [events[1], events[0], Event(3.0, 2, "started", "c")]
