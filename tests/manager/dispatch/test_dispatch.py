"""Jobs go from producers and the store to receivers, and their outcomes into the store."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial
from typing import Any

import pytest

from stanchion.errors import DuplicateKey, InvalidInput, StoreUnavailable
from stanchion.manager.dispatch import slices
from stanchion.manager.window.window import Window
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobState, NewJob
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from tests.manager.dispatch.receivers import Process
from tests.manager.dispatch.scene import LEASE, QUEUE, Scene, fail, jobs, lose_reply, slice_of
from tests.manager.dispatch.virtual import now, run, until


async def idle(engine: Any, scene: Scene) -> Counter[str]:
    """Wait until the window has read its lanes; return the calls of the store so far."""
    await until(lambda: QUEUE in engine._slices.windows and engine._slices.windows[QUEUE].loaded)
    return scene.store.calls.copy()


class TestStatements:
    def test_a_push_starts_with_one(self) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine() as engine:
                process = Process(work=None)
                process.connect(engine)
                before = await idle(engine, scene)
                begin = now()
                (pushed,) = await engine.push(jobs(1))
                assert pushed.token is not None
                assert now() - begin == pytest.approx(scene.latency)
                await until(lambda: process.began)
                row = scene.row(pushed.id)
                assert (row.state, row.token, row.worker) == (JobState.RUNNING, pushed.token, process.worker)
                assert process.holding[row.lease]._replace(started_at=0) == row._replace(started_at=0)
                assert scene.store.calls - before == {"push": 1}

        run(go())

    def test_a_due_job_starts_at_its_time_with_a_claim_and_no_search(self) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine() as engine:
                process = Process(work=None)
                process.connect(engine)
                await idle(engine, scene)
                (pushed,) = await engine.push(jobs(1, delay=7.3456))
                assert pushed.token is None
                await asyncio.sleep(6.0)
                claims = scene.store.calls["claim"]
                await until(lambda: process.began)
                late = scene.store.inner.now() - pushed.run_at
                assert 0 <= late < 0.01 * SECOND
                assert scene.store.calls["claim"] - claims == 1
                assert claims == 0

        run(go())

    def test_with_fifty_in_flight_there_are_few(self) -> None:
        async def go() -> None:
            scene = Scene(latency=0.003)
            async with scene.engine() as engine:
                process = Process(50, work=0.01)
                process.connect(engine)
                before = await idle(engine, scene)

                async def produce() -> None:
                    for _ in range(40):
                        await engine.push(jobs(1))

                counted = engine.status().queues[0].statements
                await asyncio.gather(*(produce() for _ in range(50)))
                await until(lambda: scene.done(2000) and not process.unconfirmed)
                assert len(process.began) == len(set(process.began)) == 2000
                made = scene.store.calls - before
                written = made["push"] + made["claim"] + made["settle"]
                assert written <= 0.1 * 2000, made
                figures = engine.status().queues[0]
                assert figures.statements - counted == written
                assert (figures.sent, figures.acknowledged) == (2000, 2000)

        run(go())

    def test_a_backlog_of_ten_windows_drains_without_waiting_for_a_poll(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(slices, "Window", partial(Window, most=1000))

        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(10_000))
            async with scene.engine() as engine:
                process = Process(500, work=0.001)
                process.connect(engine)
                longest, last, since = 0.0, 0, now()

                def done() -> bool:
                    nonlocal longest, last, since
                    if len(process.began) > last:
                        longest, last, since = max(longest, now() - since), len(process.began), now()
                    return scene.done(10_000)

                await until(done)
                assert process.began == sorted(process.began)
                assert longest < 0.5, "it waited for a poll"
                made = scene.store.calls
                assert sum(made.values()) <= 0.02 * 10_000, made

        run(go())


class TestOrder:
    def test_a_push_waits_behind_what_waits_already(self) -> None:
        async def go() -> None:
            scene = Scene()
            first = jobs(3)
            scene.store.inner.push(first)
            async with scene.engine() as engine:
                await idle(engine, scene)
                process = Process(1, work=0.01)
                process.connect(engine)
                (low,), (high,) = jobs(1, priority=-1), jobs(1, priority=1)
                tokens = [pushed.token for pushed in await engine.push([low, high])]
                assert tokens == [None, None]  # the receiver's only room is taken
                await until(lambda: scene.done(5))
                assert process.began == [first[0].id, high.id, first[1].id, first[2].id, low.id]

        run(go())

    def test_a_higher_priority_starts_at_once_beside_lower_ones_that_wait(self) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine() as engine:
                process = Process(1, lanes={QUEUE: (1, 9)}, work=None)
                process.connect(engine)
                await idle(engine, scene)
                await engine.push(jobs(3, lane=0))  # they wait for a receiver that serves their lane
                (same,) = await engine.push(jobs(1, lane=1))
                assert same.token is None
                await until(lambda: process.began)
                process.capacity = 2
                (high,) = await engine.push(jobs(1, lane=1, priority=1))
                assert high.token is not None

        run(go())

    def test_the_least_busy_receiver_that_serves_the_lane(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.configure(QUEUE, {"lanes": 4, "uses_lanes": True})
            async with scene.engine() as engine:
                small, large = Process(2, work=None), Process(6, work=None)
                low = Process(50, work=None, lanes={QUEUE: (0, 1)})
                foreign = Process(50, work=None, queues=["other"])
                for process in (small, large, foreign):
                    process.connect(engine)
                await idle(engine, scene)
                for _ in range(4):
                    await engine.push(jobs(1, lane=3))
                await asyncio.sleep(0.01)
                assert (len(small.holding), len(large.holding)) == (1, 3)
                low.connect(engine)
                await engine.push([*jobs(5, lane=0), *jobs(5, lane=3)])
                await asyncio.sleep(0.1)
                assert (len(small.holding), len(large.holding), len(low.holding)) == (2, 6, 5)
                assert not foreign.began

        run(go())


class TestLimits:
    def test_a_paused_queue_is_asked_rarely_and_at_once_after_a_sign(self) -> None:
        async def go() -> None:
            scene = Scene()
            some = jobs(30)
            scene.store.inner.push(some)
            scene.store.inner.configure(QUEUE, {"paused": True})
            async with scene.engine() as engine:
                process = Process(10)
                process.connect(engine)
                await asyncio.sleep(20)
                assert 2 <= scene.store.calls["claim"] <= 25
                assert not process.began
                scene.store.inner.configure(QUEUE, {"paused": False})
                engine._signed([QUEUE])
                await asyncio.sleep(0.03)
                assert process.began
                await until(lambda: scene.done(30))
                assert process.began == [job.id for job in some]

        run(go())

    def test_max_running_and_rate_pace_the_owner(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(60))
            scene.store.inner.configure(QUEUE, {"max_running": 3})
            async with scene.engine() as engine:
                process = Process(50, work=0.05)
                process.connect(engine)
                await until(lambda: scene.done(30))
                assert len(process.holding) <= 3
                assert scene.store.calls["claim"] < 40
                scene.store.inner.configure(QUEUE, {"max_running": None, "max_rate": 2.0})
                begin, at = now(), len(process.began)
                await until(lambda: scene.done(58), 100)
                assert now() - begin >= (58 - at - 5) / 2
                assert len(process.began) == len(set(process.began))

        run(go())

    def test_what_is_gone_is_dropped(self) -> None:
        async def go() -> None:
            scene = Scene()
            some = jobs(20)
            scene.store.inner.push(some)
            async with scene.engine() as engine:
                await idle(engine, scene)
                scene.store.inner.cancel([job.id for job in some[::2]])
                process = Process(20)
                process.connect(engine)
                await until(lambda: scene.done(10))
                assert process.began == [job.id for job in some[1::2]]
                assert engine.status().queues[0].window == 0

        run(go())

    def test_jobs_that_wait_for_a_semaphore_run_when_it_is_free(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.set_semaphore("smtp", 2)
            scene.store.inner.push(jobs(10, limits=limits_text(Limits(("smtp",), None))))
            async with scene.engine() as engine:
                process = Process(10, work=0.02)
                process.connect(engine)
                held: set[int] = set()

                def done() -> bool:
                    held.add(len(process.holding))
                    return scene.done(10)

                await until(done)
                assert max(held) == 2

        run(go())


class TestPoison:
    def test_one_refused_push_is_told_to_its_producer_alone(self) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine() as engine:
                some = jobs(8)
                poison = some[5].id

                def pushed(push: Any, batch: list[NewJob], **options: Any) -> Any:
                    if any(job.id == poison for job in batch):
                        raise ValueError("poison")
                    return push(batch, **options)

                scene.store.always["push"] = pushed
                answers = await asyncio.gather(*(engine.push([job]) for job in some), return_exceptions=True)
                assert [isinstance(answer, ValueError) for answer in answers] == [job.id == poison for job in some]
                assert len(scene.rows()) == 7

        run(go())

    def test_a_taken_key_is_refused_alone(self) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine() as engine:
                await engine.push(jobs(1, key="k"))
                asked = [jobs(1), jobs(1, key="k", on_duplicate="raise"), jobs(1), jobs(1, key="k")]
                answers = await asyncio.gather(*map(engine.push, asked), return_exceptions=True)
                assert isinstance(answers[1], DuplicateKey)
                assert [answer[0].duplicate for answer in answers if isinstance(answer, list)] == [False, False, True]

        run(go())

    @pytest.mark.parametrize("error", [InvalidInput("too large"), UnicodeError("no such character")])
    def test_an_outcome_that_the_store_cannot_hold_is_left_to_its_receiver(
        self, error: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def go() -> None:
            scene = Scene()
            some = jobs(64)
            scene.store.inner.push(some)

            def settled(settle: Any, outcomes: Any, **options: Any) -> Any:
                if any(one.lease.id == some[3].id for one in outcomes):
                    raise error
                return settle(outcomes, **options)

            scene.store.always["settle"] = settled
            async with scene.engine() as engine:
                process = Process(64, work=0.0)
                stream = process.connect(engine)
                await until(lambda: scene.done(63) and len(engine._settles) == 0)
                await until(lambda: len(process.unconfirmed) == 1)
                assert scene.store.calls["settle"] < 32, "halved around the bad one"
                row = scene.row(some[3].id)
                assert (row.state, row.errors, stream.lost) == (JobState.RUNNING, None, [])
                assert [lease.id for lease in process.unconfirmed] == [some[3].id]

        with caplog.at_level(logging.ERROR, "stanchion.manager"):
            run(go())
        assert caplog.text.count("can't hold the outcome") == 1

    @pytest.mark.parametrize("error", [StoreUnavailable("locked"), RuntimeError("a driver's own")])
    def test_an_outcome_that_fails_alone_holds_up_no_other(
        self, error: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def go() -> None:
            scene = Scene()
            some = jobs(8)
            scene.store.inner.push(some)
            locked = {some[3].id, some[5].id}

            def settled(settle: Any, outcomes: Any, **options: Any) -> Any:
                if any(one.lease.id in locked for one in outcomes):
                    raise error
                return settle(outcomes, **options)

            scene.store.always["settle"] = settled
            async with scene.engine() as engine:
                process, dying = Process(7, work=0.001), Process(1, work=None)
                stream = process.connect(engine)
                dying.connect(engine)
                await until(lambda: scene.done(5 + (len(dying.holding) == 0)) and len(engine._settles) == 2, 5)
                await engine.push(jobs(20))
                await until(lambda: scene.done(25), 5)
                await asyncio.sleep(20)
                assert {scene.row(one).state for one in locked} == {JobState.RUNNING}
                assert {scene.row(one).errors for one in locked} == {None}
                assert (engine.status().store_answers, engine.status().outcomes) == (True, 2)
                locked.clear()
                await until(lambda: len(engine._settles) == 0 and not process.unconfirmed, 10)
                assert (stream.lost, stream.newly) == ([], len(stream.settled))
                assert {row.attempts for row in scene.rows() if row.state == JobState.DONE} == {1}

        with caplog.at_level(logging.WARNING, "stanchion.manager"):
            run(go())
        assert str(error) in caplog.text

    def test_one_refused_claim_is_left_out(self, caplog: pytest.LogCaptureFixture) -> None:
        async def go() -> None:
            scene = Scene()
            some = jobs(8)
            scene.store.inner.push(some)

            def claimed(claim: Any, asked: Claim) -> Any:
                if any(job == some[3].id for job, _ in asked.ids):
                    raise ValueError("poison")
                return claim(asked)

            scene.store.always["claim"] = claimed
            async with scene.engine() as engine:
                Process(8).connect(engine)
                await until(lambda: scene.done(7))
                calls = scene.store.calls["claim"]
                await asyncio.sleep(10)
                assert scene.store.calls["claim"] - calls < 15
                assert engine._claims.under_way is None

        with caplog.at_level(logging.ERROR, "stanchion.manager"):
            run(go())
        assert caplog.text.count("refuses to reserve") == 1


class TestOutages:
    @pytest.mark.parametrize("fault", [fail, lose_reply])
    def test_lost_claims_are_repeated_and_their_jobs_sent(self, fault: Any) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(20))
            scene.store.next("claim", fault, fail, fail)
            async with scene.engine() as engine:
                process = Process(20)
                process.connect(engine)
                await until(lambda: scene.done(20), 0.9 * LEASE)
                assert len(process.began) == 20
                assert {row.attempts for row in scene.rows()} == {1}

        run(go())

    @pytest.mark.parametrize("fault", [fail, lose_reply])
    def test_lost_pushes_are_repeated_and_sent_once(self, fault: Any) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine() as engine:
                process = Process(20)
                process.connect(engine)
                await idle(engine, scene)
                scene.store.next("push", fault, fail)
                answers = await asyncio.gather(*(engine.push(jobs(1)) for _ in range(5)))
                assert all(answer[0].token for answer in answers)
                await until(lambda: scene.done(5), 0.9 * LEASE)
                assert len(process.began) == 5

        run(go())

    @pytest.mark.parametrize("fault", [fail, lose_reply])
    def test_lost_outcomes_are_repeated_and_counted_as_new(self, fault: Any) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(20))
            async with scene.engine() as engine:
                process = Process(20)
                stream = process.connect(engine)
                scene.store.next("settle", fault, fail)
                await until(lambda: scene.done(20) and not process.unconfirmed)
                assert (len(stream.settled), stream.lost, stream.newly) == (20, [], 20)

        run(go())

    def test_pushes_and_outcomes_wait_for_the_store_in_bounds(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(20))
            async with scene.engine() as engine:
                process = Process(20, work=1.0)
                process.connect(engine)
                await until(lambda: process.began)
                for verb in ("push", "claim", "settle", "select", "stats"):
                    scene.store.next(verb, *[fail] * (24 if verb == "settle" else 8))
                waiting = [asyncio.ensure_future(engine.push(jobs(1000))) for _ in range(10)]
                await asyncio.sleep(2)
                with pytest.raises(StoreUnavailable, match="10,000 jobs wait"):
                    await asyncio.wait_for(engine.push(jobs(1)), 1)
                status = engine.status()
                assert (status.pushes, status.outcomes, status.store_answers) == (10_000, 20, False)
                waiting[5].cancel()
                await until(lambda: scene.done(20))
                stored = await asyncio.gather(*waiting, return_exceptions=True)
                assert sum(isinstance(answer, list) for answer in stored) == 9
                assert len({row.id for row in scene.rows()}) == 9_020

        run(go())

    def test_sixteen_mebibytes_wait_at_most(self) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine() as engine:
                held = scene.store.hold_reply("push")
                waiting = [asyncio.ensure_future(engine.push(jobs(1, payload="x" * 2**20))) for _ in range(16)]
                await asyncio.sleep(0.1)
                with pytest.raises(StoreUnavailable):
                    await asyncio.wait_for(engine.push(jobs(1)), 1)
                held.set()
                await asyncio.gather(*waiting)
                await engine.push(jobs(1))

        run(go())

    def test_an_old_push_is_marked_as_a_repeat(self) -> None:
        async def go() -> None:
            scene = Scene()
            marks: list[bool] = []

            def pushed(push: Any, batch: Any, **options: Any) -> Any:
                marks.append(options["repeat"])
                return push(batch, **options)

            scene.store.always["push"] = pushed
            async with scene.engine() as engine:
                held = scene.store.hold_reply("push")
                first = asyncio.ensure_future(engine.push(jobs(1)))
                await asyncio.sleep(0.1)
                second = asyncio.ensure_future(engine.push(jobs(1)))
                await asyncio.sleep(1.5)
                held.set()
                await asyncio.gather(first, second)
                await engine.push(jobs(1))
                await engine.push(jobs(1), repeat=True)
                assert marks == [False, True, False, True]

        run(go())


class TestEnd:
    def test_a_drain_stores_what_waits_and_hands_out_nothing(self) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine() as engine:
                process = Process(4, work=0.5)
                process.connect(engine)
                await idle(engine, scene)
                held = scene.store.hold_reply("push")
                pushes = [asyncio.ensure_future(engine.push(jobs(2))) for _ in range(4)]
                await asyncio.sleep(0.01)
                drained = asyncio.ensure_future(engine.drain(5.0))
                await asyncio.sleep(0.1)
                assert not drained.done()
                held.set()
                await drained
                await asyncio.gather(*pushes)
                assert len(scene.rows()) == 8
                await asyncio.sleep(2)
                assert len(process.began) == 4  # those of the statement that was under way were sent

        run(go())

    def test_an_engine_that_ends_refuses_pushes(self) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine() as engine:
                scene.store.hold_reply("push")
                first, second = (asyncio.ensure_future(engine.push(jobs(1))) for _ in range(2))
                await asyncio.sleep(0.01)
                third = asyncio.ensure_future(engine.push(jobs(1)))
                await asyncio.sleep(0.01)
                await engine.close()
                for push in (first, second, third):
                    with pytest.raises(StoreUnavailable):
                        await push

        run(go())

    def test_another_slice_keeps_its_jobs(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.configure(QUEUE, {"lanes": 4, "uses_lanes": True})
            scene.store.inner.push([*jobs(5, lane=0), *jobs(5, lane=3)])
            async with scene.engine(owns=False) as engine:
                process = Process(20)
                process.connect(engine)
                await engine.take([slice_of(4, number=1, lanes=(2, 3))])
                await until(lambda: scene.done(5))
                await asyncio.sleep(3)
                assert {row.lane for row in scene.rows() if row.state == JobState.DONE} == {3}
                pushed = await engine.push([*jobs(1, lane=0), *jobs(1, lane=2)])
                assert [one.token is not None for one in pushed] == [False, True]

        run(go())
