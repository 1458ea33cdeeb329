"""Best jobs of a worker's queues that may not run, that change while it runs, and that are spread over many queues."""

from __future__ import annotations

import random
import time

import pytest

from stanchion import Job, Push, Stanchion
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim, Claimed
from stanchion_conformance.harness import new_job
from stanchion_conformance.operate.claim_order import SECONDS, A, B, C, ThreeQueues, until, working


class TestBestHeads:
    def test_those_without_a_slot_hide_no_worse_ones_of_their_queue(self, three: ThreeQueues) -> None:
        three.app.semaphore("none", 0)
        three.push(C, "block")
        with working(three.app, queues=[A, B, C], poll=300):
            assert three.begun.wait(SECONDS)
            three.app.queue(A).push_many([Push({}, priority=100, limits=["none"]) for _ in range(300)])
            for queue, priority in ((A, 49), (B, 50), (B, 0), (A, -1)):
                three.push(queue, priority, priority=priority)
            three.go_on.set()
            until(lambda: len(three.done) == 5)
        assert three.done == ["block", 50, 49, 0, -1]

    @pytest.mark.parametrize("order", ["priority", "strict"])
    def test_paused_ones_cost_a_busy_worker_no_claims(
        self, three: ThreeQueues, store: Store, order: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        three.app.queue(A).configure(paused=True)
        for priority in (100, 50, 0):
            three.push(A, "held", priority=priority)
        three.push(B, *range(40), priority=75)
        three.push(C, *range(40), priority=25)
        claims: list[tuple[str, bool]] = []
        claim = store.claim

        def counted(wanted: Claim) -> Claimed:
            claimed = claim(wanted)
            claims.append((wanted.queue, bool(claimed.rows)))
            return claimed

        monkeypatch.setattr(store, "claim", counted)
        with working(three.app, queues=[A, B, C], order=order, poll=300):
            until(lambda: len(three.done) == 80)
        busy = claims[: max(place for place, (_, got) in enumerate(claims) if got)]
        assert busy.count((A, False)) <= 4, busy
        assert "held" not in three.done

    def test_a_job_that_settles_itself_lets_its_bounded_queue_go_on(self, three: ThreeQueues) -> None:
        @three.app.task(name="own", queue=A)
        def own(job: Job) -> None:
            three.done.append("a")
            time.sleep(3 * three.seconds)
            job.commit()  # type: ignore[attr-defined]

        three.app.queue(A).configure(max_running=1)
        three.seconds = 0.01
        three.app.using("own", priority=100).enqueue_many([()] * 4)
        three.push(B, *["b"] * 60)
        with working(three.app, queues=[A, B], poll=300, threads=2):
            until(lambda: len(three.done) == 64)
        assert max(place for place, one in enumerate(three.done) if one == "a") < 50

    def test_a_priority_raised_meanwhile(self, three: ThreeQueues) -> None:
        three.push(B, "block", *["late"] * 20)
        three.push(A, "raised", priority=-50, key="k")
        with working(three.app, queues=[A, B]):
            assert three.begun.wait(SECONDS)
            three.push(A, "raised", priority=50, key="k", on_duplicate="replace")
            three.go_on.set()
            until(lambda: len(three.done) == 22)
        assert three.done[:3] == ["block", "raised", "late"]

    def test_in_very_many_queues(self, app: Stanchion, store: Store) -> None:
        queues = [f"queue {n}" for n in range(40)]
        priorities = [random.randint(-100, 100) for _ in queues]
        done: list[int] = []
        app.task(name="note", queue="none")(done.append)
        jobs = zip(queues, priorities, strict=True)
        store.push([new_job(f'{{"args":[{p}],"kwargs":{{}}}}', task="note", queue=q, priority=p) for q, p in jobs])
        with working(app, queues=queues):
            until(lambda: len(done) == len(queues))
        assert done == sorted(priorities, reverse=True)
