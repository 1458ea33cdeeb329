"""Workers that serve some lanes of a queue, or the queues of a pattern."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stanchion import Stanchion, Worker
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.records.workers import LaneRange
from stanchion_conformance.harness import QUEUE, new_job, sizes_of, worker
from stanchion_conformance.operate.claim_order import until, working


def laned(app: Stanchion, lanes: int = 8) -> list[int]:
    """Make a queue with lanes, and a task that notes in which lane it ran."""
    app.queue(QUEUE).configure(lanes=lanes, lanes_per_tenant=1)
    done: list[int] = []
    app.task(name="note", queue=QUEUE)(lambda job_lane: done.append(job_lane))
    return done


def push(store: Store, *lanes: int, **fields: Any) -> None:
    """Store jobs that note their lanes."""
    store.push([new_job(f'{{"args":[{lane}],"kwargs":{{}}}}', task="note", lane=lane, **fields) for lane in lanes])


class TestWorkersOfLanes:
    def test_each_serves_its_own(self, app: Stanchion, store: Store) -> None:
        done = laned(app)
        push(store, UNLANED, *range(8))
        with working(app, lanes={QUEUE: range(4)}):
            until(lambda: len(done) == 5)
            push(store, 1, 6)
            until(lambda: len(done) == 6)
        assert sorted(done) == [-1, 0, 1, 1, 2, 3]
        Worker(app, threads=1, lanes=f"{QUEUE}=4-7", until_empty=True).run()
        assert sorted(done[6:]) == [4, 5, 6, 6, 7]

    def test_two_of_one_process_are_woken_for_their_own(self, app: Stanchion, store: Store) -> None:
        done = laned(app)
        with working(app, lanes=[f"{QUEUE}=0-3"], poll=100), working(app, lanes=[f"{QUEUE}=4-"], poll=100):
            for round_, lane in enumerate((1, 1, 5, 5, 1, 5), 1):
                push(store, lane)
                until(lambda round_=round_: len(done) == round_)  # type: ignore[misc]

    def test_jobs_of_other_lanes_do_not_keep_it_busy(self, app: Stanchion, store: Store) -> None:
        laned(app)
        push(store, *range(4, 8))
        with working(app, lanes=f"{QUEUE}=0-3", poll=0.2) as one:
            until(lambda: app.workers())
            looks = 0
            look = one._claimer.due.look

            def counted() -> Any:
                nonlocal looks
                looks += 1
                return look()

            one._claimer.due.look = counted  # type: ignore[method-assign]
            until(lambda: looks >= 2 or one._claimer.due.fed)  # a worker that streams feed does not look
            assert sizes_of(store, QUEUE).ready == 4
        Worker(app, lanes=f"{QUEUE}=0-3", until_empty=True).run()
        assert sizes_of(store, QUEUE).ready == 4

    def test_beside_other_queues_by_priority(self, app: Stanchion, store: Store) -> None:
        done = laned(app)
        app.task(name="other", queue="other")(lambda: done.append(99))
        push(store, 2, priority=-1)
        push(store, 6, priority=100)
        app.enqueue("other")
        Worker(app, threads=1, lanes=f"{QUEUE}=0-3", until_empty=True).run()
        assert done == [99, 2]

    def test_more_lanes_while_it_runs(self, app: Stanchion, store: Store) -> None:
        done = laned(app, 2)
        with working(app, lanes=f"{QUEUE}=1-", poll=0.2):
            push(store, 1)
            until(lambda: done == [1])
            app.queue(QUEUE).configure(lanes=16, lanes_per_tenant=1)
            push(store, 0, 15)
            until(lambda: done == [1, 15])

    def test_fewer_lanes_while_it_runs(self, app: Stanchion, store: Store) -> None:
        done = laned(app, 16)
        with working(app, lanes=f"{QUEUE}=8-", poll=0.2), working(app, lanes=f"{QUEUE}=0-7", poll=0.2):
            push(store, *range(16))
            app.queue(QUEUE).configure(lanes=1, lanes_per_tenant=1)
            push(store, UNLANED, 12)
            until(lambda: len(done) == 18)
        assert sorted(done) == sorted([UNLANED, 12, *range(16)])

    def test_ranges_that_overlap(self, app: Stanchion, store: Store) -> None:
        done = laned(app)
        with working(app, lanes=f"{QUEUE}=0-5", threads=4), working(app, lanes=f"{QUEUE}=3-7", threads=4):
            for _ in range(10):
                push(store, *range(8), 4)
            until(lambda: len(done) >= 90 and not sizes_of(store, QUEUE).total)
        assert sorted(done) == sorted([*range(8), 4] * 10)

    def test_its_row_says_so(self, app: Stanchion) -> None:
        laned(app)
        app.task(name="other", queue="other")(len)
        with working(app, lanes=f"{QUEUE}=0-3"):
            until(lambda: app.workers())
            (row,) = app.workers()
            assert row.lanes == (LaneRange(QUEUE, UNLANED, 3),)
            assert set(row.queues) == {QUEUE, "other"}

    def test_polling_is_shared_by_those_of_the_same_lanes(self, store: Store) -> None:
        everything, half = worker("all"), replace(worker("half"), lanes=(LaneRange(QUEUE, UNLANED, 3),))
        again, rest = replace(half, id="again"), replace(worker("rest"), lanes=(LaneRange(QUEUE, 4, 7),))
        assert store.beat([half]).sharing == 1
        assert store.beat([rest]).sharing == 1
        assert store.beat([again]).sharing == 2
        assert store.beat([everything]).sharing == 1
        assert store.beat([half]).sharing == 3
        assert store.beat([rest]).sharing == 2
        assert {row.id: row.lanes for row in store.workers()}["half"] == half.lanes

    @pytest.mark.parametrize(
        "lanes", ["orders", "orders=", "orders=5-2", "orders=0-1024", "=1", "orders=-1", 5, b"o=1"]
    )
    def test_nonsense_is_refused(self, app: Stanchion, lanes: Any) -> None:
        laned(app)
        with pytest.raises(InvalidInput, match=r"lanes|queue"):
            Worker(app, lanes=lanes)

    def test_refused_too(self, app: Stanchion) -> None:
        laned(app)
        with pytest.raises(InvalidInput, match="twice"):
            Worker(app, lanes=["orders=0-1", "orders=2-3"])
        with pytest.raises(InvalidInput, match="within 0 to 1023"):
            Worker(app, lanes={QUEUE: range(0, 8, 2)})
        with pytest.raises(InvalidInput, match="not among the queues"):
            Worker(app, lanes="elsewhere=0-1").start()


class TestQueuePatterns:
    def test_queues_that_match_now_and_later(self, app: Stanchion, other_app: Stanchion) -> None:
        done: list[str] = []
        app.task(name="send", queue="mail.in")(done.append)
        for queue in ("mail.out", "mail", "post.mail.out"):
            other_app.enqueue("send", queue, queue=queue)
        with working(app, queues=["mail.*"]) as one:
            until(lambda: done == ["mail.out"])
            other_app.enqueue("send", "new", queue="mail.\u00e9 100%'")
            until(lambda: done == ["mail.out", "new"])
            app.enqueue("send", "in", queue="mail.in")
            until(lambda: done == ["mail.out", "new", "in"])
            assert one.queues == ["mail.in", "mail.out", "mail.\u00e9 100%'"]
            other_app.queue("mail.out").delete()
            until(lambda: one.queues == ["mail.in", "mail.\u00e9 100%'"])

    def test_none_that_matches_yet(self, app: Stanchion, other_app: Stanchion) -> None:
        done: list[str] = []
        app.task(name="send", queue="mail")(done.append)
        Worker(app, ["post.*"], until_empty=True).run()
        with working(app, queues=["post.*"], lanes="post.a=0-3", heartbeat=1.0) as one:
            until(lambda: app.workers())
            assert (one.queues, app.workers()[0].queues, app.workers()[0].lanes) == ([], (), ())
            other_app.enqueue("send", "x", queue="post.a")
            other_app.enqueue("send", "y", queue="mail")
            until(lambda: done == ["x"])
            until(lambda: app.workers()[0].lanes)
            assert app.workers()[0].queues == ("post.a",)

    def test_all(self, app: Stanchion, other_app: Stanchion) -> None:
        done: list[str] = []
        app.task(name="send", queue="mail")(done.append)
        other_app.enqueue("send", "x", queue="anything")
        Worker(app, ["*"], until_empty=True, poll=0.1).run()
        assert done == ["x"]

    def test_dead_letters_are_left_alone(self, app: Stanchion, store: Store) -> None:
        app.task(name="send", queue="mail.in")(len)
        app.queue("mail.in").configure(dead_letter="mail.dead")
        app.queue("mail.dead").push({})
        Worker(app, ["mail.*"], until_empty=True, poll=0.1).run()
        assert sizes_of(store, "mail.dead").ready == 1

    def test_a_name_of_the_code_is_no_pattern(self, app: Stanchion, store: Store) -> None:
        done: list[str] = []
        app.task(name="send", queue="mail.*")(done.append)
        app.enqueue("send", "pattern")
        app.enqueue("send", "other", queue="mail.x")
        Worker(app, ["mail.*"], until_empty=True, poll=0.1).run()
        assert done == ["pattern"]
        assert sizes_of(store, "mail.x").ready == 1

    def test_in_the_order_given(self, app: Stanchion) -> None:
        done: list[str] = []
        for queue in ("z.1", "b.2", "b.1"):
            app.task(name=queue, queue=queue)(done.append)
            app.enqueue(queue, queue)
        Worker(app, ["z.*", "b.2", "b.*"], threads=1, order="strict", until_empty=True, poll=0.1).run()
        assert done == ["z.1", "b.2", "b.1"]
