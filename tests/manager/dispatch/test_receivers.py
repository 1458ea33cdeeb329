"""Receivers come, fall silent, come back and go; their jobs are neither lost nor run twice without need."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from stanchion.manager.dispatch.delays import Delays, jittered
from stanchion.manager.dispatch.engine import Engine
from stanchion.stores.grpc.receiving.receiver import SURE_SECONDS
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState
from stanchion.stores.records.outcomes import Commit, Move, Progress, Rollback
from stanchion.stores.wire.outcomes import Elsewhere
from tests.manager.dispatch.receivers import Process
from tests.manager.dispatch.scene import LEASE, Scene, jobs, slice_of
from tests.manager.dispatch.virtual import now, run, stand_still, until


def delay_of(row: JobRow, scene: Scene) -> float:
    return (row.run_at - scene.store.inner.now()) / SECOND


@asynccontextmanager
async def holding(count: int, room: int, work: float | None) -> AsyncIterator[tuple[Scene, Engine, Process]]:
    """Give an engine and a process with room that holds `count` jobs, each for `work` seconds."""
    scene = Scene()
    scene.store.inner.push(jobs(count))
    async with scene.engine() as engine:
        process = Process(room, work=work)
        process.connect(engine)
        await until(lambda: len(process.holding) == count)
        yield scene, engine, process


class TestStreams:
    def test_what_was_lost_on_the_way_goes_back_uncounted(self) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine() as engine:
                process = Process(10, pipe=1.0, work=None)
                stream = process.connect(engine)
                scene.store.inner.push(jobs(5))
                engine._signed(None)
                await until(lambda: stream.messages)
                process.cut()
                process.capacity = 0
                process.connect(engine)
                await until(lambda: scene.states()[QUEUED] == 5)
                assert {row.attempts for row in scene.rows()} == {0}
                assert all(delay_of(row, scene) <= 0 for row in scene.rows())
                assert engine.status().queues[0].unsent == 5

        run(go())

    def test_jobs_wait_through_a_short_cut(self) -> None:
        async def go() -> None:
            async with holding(5, room=10, work=3.0) as (scene, engine, process):
                process.cut()
                await asyncio.sleep(1.0)
                process.connect(engine)
                await until(lambda: scene.done(5) and not process.unconfirmed)
                assert len(process.began) == 5
                assert {row.attempts for row in scene.rows()} == {1}

        run(go())

    def test_outcomes_are_sent_again_and_stored_once(self) -> None:
        async def go() -> None:
            async with holding(5, room=10, work=1.0) as (scene, engine, process):
                held = scene.store.hold_reply(
                    "settle"
                )  # the outcomes are stored, and the stream is cut before the answer
                await until(lambda: len(process.unconfirmed) == 5)
                await asyncio.sleep(0.01)
                process.cut()
                second = process.connect(engine)
                held.set()
                await until(lambda: not process.unconfirmed)
                assert (len(second.settled), second.lost, second.newly) == (5, [], 5)
                process.unconfirmed = {lease: Commit(lease) for lease in second.settled}
                process.cut()
                third = process.connect(engine)
                await until(lambda: not process.unconfirmed)
                assert (len(third.settled), third.lost, third.newly) == (5, [], 0)
                assert engine.status().queues[0].acknowledged == 5

        run(go())

    def test_outcomes_after_the_lease_was_lost_are_told_so(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(1))
            async with scene.engine() as engine:
                process = Process(1, work=10.0)
                process.connect(engine)
                await until(lambda: process.holding)
                process.cut()
                await until(lambda: scene.states()[QUEUED] == 1)
                process.capacity = 0
                stream = process.connect(engine)
                await until(lambda: not process.unconfirmed and not process.holding)
                assert (stream.settled, len(stream.lost), stream.newly) == ([], 1, 0)

        run(go())

    def test_a_broken_stream_is_ended_and_loses_nothing(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(5))
            async with scene.engine() as engine:
                process = Process(10)
                stream = process.connect(engine)

                def broken(_jobs: object, _guard: object) -> None:
                    raise OSError("broken")

                stream.send = broken  # type: ignore[assignment]
                await until(lambda: stream.ended)
                process.connect(engine)
                await until(lambda: scene.done(5))
                assert len(process.began) == 5

        run(go())


class TestEnds:
    def test_without_a_new_stream_jobs_go_back_after_the_grace_by_back_off(self) -> None:
        async def go() -> None:
            async with holding(30, room=30, work=None) as (scene, engine, process):
                process.die()
                begin = now()
                await until(lambda: scene.states()[QUEUED] == 30)
                assert 2 * 2 / 3 <= now() - begin <= 2 * 4 / 3 + 0.1
                rows = scene.rows()
                assert {row.attempts for row in rows} == {1}
                delays = [delay_of(row, scene) for row in rows]
                assert min(delays) >= 2 / 3 - 0.01
                assert max(delays) <= 4 / 3
                assert max(delays) - min(delays) > 0.1
                assert engine.status().queues[0].expired == 30
                assert not engine.status().receivers

        run(go())

    def test_the_back_off_grows_up_to_a_bound(self) -> None:
        delays = Delays(first=1.0, longest=60.0)
        for attempts, seconds in ((0, 1), (1, 1), (2, 2), (4, 8), (7, 60), (5000, 60)):
            some = [delays.before_retry(attempts) for _ in range(300)]
            assert seconds * 2 / 3 <= min(some) < seconds * 0.8
            assert seconds * 1.2 < max(some) <= seconds * 4 / 3

    def test_another_process_of_the_worker_gives_its_jobs_back_counted(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(3))
            async with scene.engine() as engine:
                process = Process(3, work=None, worker="w")
                process.connect(engine)
                await until(lambda: len(process.holding) == 3)
                second = Process(0, worker="w")
                second.connect(engine)
                begin = now()
                await until(lambda: scene.states()[QUEUED] == 3)
                assert now() - begin < 0.1
                assert {row.attempts for row in scene.rows()} == {1}
                assert process.streams[0].ended

        run(go())

    def test_a_goodbye_gives_back_what_never_arrived(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(3))
            async with scene.engine() as engine:
                process = Process(3, work=None, pipe=1.0)
                stream = process.connect(engine)
                await until(lambda: stream.messages)
                process.cut(goodbye=True)
                await asyncio.sleep(0.1)
                assert [(row.state, row.attempts) for row in scene.rows()] == [(QUEUED, 0)] * 3

        run(go())

    def test_a_silent_receiver_is_ended_and_a_slow_one_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(3))
            async with scene.engine() as engine:
                process = Process(3, work=None)
                stream = process.connect(engine)
                await until(lambda: len(process.holding) == 3)
                process.mute = True
                process.capacity = 0
                await asyncio.sleep(0.7 * LEASE)
                assert engine.status().receivers[0].slow
                assert stream.ended is None
                await asyncio.sleep(0.6 * LEASE)
                assert stream.ended is not None
                await until(lambda: scene.states()[QUEUED] == 3)
                assert {row.attempts for row in scene.rows()} == {1}

        with caplog.at_level(logging.WARNING, "stanchion.manager"):
            run(go())
        assert caplog.text.count("is slow") == 1
        assert caplog.text.count("its stream is ended") == 1

    def test_a_manager_that_stood_still_reads_what_has_come_before_it_judges(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(3))
            async with scene.engine() as engine:
                process = Process(3, work=60.0)
                stream = process.connect(engine)
                await until(lambda: len(process.began) == 3)
                process.mute = True
                stand_still(2 * LEASE)
                await asyncio.sleep(0.01)
                engine.heard(stream, process.clock())  # it has come meanwhile
                process.mute = False
                await until(lambda: scene.done(3), 100)
                assert stream.ended is None
                assert len(process.began) == 3

        run(go())

    def test_a_manager_that_stood_still_waits_for_new_streams_that_may_have_come(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(3))
            async with scene.engine() as engine:
                process = Process(3, work=60.0)
                process.connect(engine)
                await until(lambda: len(process.began) == 3)
                process.cut()
                await asyncio.sleep(0.01)
                stand_still(2 * LEASE)
                await asyncio.sleep(0.01)
                process.connect(engine)
                await until(lambda: scene.done(3), 100)
                assert len(process.began) == 3

        run(go())

    def test_a_receiver_that_stamps_is_left_alone(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(3))
            async with scene.engine() as engine:
                process = Process(3, work=60.0)
                process.connect(engine)
                await until(lambda: scene.done(3), 100)
                assert len(process.began) == 3

        run(go())


class TestOutcomes:
    def test_of_each_kind(self) -> None:
        async def go() -> None:
            scene = Scene()
            some = jobs(4)
            scene.store.inner.push(some)
            async with scene.engine() as engine:
                process = Process(4, work=None)
                stream = process.connect(engine)
                await until(lambda: len(process.holding) == 4)
                leases = {lease.id: lease for lease in process.holding}
                done, later, moved, elsewhere = (leases[job.id] for job in some)
                engine.outcomes(stream, [Progress(done, 0.5)])
                await asyncio.sleep(0.01)
                assert scene.row(done.id).progress == 0.5
                scene.store.inner.settle([Commit(elsewhere)])
                engine.outcomes(stream, [Progress(done, 0.75), Commit(done, "1"), Rollback(later, 60.0, "no")])
                engine.outcomes(stream, [Move(moved, "other"), Elsewhere(elsewhere)])
                process.capacity = 0
                await until(lambda: len(stream.settled) == 4)
                assert stream.newly == 3
                assert [scene.row(job.id).state for job in some] == [
                    JobState.DONE,
                    QUEUED,
                    QUEUED,
                    JobState.DONE,
                ]
                assert scene.row(done.id).result == "1"
                assert engine.status().receivers[0].in_flight == 0
                figures = {one.queue: one for one in engine.status().queues}["q"]
                assert (figures.acknowledged, figures.postponed) == (3, 1)

        run(go())

    def test_a_renewal_without_a_lease_stops_the_job(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(1))
            async with scene.engine() as engine:
                process = Process(1, work=None)
                stream = process.connect(engine)
                await until(lambda: process.holding)
                (lease,) = process.holding
                scene.store.inner.settle([Commit(lease)])
                engine.outcomes(stream, [Progress(lease, 0.5)])
                await until(lambda: stream.stopped == [lease])
                assert stream.lost == []

        run(go())

    def test_room_is_free_at_once(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(2))
            async with scene.engine() as engine:
                process = Process(1, work=0.1)
                process.connect(engine)
                held = scene.store.hold_reply("settle")
                await until(lambda: len(process.began) == 2)
                held.set()
                await until(lambda: scene.done(2))

        run(go())

    def test_a_move_within_the_manager_goes_on_at_once(self) -> None:
        async def go() -> None:
            scene = Scene()
            async with scene.engine() as engine:
                await engine.take([slice_of(1, "other")])
                process = Process(1, queues=["q", "other"])
                process.outcome = lambda row: Move(row.lease, "other") if row.queue == "q" else Commit(row.lease)
                process.connect(engine)
                await asyncio.sleep(0.5)
                await engine.push(jobs(1))
                begin = now()
                await until(lambda: scene.states()[JobState.DONE] == 1)
                assert now() - begin < 0.2

        run(go())


class TestCancel:
    @pytest.mark.parametrize("through_it", [True, False])
    def test_is_told_to_the_receiver(self, through_it: bool) -> None:
        async def go() -> None:
            scene = Scene()
            some = jobs(2)
            scene.store.inner.push(some)
            async with scene.engine() as engine:
                process = Process(2, work=None)
                stream = process.connect(engine)
                await until(lambda: len(process.holding) == 2)
                scene.store.inner.cancel([some[0].id])
                if through_it:
                    engine.cancelled([some[0].id])
                await asyncio.sleep(0 if through_it else 2.5 * LEASE)
                assert {lease.id for lease in stream.stopped} == {some[0].id}

        run(go())


class TestGuard:
    def test_nothing_is_sent_before_the_first_stamp(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(2))
            async with scene.engine() as engine:
                process = Process(2)
                process.clock = lambda: 7  # type: ignore[method-assign]
                heard = engine.heard
                engine.heard = lambda *_: None  # type: ignore[method-assign]
                stream = process.connect(engine)
                await asyncio.sleep(3)
                assert not stream.messages
                heard(stream, 7)
                await until(lambda: scene.done(2))

        run(go())

    def test_nothing_is_sent_once_the_session_may_be_over(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(2))
            async with scene.engine() as engine:
                process = Process(2)
                stream = process.connect(engine)
                engine.session.deadline = now() + 0.05
                held = scene.store.hold_reply("claim")
                await until(lambda: scene.states()[JobState.RUNNING] == 2)
                await asyncio.sleep(0.1)
                held.set()
                await until(lambda: scene.states()[QUEUED] == 2)
                assert not stream.messages
                assert {row.attempts for row in scene.rows()} == {0}
                await asyncio.sleep(3)
                assert scene.store.calls["claim"] == 1

        run(go())

    def test_stamps_are_answered_while_a_receiver_has_jobs(self) -> None:
        """It may begin a job only if the manager is sure to keep it for this receiver."""

        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(1))
            async with scene.engine() as engine:
                process = Process(1, work=2 * LEASE)
                stream = process.connect(engine)
                idle = Process(1, queues=["others"]).connect(engine)
                await until(lambda: len(process.began) == 1)
                await asyncio.sleep(LEASE)
                assert len(stream.answers) >= 4
                heard = [answer.heard or 0 for answer in stream.answers]
                assert heard == sorted(set(heard))
                assert all(0 < answer.lease_left <= LEASE * SECOND for answer in stream.answers)
                await until(lambda: scene.done(1), 100)
                stream.answers.clear()
                await asyncio.sleep(LEASE)
                assert stream.answers == idle.answers == []

        run(go())

    def test_a_manager_waits_longer_for_a_new_stream_than_an_answered_stamp_lets_jobs_begin(self) -> None:
        assert min(jittered(Delays().grace) for _ in range(10_000)) > SURE_SECONDS

    def test_a_refused_job_goes_back_uncounted(self) -> None:
        async def go() -> None:
            scene = Scene()
            scene.store.inner.push(jobs(2))
            async with scene.engine() as engine:
                process = Process(2, pipe=LEASE, work=0.1)
                process.connect(engine)
                await until(lambda: process.refused)
                process.pipe = 0.001
                await until(lambda: scene.done(2))
                assert len(process.began) == 2
                assert {row.attempts for row in scene.rows()} == {1}

        run(go())
