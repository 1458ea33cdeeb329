"""A pipeline whose workers are killed at every step: each item comes to its end once."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from stanchion import JobState, Pipeline, Queue, Stanchion
from stanchion.context import context_of
from stanchion.pipelines.pipeline import plan_of
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import counts_of, sizes_of
from tests.crash.scene import TIMEOUT_SECONDS, Process, Scene
from tests.crash.stations import ends_of, parts_of, pipeline, rounds_of

FATES = ("before claim", "after claim", "before settle", "after settle")
MOST = 10_000


def runner(scene: Scene, *flags: str, fate: str = "") -> Process:
    """Start a process that works on the pipeline."""
    given = ["--heartbeat", "0.5s", "--threads", "4", "--poll", "0.05", *flags]
    return scene.stanchion("pipeline", "run", "tests.crash.stations:etl", *given, fate=fate)


@pytest.fixture
def etl(scene: Scene) -> Iterator[Pipeline]:
    """The pipeline, as the test sees it."""
    with closing(open_store(scene.url)) as store:
        yield pipeline(Stanchion(scene.url, store=store))


def broken_rules(etl: Pipeline, numbers: range) -> Iterator[str]:
    """Yield what is wrong with the items that went in, once no worker is left."""
    status = etl.status()
    if not status.empty or status.dead_letters:
        yield f"left behind: {status}"
    rows: list[JobRow] = [job._row for queue in etl.queues for job in Queue(context_of(etl), queue).find(limit=MOST)]
    yield from (f"twice in the store: {job}" for job, times in Counter(row.id for row in rows).items() if times > 1)
    for row in rows:
        if row.state != JobState.DONE:
            yield f"unfinished: {row.id} in {row.queue} is {row.state}"
    ended = [row for row in rows if row.queue == "crash.end"]
    wanted = Counter(json.dumps(end) for number in numbers for end in ends_of(number))
    found = Counter(json.dumps(json.loads(row.result or "null")) for row in ended)
    yield from (
        f"{found[one]} times at the end, not {wanted[one]}: {one}"
        for one in wanted | found
        if wanted[one] != found[one]
    )
    for row in ended:
        route = [stop[0] for stop in json.loads(row.headers or "{}").get("x-route", [])]
        if route != ["raw", *["mid"] * (1 + rounds_of(json.loads(row.payload)["n"]))]:
            yield f"a route that does not lead here: {route} of {row.id}"
    dropped = sorted(
        json.loads(row.payload)["n"] for row in rows if row.queue == "crash.raw" and row.id not in parents(ended)
    )
    if dropped != [number for number in numbers if not parts_of(number)]:
        yield f"dropped: {dropped}"
    for station in plan_of(etl).stations.values():
        counts, live = counts_of(context_of(etl).store, station.queue), sizes_of(context_of(etl).store, station.queue)
        ends = counts.committed + counts.rolled_back + counts.moved + counts.buried + counts.cancelled + counts.expired
        if counts.reserved != ends + live.running:
            yield f"miscounted at {station.station}: {counts}"


def parents(ended: list[JobRow]) -> set[str | None]:
    """Return the items of which several were made."""
    return {row.origin for row in ended}


def verify(scene: Scene, etl: Pipeline, numbers: range) -> None:
    """Let what is left come to its end, and judge it."""
    last = [runner(scene, "--until-empty") for _ in range(2)]
    for process in last:
        assert process.wait(90) == 0, scene.log
    broken = list(broken_rules(etl, numbers))
    assert not broken, "\n".join([f"{len(broken)} rules broken", *broken[:20], scene.log])
    assert [(one.held, one.waiting) for one in context_of(etl).store.semaphores()] == [(0, 0)]


def meet_their_fates(scene: Scene, etl: Pipeline, doomed: list[Process]) -> None:
    """Wait until all have died, or have nothing left to die of."""
    scene.wait(
        lambda: etl.status().empty or all(one.poll() is not None for one in doomed), TIMEOUT_SECONDS, "their deaths"
    )
    for process in doomed:
        scene.kill(process)


@pytest.mark.nightly
def test_workers_killed_at_each_step(scene: Scene, etl: Pipeline) -> None:
    numbers = range(1, 201)
    etl.push_many([{"n": number} for number in numbers])
    for number in (1, 2, 4):
        meet_their_fates(scene, etl, [runner(scene, fate=f"{kind} {number}") for kind in FATES])
    verify(scene, etl, numbers)


@pytest.mark.nightly
def test_workers_killed_at_any_moment(scene: Scene, etl: Pipeline) -> None:
    numbers = range(1, 301)
    etl.push_many([{"n": number} for number in numbers])
    for _ in range(3):
        victims = [runner(scene) for _ in range(2)]
        before = started(etl)
        scene.wait(lambda: etl.status().empty or started(etl) > before, TIMEOUT_SECONDS, "their first items")  # noqa: B023
        time.sleep(random.uniform(0, 0.4))
        for victim in victims:
            scene.kill(victim)
    verify(scene, etl, numbers)


def started(etl: Pipeline) -> int:
    """Return how often an item was reserved at the first two stations."""
    return sum(counts_of(context_of(etl).store, queue).reserved for queue in etl.queues[:2])


@pytest.mark.nightly
@pytest.mark.parametrize("scene", ["mariadb", "redis", "mongodb"], indirect=True)  # their drivers are Python
def test_workers_killed_between_two_messages(scene: Scene, etl: Pipeline) -> None:
    numbers = range(1, 201)
    etl.push_many([{"n": number} for number in numbers])
    for most in (30, 60, 120):
        meet_their_fates(
            scene, etl, [runner(scene, fate=f"before message {random.randint(most // 2, most)}") for _ in range(3)]
        )
    verify(scene, etl, numbers)


def test_the_judge_sees_what_is_lost_doubled_and_left() -> None:
    etl = pipeline(Stanchion("memory://"))
    numbers = range(1, 31)
    etl.push_many([{"n": number} for number in numbers])
    for _ in range(3):
        etl.drain()
        context_of(etl).store.clock_offset += 1
    assert list(broken_rules(etl, numbers)) == []
    assert any(told.startswith("0 times at the end") for told in broken_rules(etl, range(1, 33)))
    assert any("dropped" in told for told in broken_rules(etl, range(1, 36)))
    etl.push({"n": 1, "part": "whole", "rounds": 0}, "end")
    assert any(told.startswith("left behind") for told in broken_rules(etl, numbers))
    etl.drain()
    told = list(broken_rules(etl, numbers))
    assert any(one.startswith("2 times at the end") for one in told)
    assert any(one.startswith("a route that does not lead here") for one in told)
