"""Which queues a worker claims from next."""

from types import SimpleNamespace

import pytest

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.core.ids import new_id, new_token
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import SECOND, NewJob
from stanchion.stores.records.workers import LaneRange
from stanchion.stores.wakeup.signs import ANY, NO_SIGNS, Signs
from stanchion.worker.claiming.due_queues import MANY, DueQueues, Seen
from stanchion.worker.claiming.order import Order, Turn
from stanchion.worker.claiming.served_queues import ServedQueues

QUEUES = ["full", "other", "empty"]


@pytest.fixture
def app() -> Stanchion:
    return Stanchion("memory://")


def names(due: DueQueues) -> list[str]:
    """The queues to claim from."""
    return [turn.queue for turn in due.next()]


@pytest.fixture
def due(app: Stanchion) -> DueQueues:
    """What knows that no claim gets the job of the full queue."""
    due = DueQueues(context_of(app), ServedQueues(context_of(app), QUEUES, {}), poll=300)
    assert sorted(names(due)) == sorted(QUEUES)
    app.queue("full").push(1)
    assert due.nap(None, connected=False) == 0  # it came due between the claim and the look
    assert names(due) == ["full"]
    assert due.nap(None, connected=False) > 200
    return due


def test_a_signal_names_them(due: DueQueues) -> None:
    due.woken(Signs(frozenset({"other", "of another worker"})))
    assert names(due) == ["other"]


def test_a_signal_for_any(due: DueQueues) -> None:
    due.woken(ANY)
    assert sorted(names(due)) == sorted(QUEUES)


def test_outcomes_of_this_worker_may_let_a_queue_go_on(app: Stanchion, due: DueQueues) -> None:
    due.ended({"full", "of another worker"})
    app.queue("other").push(1)
    due.woken(NO_SIGNS)
    assert names(due) == ["full"]


def test_after_the_time_those_with_due_jobs(app: Stanchion, due: DueQueues) -> None:
    app.queue("other").push(2)
    due.woken(NO_SIGNS)
    assert sorted(names(due)) == ["full", "other"]


def test_a_queue_that_is_held_back_hides_no_other(app: Stanchion, due: DueQueues) -> None:
    due.woken(Signs(frozenset({"full"})))
    assert names(due) == ["full"]
    app.queue("other").push(2)
    assert due.nap(None, connected=False) == 0
    assert names(due) == ["other"]


def test_a_rate_is_waited_for_and_hides_no_other(app: Stanchion, due: DueQueues) -> None:
    app.queue("full").push(0, priority=1)
    due.woken(Signs(frozenset({"full"})))
    assert names(due) == ["full"]
    assert due.nap(0.25, connected=False) == 0.25
    app.queue("other").push(2)
    assert due.nap(0.25, connected=False) == 0
    assert names(due) == ["other"]


def test_where_signals_arrive_polls_are_a_backup(due: DueQueues) -> None:
    due.woken(NO_SIGNS)
    due.next()
    assert due.nap(None, connected=True) > 3 * 300 * 0.8


class TestInOrder:
    """By priority, with several queues."""

    @pytest.fixture
    def due(self, app: Stanchion) -> DueQueues:
        return DueQueues(context_of(app), ServedQueues(context_of(app), QUEUES, {}), poll=300, order="priority")

    def test_a_claim_stops_where_another_queue_comes_first(self, app: Stanchion, due: DueQueues) -> None:
        for queue, priority in (("full", 9), ("other", 5), ("full", 5), ("other", 1), ("empty", 1)):
            app.queue(queue).push(1, priority=priority)
        assert due.next() == [Turn("full", 5), Turn("other", 1), Turn("empty")]

    def test_scheduled_jobs_do_not_count(self, app: Stanchion, due: DueQueues) -> None:
        app.queue("full").push(1, priority=90, delay=1000)
        app.queue("full").push(1, priority=1)
        app.queue("other").push(1, priority=5)
        assert due.next() == [Turn("other", 5), Turn("full")]

    def test_a_signal_for_one_queue_is_followed_without_a_look(self, due: DueQueues) -> None:
        assert names(due) == []
        assert due.nap(None, connected=True) > 200
        due.woken(Signs(frozenset({"other"})))
        assert due.next() == [Turn("other")]

    def test_a_queue_that_refuses_is_asked_again_when_something_has_changed(
        self, app: Stanchion, due: DueQueues
    ) -> None:
        app.queue("full").push(1, priority=9)
        app.queue("other").push(1)
        (first, _) = due.next()
        assert not due.claimed(first, Claimed([]))
        due.any()
        assert names(due) == ["other"]
        app.queue("full").push(1, priority=10)
        assert names(due) == ["full", "other"]
        assert not due.claimed(Turn("full"), Claimed([]))
        due.ended({"other"})
        assert names(due) == ["other"]
        due.ended({"full"})
        assert names(due) == ["full", "other"]
        assert not due.claimed(Turn("full"), Claimed([], 200.0))
        due.ended({"full"})
        assert names(due) == ["other"]
        due.woken(Signs(frozenset({"full"})))
        assert names(due) == ["full"]

    def test_ranks_below_those_refused_are_asked_for_in_their_place(self, app: Stanchion, due: DueQueues) -> None:
        for queue, priority in (("full", 9), ("full", 1), ("other", 5), ("other", 0)):
            app.queue(queue).push(1, priority=priority)
        turns = due.next()
        assert turns == [Turn("full", 9), Turn("other", 5), Turn("full", 1), Turn("other")]
        assert not due.claimed(turns[0], Claimed([]))
        assert due.next() == [Turn("other", 5), Turn("full", 1), Turn("other")]
        assert not due.claimed(turns[2], Claimed([]))
        assert due.next() == [Turn("other")]
        app.queue("full").push(1, priority=7)
        assert due.next() == [Turn("full", 7), Turn("other", 5), Turn("full", 1), Turn("other")]

    def test_after_a_poll_one_job_of_a_queue_that_refuses_is_asked_for(self, app: Stanchion) -> None:
        served, now = ServedQueues(context_of(app), QUEUES, {}), app.store.now()
        jobs = (("full", 9), ("full", 9), ("other", 5), ("full", 1))
        app.store.push([NewJob(new_id(), queue, "1", priority=priority, run_at=now) for queue, priority in jobs])
        due = DueQueues(context_of(app), served, poll=1e-9, order="priority")
        probe = Turn("full", most=1)
        assert not due.claimed(due.next()[0], Claimed([]))
        for _ in range(3):
            assert due.next() == [probe, Turn("other")]
            assert not due.claimed(probe, Claimed([]))
        (row,) = app.store.claim(Claim("full", 1, "token")).rows
        assert due.claimed(probe, Claimed([row]))
        assert due.next() == [Turn("full", 9), Turn("other", 5), Turn("full")]

    def test_a_claim_that_stopped_early_is_repeated(self, app: Stanchion, due: DueQueues) -> None:
        app.queue("full").push(1, priority=9)
        app.queue("other").push(1)
        assert not due.claimed(due.next()[0], Claimed([], 0.0))
        assert names(due) == ["full", "other"]


class TestLanes:
    @pytest.fixture
    def due(self, app: Stanchion) -> DueQueues:
        app.queue("full").configure(lanes=8, lanes_per_tenant=1)
        served = ServedQueues(context_of(app), QUEUES, {"full": LaneRange("full", 2, 3)})
        return DueQueues(context_of(app), served, poll=300)

    def test_a_signal_is_followed_by_a_look(self, app: Stanchion, due: DueQueues) -> None:
        app.store.push([NewJob(new_id(), "full", "1", lane=lane) for lane in (-1, 1, 4)])
        due.woken(Signs(frozenset({"full"})))
        assert names(due) == []
        assert due.nap(None, connected=False) > 200
        app.store.push([NewJob(new_id(), "full", "1", lane=3)])
        due.woken(Signs(frozenset({"full"})))
        assert names(due) == ["full"]

    @pytest.mark.parametrize("order", ["fair", "priority"])
    def test_a_job_that_a_stream_has_brought_is_claimed(self, app: Stanchion, order: Order) -> None:
        """Also while streams bring no jobs of other queues: no look finds it, as it is reserved already."""
        due = DueQueues(
            context_of(app), ServedQueues(context_of(app), QUEUES, {"full": LaneRange("full", 2, 3)}), 300, order
        )
        due.woken(Signs(frozenset({"full"})))
        assert names(due) == []
        due.came = lambda: {"full": {0}}
        due.woken(Signs(frozenset({"full"})))
        assert names(due) == ["full"]

    def test_it_naps_until_a_job_of_its_lanes_is_due(self, app: Stanchion, due: DueQueues) -> None:
        due.woken(NO_SIGNS)
        now = app.store.now()
        app.store.push(
            [NewJob(new_id(), "full", "1", lane=lane, run_at=now + SECOND * s) for lane, s in ((1, 9), (2, 99))]
        )
        assert names(due) == []
        assert 9 < due.nap(None, connected=True) <= 99


class TestManyQueues:
    """A look at many queues takes longer than some claims."""

    @pytest.fixture
    def now(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """The monotonic clock, which looks alone advance."""
        now, look = [1000.0], DueQueues.look

        def slow(due: DueQueues) -> Seen:
            now[0] += 1.0
            return look(due)

        monkeypatch.setattr(DueQueues, "look", slow)
        monkeypatch.setattr("stanchion.worker.claiming.due_queues.time", SimpleNamespace(monotonic=lambda: now[0]))
        return now

    @pytest.fixture
    def due(self, app: Stanchion, now: list[float]) -> DueQueues:
        """What has claimed one of two jobs of the first of many queues, and one of one job of the second."""
        queues = [f"q{number}" for number in range(MANY + 1)]
        for queue in [*queues, queues[0]]:
            app.queue(queue).push(1)
        due = DueQueues(context_of(app), ServedQueues(context_of(app), queues, {}), poll=300, order="priority")
        first, second, *_ = due.next()
        for turn in (first, second):
            assert due.claimed(turn, context_of(app).store.claim(Claim(turn.queue, 1, new_token())))
        due.any()
        assert now == [1001.0]
        return due

    def test_the_rest_is_claimed_without_another_look(self, due: DueQueues, now: list[float]) -> None:
        assert len(due.next()) == MANY
        assert now == [1001.0]
        due.claimed(due.next()[0], Claimed([]))
        assert [turn.queue for turn in due.next()][:2] == ["q2", "q3"]

    def test_but_not_for_long(self, app: Stanchion, due: DueQueues, now: list[float]) -> None:
        now[0] += 1.0
        app.queue("q9").push(1, priority=9)
        assert due.next()[0].queue == "q9"
        assert now == [1003.0]

    def test_nor_after_a_signal(self, due: DueQueues) -> None:
        due.woken(Signs(frozenset({"q5"})))
        assert names(due) == ["q5"]

    def test_looks_at_few_queues_are_made_before_each_round(self, app: Stanchion, now: list[float]) -> None:
        queues = [f"q{number}" for number in range(MANY)]
        for queue in queues:
            app.queue(queue).push(1)
        due = DueQueues(context_of(app), ServedQueues(context_of(app), queues, {}), poll=300, order="priority")
        due.next()
        due.any()
        due.next()
        assert now == [1002.0]
