"""Workers on chunks are killed at every step: each item comes to its end once, or is one dead letter."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from stanchion import Job, JobState, Pipeline, Stanchion
from stanchion.context import context_of
from stanchion.core.chunks.chunk import Chunk
from stanchion.pipelines.pipeline import plan_of
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import counts_of, sizes_of
from tests.crash.chunk_stations import ATTEMPTS, dies, ends_of, parts_of, pipelines
from tests.crash.scene import TIMEOUT_SECONDS, Process, Scene

FATES = ("before claim", "after claim", "before settle", "after settle")
MOST = 10_000
SIZE = 25


@pytest.fixture(params=["items", "tables"])
def etl(request: pytest.FixtureRequest, scene: Scene) -> Iterator[Pipeline]:
    """A pipeline, as the test sees it."""
    with closing(open_store(scene.url)) as store:
        yield getattr(pipelines(Stanchion(scene.url, store=store)), request.param)


def runner(scene: Scene, etl: Pipeline, *flags: str, fate: str = "") -> Process:
    """Start a process that works on the pipeline."""
    given = ["--heartbeat", "0.5s", "--threads", "2", "--poll", "0.05", *flags]
    return scene.stanchion("pipeline", "run", f"tests.crash.chunk_stations:{etl.name}", *given, fate=fate)


def push(etl: Pipeline, numbers: range) -> None:
    """Push items in chunks, and some alone."""
    alone = [number for number in numbers if number % 19 == 0]
    etl.push_chunks(({"n": number} for number in numbers if number % 19), size=SIZE)
    etl.push_many([{"n": number} for number in alone])


def broken_rules(etl: Pipeline, numbers: range) -> Iterator[str]:
    """Yield what is wrong with the items that went in, once no worker is left."""
    status = etl.status()
    if not status.empty:
        yield f"left behind: {status}"
    ended = Counter(json.dumps(one) for job in _jobs(etl, "end", JobState.DONE) for one in _values(job.result))
    died = Counter(json.dumps(one) for job in etl.dead_letters.find(limit=MOST) for one in _values(job.payload))
    ends = [(number, json.dumps(end)) for number in numbers for end in ends_of(number)]
    for what, found, wanted in (
        ("at the end", ended, Counter(end for number, end in ends if not dies(number))),
        ("dead", died, Counter(end for number, end in ends if dies(number))),
    ):
        odd = [one for one in wanted | found if wanted[one] != found[one]]
        yield from (f"{found[one]} times {what}, not {wanted[one]}: {one}" for one in odd)
    figures = {one.station: one for one in status.stations}
    dropped, forked = (sum(len(parts_of(number)) == size for number in numbers) for size in (0, 3))
    for told, wanted_sum in (
        (figures["raw"].came, len(numbers)),
        (figures["raw"].dropped, dropped),
        (figures["raw"].out, len(numbers) - dropped),
        (figures["mid"].dead, sum(dies(number) for number, _ in ends)),
        (figures["end"].out, sum(not dies(number) for number, _ in ends)),
    ):
        if told != wanted_sum:
            yield f"miscounted, {wanted_sum} expected ({forked} forked): {figures}"
            return
    for station in plan_of(etl).stations.values():
        counts, live = counts_of(context_of(etl).store, station.queue), sizes_of(context_of(etl).store, station.queue)
        if live.total or counts.committed < 0:
            yield f"miscounted at {station.station}: {counts}, {live}"


def _jobs(etl: Pipeline, station: str, state: JobState) -> Iterator[Job]:
    yield from etl.queue(station).find(state=state, limit=MOST)


def _values(value: object) -> list[object]:
    """Return the items of a payload or result; none where a divided chunk has left nothing."""
    if isinstance(value, Chunk):
        return [one for one in value if one is not None]
    return [] if value is None else [value]


def verify(scene: Scene, etl: Pipeline, numbers: range) -> None:
    """Let what is left come to its end, and judge it."""
    last = [runner(scene, etl, "--until-empty") for _ in range(2)]
    for process in last:
        assert process.wait(2 * TIMEOUT_SECONDS) == 0, scene.log
    broken = list(broken_rules(etl, numbers))
    assert not broken, "\n".join([f"{len(broken)} rules broken", *broken[:20], scene.log])
    assert [(one.held, one.waiting) for one in context_of(etl).store.semaphores()] == [(0, 0)]


@pytest.mark.nightly
def test_workers_killed_at_each_step(scene: Scene, etl: Pipeline) -> None:
    numbers = range(1, 401)
    push(etl, numbers)
    for number in (1, 2, 4, 6):
        doomed = [runner(scene, etl, fate=f"{kind} {number}") for kind in FATES]
        scene.wait(
            lambda: etl.status().empty or all(one.poll() is not None for one in doomed),  # noqa: B023
            TIMEOUT_SECONDS,
            "their deaths",
        )
        for process in doomed:
            scene.kill(process)
    verify(scene, etl, numbers)


@pytest.mark.nightly
def test_workers_killed_at_any_moment(scene: Scene, etl: Pipeline) -> None:
    numbers = range(1, 601)
    push(etl, numbers)
    for _ in range(4):
        victims = [runner(scene, etl) for _ in range(2)]
        before = _begun(etl)
        scene.wait(lambda: etl.status().empty or _begun(etl) > before, TIMEOUT_SECONDS, "their first chunks")  # noqa: B023
        time.sleep(random.uniform(0, 0.4))
        for victim in victims:
            scene.kill(victim)
    verify(scene, etl, numbers)


@pytest.mark.nightly
def test_items_keep_their_order_while_workers_are_killed(scene: Scene) -> None:
    with closing(open_store(scene.url)) as store:
        etl = pipelines(Stanchion(scene.url, store=store)).ordered
        numbers = range(1, 301)
        orders = [{"n": number, "customer": number % 7} for number in numbers]
        etl.push_chunks(orders, order_key="customer", buckets=3, size=SIZE)
        for number in (1, 2, 4, 6):
            doomed = [runner(scene, etl, fate=f"{kind} {number}") for kind in FATES]
            scene.wait(
                lambda: etl.status().empty or all(one.poll() is not None for one in doomed),  # noqa: B023
                TIMEOUT_SECONDS,
                "their deaths",
            )
            for process in doomed:
                scene.kill(process)
        last = [runner(scene, etl, "--until-empty") for _ in range(2)]
        for process in last:
            assert process.wait(2 * TIMEOUT_SECONDS) == 0, scene.log
        died = [one for job in etl.dead_letters.find(limit=MOST) for one in _values(job.payload)]
        assert sorted(died, key=str) == sorted((one for one in orders if dies(one["n"])), key=str)
        for side in ("left", "right"):
            done = [job for job in _jobs(etl, side, JobState.DONE) if job.items != 0]
            came = [one for job in sorted(done, key=lambda job: str(job.finished_at)) for one in _values(job.result)]
            by_customer = [[one for one in came if one["customer"] == customer] for customer in range(7)]  # type: ignore[index]
            wanted = [one for one in orders if (one["n"] % 2 == 1) == (side == "left") and not dies(one["n"])]
            assert by_customer == [[one for one in wanted if one["customer"] == customer] for customer in range(7)]


def _begun(etl: Pipeline) -> int:
    """Return how many items were reserved at the first two stations."""
    return sum(counts_of(context_of(etl).store, queue).reserved for queue in etl.queues[:2])


@pytest.mark.nightly
@pytest.mark.parametrize("scene", ["mariadb", "redis", "mongodb"], indirect=True)  # their drivers are Python
def test_workers_killed_between_two_messages(scene: Scene, etl: Pipeline) -> None:
    numbers = range(1, 401)
    push(etl, numbers)
    for most in (30, 60, 120):
        doomed = [runner(scene, etl, fate=f"before message {random.randint(most // 2, most)}") for _ in range(3)]
        scene.wait(
            lambda: etl.status().empty or all(one.poll() is not None for one in doomed),  # noqa: B023
            TIMEOUT_SECONDS,
            "their deaths",
        )
        for process in doomed:
            scene.kill(process)
    verify(scene, etl, numbers)


def test_the_judge_sees_what_is_lost_doubled_and_left() -> None:
    etl = pipelines(Stanchion("memory://")).items
    numbers = range(1, 101)
    push(etl, numbers)
    for _ in range(ATTEMPTS):
        etl.drain()
        context_of(etl).store.clock_offset += 1
    assert list(broken_rules(etl, numbers)) == []
    assert any(told.startswith("0 times at the end") for told in broken_rules(etl, range(1, 103)))
    assert any("miscounted" in told for told in broken_rules(etl, range(1, 106)))
    etl.queue("end").push({"n": 1, "part": "whole"})
    assert any(told.startswith("left behind") for told in broken_rules(etl, numbers))
    etl.drain()
    assert any(told.startswith("2 times at the end") for told in broken_rules(etl, numbers))
