"""What a receiver keeps: jobs in its buffer and held, outcomes without an answer, capacity, late jobs."""

import time
from typing import Any

import pytest

from stanchion.stores.grpc.receiving import guard, receiver
from stanchion.stores.grpc.receiving.guard import Epochs, stamp
from stanchion.stores.grpc.receiving.receiver import Capacity, Feeding, Link, Receiver
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.rules.leases.lost_leases import ALONE_FROM
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion.stores.wire.messages import pb
from stanchion.stores.wire.outcomes import Elsewhere, Refused
from stanchion_conformance.harness import in_threads, new_job, worker
from tests.worker.conftest import until


def reserved(**fields: Any) -> JobRow:
    return created(new_job(), 0)._replace(state=JobState.RUNNING, token="m:1:x", **fields)


def down(*jobs: tuple[int, int], heard: int | None = None, left: int = 5_000_000, **more: Any) -> Any:
    """Return a message with jobs of these slices and epochs."""
    named = [pb.Job(queue="orders", slice=one, epoch=epoch) for one, epoch in jobs]
    return pb.Down(jobs=named, heard_us=stamp() if heard is None else heard, lease_left_us=left, **more)


class TestLate:
    def test_a_job_in_time(self) -> None:
        assert Epochs().late(down((0, 1), (1, 7))) == [False, False]

    def test_one_of_a_sender_whose_session_may_have_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guard, "stamp", lambda: 1_000_001)
        assert Epochs().late(down((0, 1), heard=0, left=1_000_000)) == [True]
        assert Epochs().late(down((0, 1), heard=1, left=1_000_000)) == [False]

    def test_one_of_a_former_owner(self) -> None:
        epochs = Epochs()
        assert epochs.late(down((0, 2), (1, 1))) == [False, False]
        assert epochs.late(down((0, 1), (1, 1))) == [True, False]

    def test_one_whose_new_owner_has_asked_for_a_report(self) -> None:
        epochs = Epochs()
        epochs.learn(pb.Down(report=True, slices=[pb.Slice(queue="orders", slice=0, epoch=3)]))
        assert epochs.late(down((0, 2))) == [True]
        assert epochs.late(down((0, 3))) == [False]


class TestReceiver:
    @pytest.fixture
    def arrived(self) -> list[Any]:
        return []

    @pytest.fixture
    def one(self, arrived: list[Any]) -> Receiver:
        return Receiver(worker("w"), Feeding(("orders",)), arrived.append)

    @pytest.fixture
    def link(self) -> Link:
        found = Link()
        found.up = True
        return found

    def claim(self, one: Receiver, limit: int = 10, **more: Any) -> list[JobRow]:
        return one.claim(Claim("orders", limit, "t", worker="w", **more))

    def test_claims_get_what_has_come(self, one: Receiver, link: Link, arrived: list[Any]) -> None:
        rows = [reserved(rank=rank) for rank in (0, 5, 3)]
        one.take_in(link, rows, [False] * 3)
        assert arrived == [{"orders"}]
        assert [row.rank for row in self.claim(one, 2)] == [5, 3]
        assert self.claim(one, min_rank=1) == []
        assert self.claim(one) == rows[:1]
        assert set(one.holding()) == {row.lease for row in rows}

    def test_a_job_that_must_run_alone_is_claimed_alone(self, one: Receiver, link: Link) -> None:
        rows = [reserved(), reserved(lost_leases=ALONE_FROM, lost_in_all=ALONE_FROM), reserved()]
        one.take_in(link, rows, [False] * 3)
        assert [self.claim(one) for _ in range(3)] == [[row] for row in rows]

    def test_late_jobs_are_refused(self, one: Receiver, link: Link) -> None:
        rows = [reserved(), reserved()]
        one.take_in(link, rows, [True, False])
        assert list(link.outgoing) == [Refused(rows[0].lease)]
        assert list(one.holding()) == [rows[1].lease]

    def claimed(self, one: Receiver, link: Link, **fields: Any) -> JobRow:
        one.take_in(link, [row := reserved(**fields)], [False])
        assert self.claim(one) == [row]
        return row

    def answered(self, one: Receiver, link: Link, at: int | None = None, left: int = 5_000_000) -> None:
        with one.changed:
            one.answered(link, stamp() if at is None else at, left, 5.0)

    @pytest.mark.parametrize(("old", "left"), [(1_300_000, 5_000_000), (500_000, 400_000)])
    def test_a_job_begins_once_its_manager_has_answered_lately(
        self, one: Receiver, link: Link, old: int, left: int
    ) -> None:
        """Lately: before the manager, whose session lasts, may give it to others after a stream that has ended."""
        row = self.claimed(one, link)
        self.answered(one, link, stamp() - old, left)
        begins: list[bool] = []
        with in_threads([lambda: begins.append(one.holds(row.lease))]):
            until(lambda: link.asks)
            assert begins == []
            self.answered(one, link)
        assert begins == [True]
        assert one.holds(row.lease)

    def test_no_job_begins_without_an_answer(self, one: Receiver, link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(receiver, "ANSWER_SECONDS", 0.01)
        row, kept = self.claimed(one, link), self.claimed(one, steady := Link())
        self.answered(one, steady)
        assert not one.holds(row.lease)
        assert one.holds(kept.lease)
        assert one.holds(reserved().lease), "it came by a call"
        monkeypatch.setattr(one._answered, "wait", pytest.fail)
        next_one = self.claimed(one, link)
        assert not one.holds(next_one.lease), "one has waited for the answer"
        assert link.asks
        self.answered(one, link)
        assert one.holds(next_one.lease)

    def test_no_job_of_a_stream_that_has_ended_begins(self, one: Receiver, link: Link) -> None:
        row = self.claimed(one, link)
        self.answered(one, link)
        with one.changed:
            one.cut(link)
        link.up = True
        self.answered(one, link)
        assert not one.holds(row.lease)
        assert list(one.holding()) == [row.lease], "one that had begun goes on"
        assert one.holds(self.claimed(one, link).lease)

    def test_no_job_begins_that_has_expired_in_the_buffer(
        self, one: Receiver, link: Link, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: now)
        row, other = (reserved(started_at=3_000_000, expires=expires) for expires in (10.0, None))
        one.take_in(link, [row, other], [False, False])
        now = 106.9
        assert self.claim(one) == [row, other]
        self.answered(one, link)
        assert one.holds(row.lease)
        now = 107.0
        assert not one.holds(row.lease)
        assert one.holds(other.lease)

    def test_a_job_belongs_to_the_new_owner_of_its_slice(self, one: Receiver, link: Link) -> None:
        new = Link()
        new.up = True
        mine, others = self.claimed(one, link, lane=3), self.claimed(one, link, lane=8)
        buffered = reserved(lane=2)
        one.take_in(link, [buffered], [False])
        with one.changed:
            one.owned(new, "orders", 0, 7)
            assert (new.jobs, link.jobs) == (2, 1)
            one.cut(link)
        self.answered(one, new)
        assert one.holds(mine.lease)
        assert not one.holds(others.lease)
        assert self.claim(one) == [buffered]

    def test_a_stop_gives_back_what_is_not_begun(self, one: Receiver, link: Link) -> None:
        begun, buffered, late = reserved(), reserved(), reserved()
        one.take_in(link, [begun], [False])
        self.claim(one)
        one.take_in(link, [buffered], [False])
        one.stop()
        one.take_in(link, [late], [False])
        assert list(link.outgoing) == [Refused(buffered.lease), Refused(late.lease)]
        assert list(one.holding()) == [begun.lease]
        assert one.room() == 0

    def test_the_end_of_a_stream_drops_what_is_not_begun(self, one: Receiver, link: Link) -> None:
        other = Link()
        begun, buffered, of_other = reserved(), reserved(), reserved()
        one.take_in(link, [begun], [False])
        self.claim(one)
        one.take_in(link, [buffered], [False])
        one.take_in(other, [of_other], [False])
        with one.changed:
            one.cut(link)
        assert set(one.holding()) == {begun.lease, of_other.lease}

    def test_outcomes_wait_for_their_answer(self, one: Receiver, link: Link) -> None:
        rows = [reserved() for _ in range(3)]
        one.take_in(link, rows, [False] * 3)
        self.claim(one)
        answers: list[Any] = []
        with in_threads([lambda: answers.append(one.settle([Commit(row.lease) for row in rows]))]):
            until(lambda: len(link.outgoing) == 3)
            assert set(one.holding()) == {row.lease for row in rows}
            with one.changed:
                one.confirmed(link, [rows[0].lease], [])
                one.confirmed(link, [rows[1].lease], [rows[2].lease])
        assert answers == [{rows[0].lease: "settled", rows[1].lease: "settled", rows[2].lease: "lost"}]
        assert list(one.holding()) == []

    def test_outcomes_without_an_answer_are_left_to_a_call(
        self, one: Receiver, link: Link, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(receiver, "ANSWER_SECONDS", 0.01)
        row = reserved()
        one.take_in(link, [row], [False])
        self.claim(one)
        assert one.settle([Commit(row.lease)]) == {row.lease: None}
        assert list(one.holding()) == [row.lease]
        one.settled_elsewhere([row.lease])
        assert list(link.outgoing) == [Elsewhere(row.lease)]
        assert list(one.holding()) == []

    def test_the_end_of_a_stream_ends_the_wait_for_answers(
        self, one: Receiver, link: Link, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(receiver, "ANSWER_SECONDS", 1000.0)
        row = reserved()
        one.take_in(link, [row], [False])
        self.claim(one)
        answers: list[Any] = []
        with in_threads([lambda: answers.append(one.settle([Commit(row.lease)]))]):
            until(lambda: len(link.outgoing) == 1)
            with one.changed:
                one.cut(link)
        assert answers == [{row.lease: None}]
        assert list(one.holding()) == [row.lease]  # until a call has stored the outcome, a hello must name it

    def test_jobs_that_did_not_come_by_a_stream_are_none_of_its_business(self, one: Receiver) -> None:
        assert one.settle([Commit(reserved().lease)]) == {}


def test_capacity_is_the_most_that_was_asked_for_lately(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("stanchion.stores.grpc.receiving.receiver.time.monotonic", lambda: now)
    one = Capacity()
    for asked in (8, 3):
        one.asked(asked)
    assert one.jobs == 8
    now = 101.5
    one.asked(2)
    assert one.jobs == 8
    now = 103.0
    one.asked(1)
    assert one.jobs == 2
