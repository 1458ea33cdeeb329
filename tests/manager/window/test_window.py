"""A window gives jobs out in the order of claims, and knows what it has not read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from stanchion.core.ids import new_ids
from stanchion.manager.window.key import Key, key_of
from stanchion.manager.window.reader import Reader
from stanchion.manager.window.store_time import StoreTime
from stanchion.manager.window.window import HORIZON, Window
from stanchion.stores.memory.jobs import FrozenClock
from stanchion.stores.memory.store import MemoryStore
from stanchion.stores.records.jobs import SECOND, UNLANED, NewJob
from stanchion.stores.records.query import Page, Query

T = TypeVar("T")

QUEUE = "q"
ALL = (UNLANED, 1023)


class Scene:
    """A store, a window of one of its queues, and looks at it. `meanwhile` is called during each look."""

    def __init__(self, most: int = 1000) -> None:
        self.clock = FrozenClock()
        self.store = MemoryStore(self.clock)
        self.window = Window(QUEUE, most)
        self.window.take_over(ALL)
        self.reads: list[Query] = []
        self.meanwhile: Callable[[], None] = lambda: None
        select = self.store.select

        def counted(query: Query) -> Page:
            self.reads.append(query)
            return select(query)

        self.store.select = counted
        self.reader = Reader(self.store, StoreTime(lambda: self.clock.now() / SECOND), lambda _: ())

    def look(self) -> int:
        """Look at the store; return the number of reads beside that of the heads."""

        async def off_loop(call: Callable[[], T]) -> T:
            value = call()
            self.meanwhile()
            return value

        before = len(self.reads)
        asyncio.run(self._look(off_loop))
        return len(self.reads) - before

    async def _look(self, off_loop: Callable[[Callable[[], T]], Awaitable[T]]) -> None:
        await self.reader.look([self.window], off_loop)  # type: ignore[arg-type]

    def push(self, *jobs: NewJob) -> None:
        self.store.push(jobs)

    def take(self, limit: int = 10_000, *, gone: bool = True) -> list[str]:
        """Take jobs; `gone`: they leave the queue."""
        self.window.due(self.clock.now())
        taken = [key.id for key, _ in self.window.take(limit, lambda *_: "receiver")]
        self.store.cancel(taken if gone else [])
        return taken


@pytest.fixture
def scene() -> Scene:
    return Scene()


def jobs(number: int, **fields: object) -> list[NewJob]:
    return [NewJob(job, QUEUE, "{}", **fields) for job in new_ids(number)]  # type: ignore[arg-type]


def ids(some: Sequence[NewJob]) -> list[str]:
    return [job.id for job in some]


class TestOrder:
    @pytest.mark.parametrize(
        "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(4, 20))]
    )
    def test_as_claims_take_them_whatever_the_size_of_the_window(self, seed: int) -> None:
        chance = random.Random(seed)
        scene = Scene(most=chance.choice([1, 300, 700]))
        at = scene.clock.now() - 10**9
        some = [job._replace(priority=chance.randrange(-1, 2), run_at=at + chance.randrange(100)) for job in jobs(2500)]
        scene.push(*some)
        taken: list[str] = []
        while len(taken) < len(some):
            scene.look()
            taken += scene.take(chance.randrange(1, 600))
        assert taken == ids(sorted(some, key=lambda job: (-job.priority, job.run_at or 0, job.id)))

    def test_lanes_of_the_highest_rank_take_turns(self, scene: Scene) -> None:
        scene.store.configure(QUEUE, {"lanes": 3, "uses_lanes": True})
        heavy = jobs(30, lane=0)
        others = [job._replace(lane=1 + n % 2) for n, job in enumerate(jobs(6))]
        high = jobs(2, lane=2, priority=1)
        scene.push(*heavy, *others, *high)
        scene.look()
        lane_of = {job.id: job.lane for job in (*heavy, *others, *high)}
        lanes = [lane_of[job] for job in (*scene.take(4), *scene.take(100))]
        assert lanes == [2, 2, *(0, 1, 2) * 3, *(0,) * 27]

    def test_lanes_that_nobody_takes_stay(self, scene: Scene) -> None:
        scene.push(*(job._replace(lane=n % 2) for n, job in enumerate(jobs(10))))
        scene.look()
        scene.window.due(scene.clock.now())
        taken = scene.window.take(100, lambda lane, _: "receiver" if lane == 1 else None)
        assert {key.lane for key, _ in taken} == {1}
        assert len(scene.window) == 5


class TestFuture:
    def test_a_job_is_ready_at_its_time(self, scene: Scene) -> None:
        later, soon = jobs(1, delay=20.0)[0], jobs(1, delay=5.0)[0]
        scene.push(later, soon, *jobs(1, delay=31.0))
        scene.look()
        assert (scene.take(), len(scene.window)) == ([], 2)
        assert scene.window.next_at() == scene.clock.now() + 5 * SECOND
        scene.clock.at += 5 * SECOND - 1
        assert scene.take() == []
        scene.clock.at += 1
        assert scene.take() == [soon.id]
        assert scene.window.next_at() == scene.clock.now() + 15 * SECOND

    def test_what_comes_nearer_is_read_before_its_time(self, scene: Scene) -> None:
        some = [job._replace(delay=10.0 * n) for n, job in enumerate(jobs(20))]
        scene.push(*some)
        taken, reads = [], 0
        for _ in range(210):
            reads += scene.look()
            taken += scene.take()
            scene.clock.at += SECOND
            assert all(run_at > scene.clock.now() - SECOND for run_at, _ in scene.window._future)
        assert taken == ids(some)
        assert reads < 30  # each covers half a minute

    def test_one_that_is_dropped_is_not_waited_for(self, scene: Scene) -> None:
        first, second = jobs(1, delay=5.0)[0], jobs(1, delay=7.0)[0]
        scene.push(first, second)
        scene.look()
        scene.window.drop(first.id)
        assert scene.window.next_at() == scene.clock.now() + 7 * SECOND


class TestLooks:
    def test_nothing_is_read_twice_without_a_sign(self, scene: Scene) -> None:
        scene.push(*jobs(10))
        assert scene.look() == 1
        assert scene.look() == 0
        scene.window.signal()
        assert scene.look() == 1
        assert len(scene.window) == 10

    def test_a_backlog_is_read_on_when_it_runs_low(self) -> None:
        scene = Scene(most=1000)
        scene.push(*jobs(5000))
        assert scene.look() == 1
        scene.take(700)
        assert not scene.window.runs_low
        assert scene.look() == 0
        scene.take(100)
        assert scene.window.runs_low
        assert scene.look() == 1
        assert len(scene.window) == 200 + 800

    def test_lower_ranks_wait_while_a_higher_one_has_to_be_read(self) -> None:
        scene = Scene(most=200)
        high, low = jobs(500, priority=1), jobs(3)
        scene.push(*low, *high)
        scene.look()
        assert scene.take() == ids(high[:200])
        scene.look()
        assert scene.take() == ids(high[200:400])

    def test_jobs_taken_while_a_look_reads_them_do_not_come_again(self, scene: Scene) -> None:
        some = jobs(10)
        scene.push(*some)
        scene.look()
        scene.window.signal()
        taken: list[str] = []
        scene.meanwhile = lambda: taken.extend(scene.take(4, gone=False))
        scene.look()
        assert len(taken) == 8
        assert len(scene.window) == 2
        scene.meanwhile = lambda: None
        scene.window.missing(key_of(0, 0, taken[0], UNLANED))
        scene.look()  # they are still queued, so they were given back, as far as this look knows
        assert len(scene.window) == 10

    def test_a_sign_during_a_look_counts_for_the_next(self, scene: Scene) -> None:
        scene.push(*jobs(2))
        scene.look()
        once = [True]

        def push() -> None:
            if once:
                once.clear()
                scene.push(*jobs(3))
                scene.window.signal()

        scene.window.signal()
        scene.meanwhile = push
        scene.look()
        assert scene.window.signalled
        scene.look()
        assert len(scene.window) == 5

    def test_a_look_that_fails_is_made_again(self, scene: Scene) -> None:
        scene.push(*jobs(2))

        def fail() -> None:
            raise ConnectionError

        scene.meanwhile = fail
        with pytest.raises(ConnectionError):
            scene.look()
        assert not scene.window.loaded
        scene.meanwhile = lambda: None
        scene.look()
        assert len(scene.window) == 2
        assert scene.window.loaded

    def test_only_own_lanes(self, scene: Scene) -> None:
        scene.window.hand_over(ALL)
        scene.window.take_over((UNLANED, 1))
        scene.window.take_over((4, 5))
        some = [job._replace(lane=n % 6 if n else UNLANED) for n, job in enumerate(jobs(60))]
        scene.push(*some)
        scene.look()
        taken = scene.take(15)
        assert {job.lane for job in some if job.id in taken} == {UNLANED, 0, 1, 4, 5}
        assert len(scene.window) == 60 * 4 // 6 + 1 - 15 - 1
        scene.window.hand_over((4, 5))
        assert {key.lane for key in scene.window._known.values()} <= {UNLANED, 0, 1}
        assert not scene.window.add(key_of(0, scene.clock.now(), "x", 4), scene.clock.now())


class TestPushed:
    def _key(self, job: NewJob, run_at: int) -> Key:
        return key_of(job.priority, run_at, job.id, job.lane)

    def test_a_job_that_was_stored_here_needs_no_read(self, scene: Scene) -> None:
        scene.look()
        (job,) = jobs(1)
        scene.push(job)
        assert scene.window.add(self._key(job, scene.clock.now()), scene.clock.now())
        assert scene.take() == [job.id]

    def test_unread_jobs_come_before_it(self) -> None:
        scene = Scene(most=200)
        some = jobs(300)
        scene.push(*some)
        scene.look()
        (job,) = jobs(1)
        scene.push(job)
        assert not scene.window.add(self._key(job, scene.clock.now()), scene.clock.now())
        earlier = job._replace(id=new_ids(1)[0], run_at=scene.clock.now() - 10)
        assert scene.window.add(self._key(earlier, scene.clock.now() - 10), scene.clock.now())
        assert scene.take(1) == [earlier.id]

    def test_jobs_beyond_the_horizon_are_left_to_a_look(self, scene: Scene) -> None:
        scene.look()
        (job,) = jobs(1)
        assert not scene.window.add(self._key(job, scene.clock.now() + HORIZON + 1), scene.clock.now())

    def test_the_window_stays_bounded(self) -> None:
        scene = Scene(most=200)
        scene.look()
        some = jobs(1000)
        for n, job in enumerate(some):
            scene.store.push([job._replace(run_at=scene.clock.now() + n)])
            scene.window.add(self._key(job, scene.clock.now() + n), scene.clock.now())
        assert len(scene.window) == 400
        scene.clock.at += SECOND
        taken: list[str] = []
        while len(taken) < 1000:
            taken += scene.take(100)
            scene.look()
        assert taken == ids(some)

    def test_what_is_put_back_keeps_its_turn(self, scene: Scene) -> None:
        some = jobs(5)
        scene.push(*some)
        scene.look()
        scene.window.due(scene.clock.now())
        taken = scene.window.take(3, lambda *_: "receiver")
        scene.window.put_back(key for key, _ in taken[1:])
        assert scene.take() == ids(some[1:])


class TestQuiet:
    def test_only_if_nothing_of_its_rank_waits_or_is_unread(self) -> None:
        scene = Scene(most=200)
        assert not scene.window.quiet(0)  # it has not looked yet
        scene.look()
        assert scene.window.quiet(0)
        scene.push(*jobs(250, priority=3))
        scene.window.signal()
        scene.look()
        scene.window.due(scene.clock.now())
        assert (scene.window.quiet(4), scene.window.quiet(3), scene.window.quiet(0)) == (True, False, False)
        assert len(scene.take()) == 200
        assert (scene.window.quiet(4), scene.window.quiet(3)) == (True, False)  # 50 more are unread


class TestStoreTime:
    def test_never_ahead_and_as_near_as_the_fastest_answer(self) -> None:
        own = [100.0]
        time = StoreTime(lambda: own[0])
        assert time.now() is None
        time.saw(5_000_000)  # it took a while
        own[0] += 1
        time.saw(6_000_300)  # 300 µs nearer
        own[0] += 1
        time.saw(6_900_000)
        assert time.now() == 7_000_300
        assert time.seconds_until(7_500_300) == pytest.approx(0.5)
        assert time.seconds_until(1) == 0

    def test_slow_answers_of_busy_seconds_do_not_displace_fast_ones(self) -> None:
        own = [100.0]
        time = StoreTime(lambda: own[0])
        time.saw(9_000_000)
        for _ in range(1000):
            own[0] += 0.01
            time.saw(int(own[0] * 1e6) - 91_000_000 - 2_000)
        assert time.now() == int(own[0] * 1e6) - 91_000_000

    def test_an_answer_counts_from_when_it_came(self) -> None:
        time = StoreTime(lambda: 100.0)
        time.saw(9_000_000, 99_990_000)
        assert time.now() == 9_010_000

    def test_a_step_back_is_known_after_some_seconds_with_answers(self) -> None:
        own = [100.0]
        time = StoreTime(lambda: own[0])
        time.saw(9_000_000)
        for _ in range(16):
            own[0] += 1
            time.saw(int(own[0] * 1e6) - 96_000_000)
        assert time.now() == 20_000_000
