"""A slice changes its owner, at each point where that could lose a job or run it twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.records.claims import BY_MANAGER, Claim
from stanchion.stores.records.jobs import SECOND, JobState
from tests.manager.dispatch.receivers import Process
from tests.manager.dispatch.scene import LEASE, QUEUE, Scene, fail, jobs, lose_reply, slice_of
from tests.manager.dispatch.virtual import now, run, until


async def hang(engine: Any) -> None:
    """Stop a process as a signal does: it does nothing more, and its streams stay open."""
    engine.lose()
    for task in [*engine._tasks, *(rounds._task for rounds in rounds_of(engine))]:
        task.cancel()
    await asyncio.sleep(0)


def rounds_of(engine: Any) -> list[Any]:
    return [engine._inbox.rounds, engine._claims.rounds, engine._settles.rounds]


class TestDeaths:
    """The former owner dies at a named point; its successor takes the slice."""

    @pytest.mark.parametrize("verb", ["claim", "push"])
    def test_after_the_job_is_stored_as_running_and_before_it_is_sent(self, verb: str) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine() as first, scene.engine(owns=False) as second:
                process = Process(5)
                stream = process.connect(first)
                process.connect(second)
                await until(lambda: first._slices.windows and first._slices.windows[QUEUE].loaded)
                scene.store.hold_reply(verb)
                if verb == "push":
                    asyncio.ensure_future(first.push(jobs(3))).add_done_callback(lambda done: done.exception())
                else:
                    scene.store.inner.push(jobs(3))
                    first._signed(None)
                await until(lambda: scene.states()[JobState.RUNNING] == 3)
                await hang(first)
                assert not stream.messages
                begin = now()
                await second.take([slice_of(2)])
                await until(lambda: process.unconfirmed)
                assert now() - begin < 1.0
                await until(lambda: scene.done(3))
                assert len(process.began) == 3
                assert {row.attempts for row in scene.rows()} == {1}

        run(go())

    def test_after_it_is_sent(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(20))
            async with scene.engine() as first, scene.engine(owns=False) as second:
                process = Process(5, work=1.0)
                process.connect(first)
                await until(lambda: len(process.holding) == 5)
                process.connect(second)
                process.cut(process.streams[0])
                await hang(first)
                await second.take([slice_of(2)])
                await asyncio.sleep(0.5)
                assert len(process.holding) == 5  # those that it has take its room at the new owner, too
                assert second.status().receivers[0].in_flight == 5
                await until(lambda: scene.done(20) and not process.unconfirmed)
                assert len(process.began) == 20
                assert {row.attempts for row in scene.rows()} == {1}

        run(go())

    @pytest.mark.parametrize("stored", [True, False])
    def test_after_an_outcome_has_come(self, stored: bool) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(4))
            async with scene.engine() as first, scene.engine(owns=False) as second:
                process = Process(4, work=0.5)
                process.connect(first)
                await until(lambda: len(process.holding) == 4)
                if stored:
                    scene.store.hold_reply("settle")
                else:
                    scene.store.next("settle", fail, fail, fail)  # together, alone, and none at all
                await until(lambda: len(process.unconfirmed) == 4)
                await asyncio.sleep(0.01)
                await hang(first)
                process.cut()
                await second.take([slice_of(2)])
                stream = process.connect(second)
                await until(lambda: not process.unconfirmed)
                assert (len(stream.settled), stream.lost) == (4, [])
                assert stream.newly == (0 if stored else 4)
                await asyncio.sleep(3 * LEASE)
                assert len(process.began) == 4
                assert scene.states() == {JobState.DONE: 4}

        run(go())

    def test_with_its_receiver(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(4))
            async with scene.engine() as first, scene.engine(owns=False) as second:
                process, other = Process(4, work=None), Process(4)
                process.connect(first)
                await until(lambda: len(process.holding) == 4)
                await hang(first)
                process.die()
                other.connect(second)
                await second.take([slice_of(2)])
                await asyncio.sleep(0.9 * LEASE)
                assert not other.began  # it could still run elsewhere
                await until(lambda: scene.done(4), LEASE)
                assert {row.attempts for row in scene.rows()} == {2}

        run(go())

    @pytest.mark.parametrize("fault", [fail, lose_reply])
    def test_while_the_store_is_away(self, fault: Any) -> None:
        async def go() -> None:
            scene = Scene()
            some = jobs(3)
            scene.store.inner.push(some)
            scene.store.inner.claim(Claim(QUEUE, 3, new_id(), worker="w", delivery=BY_MANAGER))
            scene.store.next("select", fault, fail)
            async with scene.engine(owns=False) as engine:
                process = Process(3, worker="w")
                process.connect(engine)
                await engine.take([slice_of(2)])
                await until(lambda: scene.done(3))
                assert len(process.began) == 3

        run(go())


class TestStops:
    """The former owner stops and goes on: late sends are refused by the receiver, each by what it can know."""

    def test_the_epoch_refuses_what_is_still_in_the_pipe(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(3))
            async with scene.engine() as first, scene.engine(owns=False) as second:
                process, other = Process(3, pipe=1.0), Process(3)
                stream = process.connect(first)
                await until(lambda: stream.messages)
                process.pipe = 0.001
                process.connect(second)
                other.connect(second)
                process.capacity = 0
                await first.release([slice_of(1)])
                await second.take([slice_of(2)])
                await until(lambda: scene.done(3))
                assert (len(process.began), len(other.began)) == (0, 3)
                await until(lambda: len(process.refused) == 3)
                await asyncio.sleep(1)
                assert {row.attempts for row in scene.rows()} == {1}

        run(go())

    def test_the_stamps_refuse_it_where_no_link_leads_to_the_new_owner(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(3))
            async with scene.engine() as first, scene.engine(owns=False) as second:
                process, other = Process(3, pipe=4 * LEASE), Process(3)
                stream = process.connect(first)
                other.connect(second)
                await until(lambda: stream.messages)  # it is stopped after its checks, before the write
                await hang(first)
                await second.take([slice_of(2)])
                await until(lambda: scene.done(3))
                await asyncio.sleep(4 * LEASE)
                assert (len(process.began), len(other.began)) == (0, 3)
                assert len(process.refused) == 3

        run(go())

    def test_a_claim_answered_after_the_slice_was_lost_is_not_sent(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(3))
            async with scene.engine() as first, scene.engine(owns=False) as second:
                process = Process(3)
                stream = process.connect(first)
                held = scene.store.hold_reply("claim")
                await until(lambda: scene.states()[JobState.RUNNING] == 3)
                first.lose()
                held.set()
                await asyncio.sleep(0.1)
                assert not stream.messages
                assert {(row.state, row.attempts) for row in scene.rows()} == {("queued", 0)}
                process.connect(second)
                await second.take([slice_of(2)])
                await until(lambda: scene.done(3))

        run(go())

    def test_a_claim_past_the_session_reserves_nothing(self) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine() as engine:
                process = Process(3)
                process.connect(engine)
                await asyncio.sleep(1)
                asked: list[Claim] = []

                def noted(claim: Any, one: Claim) -> Any:
                    asked.append(one)
                    return claim(one)

                scene.store.always["claim"] = noted
                scene.store.inner.push(jobs(1))
                engine._signed(None)
                await until(lambda: asked)
                assert abs((asked[0].not_after or 0) - engine.session.until) < 0.01 * SECOND
                assert asked[0].delivery == BY_MANAGER

        run(go())


class TestHandOver:
    def test_release_returns_once_no_statement_is_under_way(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(3))
            async with scene.engine() as engine:
                Process(3).connect(engine)
                held = scene.store.hold_reply("claim")
                await until(lambda: scene.states()[JobState.RUNNING] == 3)
                released = asyncio.ensure_future(engine.release([slice_of(1)]))
                await asyncio.sleep(1)
                assert not released.done()
                held.set()
                await released
                await asyncio.sleep(0.1)
                assert {(row.state, row.attempts) for row in scene.rows()} == {("queued", 0)}

        run(go())

    def test_running_jobs_stay_at_their_receivers(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(40))
            async with scene.engine() as first, scene.engine(owns=False) as second:
                process = Process(10, work=0.2)
                for engine in (first, second):
                    process.connect(engine)
                await until(lambda: len(process.began) == 20)
                begin = now()
                await first.release([slice_of(1)])
                await second.take([slice_of(2)])
                await until(lambda: scene.done(40) and not process.unconfirmed)
                assert now() - begin < LEASE  # the former owner was told of ends, and the room is free all the same
                assert len(process.began) == 40
                await asyncio.sleep(3 * LEASE)
                assert scene.states() == {JobState.DONE: 40}

        run(go())

    def test_a_slice_that_comes_back_is_compared_again(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(6))
            async with scene.engine() as engine:
                process = Process(3, work=1.0)
                process.connect(engine)
                await until(lambda: len(process.holding) == 3)
                engine.lose()
                assert engine.status().receivers[0].in_flight == 0
                process.pipe = 0.2
                await engine.take([slice_of(3)])
                await asyncio.sleep(0.3)
                assert len(process.streams[0].messages) == 1  # what it has takes room before it has told
                assert engine.status().receivers[0].in_flight == 3
                await until(lambda: scene.done(6))
                assert len(process.began) == 6

        run(go())

    def test_a_report_says_nothing_of_jobs_on_their_way(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(3))
            async with scene.engine() as engine:
                process = Process(3, pipe=0.2)
                stream = process.connect(engine)
                await until(lambda: stream.reports)
                await asyncio.sleep(0.25)
                scene.store.inner.push(jobs(3))
                await engine.take([slice_of(1, "other")])
                await until(lambda: scene.done(6))
                assert len(process.began) == 6
                assert engine.status().queues[1].unsent == 0

        run(go())

    def test_one_question_at_a_time(self) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine(owns=False) as engine:
                process = Process(3, pipe=0.2)
                stream = process.connect(engine)
                await engine.take([slice_of(1)])
                await asyncio.sleep(0.1)
                scene.store.inner.push(jobs(2, queue="other"))
                scene.store.inner.claim(Claim("other", 2, new_id(), worker=process.worker, delivery=BY_MANAGER))
                await engine.take([slice_of(1, "other")])
                await asyncio.sleep(0.15)
                assert len(stream.reports) == 2  # the second one after the first was answered
                assert len(stream.reports[1]) == 2
                assert {row.state for row in scene.rows()} == {JobState.RUNNING}
                await asyncio.sleep(0.5)
                assert {row.state for row in scene.rows()} == {"queued"}

        run(go())

    def test_direct_workers_keep_their_jobs(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(2))
            scene.store.inner.claim(Claim(QUEUE, 2, "direct", worker="w"))
            async with scene.engine() as engine:
                Process(3, worker="w").connect(engine)
                await asyncio.sleep(4 * LEASE)
                assert {row.token for row in scene.rows()} == {"direct"}

        run(go())

    def test_a_statement_of_the_former_owner_that_came_late_is_found(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(2))
            async with scene.engine(owns=False, epoch=2) as engine:
                process = Process(3)
                process.capacity = 0
                process.connect(engine)
                await engine.take([slice_of(2)])
                await asyncio.sleep(0.5)
                scene.store.inner.claim(Claim(QUEUE, 2, new_id(), worker=process.worker, delivery=BY_MANAGER))
                process.capacity = 3
                await until(lambda: scene.done(2))
                assert {row.attempts for row in scene.rows()} == {1}

        run(go())
