"""Random pipelines end in the same way whether items pass in memory or are stored at every station.

Each item says itself what becomes of it at each station: its function draws from the item, the station, the visit and
the attempt. So two runs of a pipeline differ only in where items were stored.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from stanchion import Cancel, Job, Pipeline, Retry, Send, Stanchion, Worker
from stanchion.app import app_of
from stanchion.context import context_of
from stanchion.pipelines.pipeline import plan_of
from stanchion.pipelines.route import route_of
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Outcome, Pass, Passage
from stanchion.stores.registry import open_store
from tests.servers.manager import ManagerThread

ITEMS = 60
VISITS_MAX = 4
"""Visits of an item from which it takes no edge of a loop."""

Made = dict[str, tuple[list[str], dict[str, Any]]]
"""By station: its targets and options."""


class Ended(NamedTuple):
    """What has become of an item, and of each part into which it was split."""

    item: str
    state: str
    queue: str
    result: object
    payload: object
    attempts: int
    failures: int
    errors: tuple[str, ...]
    route: tuple[tuple[str, int], ...]
    trail: tuple[tuple[str, int | None], ...]


def graph(rng: random.Random) -> Made:
    """Return random stations; every one leads to an end."""
    names = [f"s{n}" for n in range(rng.randint(3, 7))]
    made: Made = {}
    for place, name in enumerate(names):
        later = names[place + 1 :]
        to = sorted(rng.sample(later, rng.randint(1, min(3, len(later))))) if later else []
        if to and rng.random() < 0.3:
            to.append(rng.choice(names[: place + 1]))
        made[name] = to, options(rng)
    reached = {"s0"}.union(*(to for to, _ in made.values()))
    for name in names:
        if name not in reached:
            made[name][1]["entry"] = True
    return made


def options(rng: random.Random) -> dict[str, Any]:
    """Return random options of a station; some of them store items."""
    storing = {"stored": True, "max_running": 3, "max_rate": 10_000, "lanes": 3, "limits": ["geo"], "timeout": 60}
    found: dict[str, Any] = {name: value for name, value in storing.items() if rng.random() < 0.04}
    found["max_attempts"] = rng.randint(1, 3)
    if rng.random() < 0.2:
        found["payload"] = "merge"
    return found


def build(app: Stanchion, made: Made, stored: Literal["needed", "always"]) -> Pipeline:
    """Declare the stations on an app."""
    app.semaphore("geo", capacity=2)
    etl = app.pipeline(stored, stored=stored)

    def declare(name: str, to: list[str], given: dict[str, Any]) -> None:
        def work(item: dict[str, Any], job: Job) -> object:
            visits = item["visits"]
            assert job.queue == f"{stored}.{name}"
            assert job.payload == item
            assert [stop.station for stop in route_of(job.headers)] == visits
            return fate(random.Random(f"{item['id']} {name} {len(visits)} {job.attempt}"), item)

        def fate(rng: random.Random, item: dict[str, Any]) -> object:
            chance = rng.random()
            new = {**item, "visits": [*item["visits"], name], "n": item["n"] + rng.randint(0, 1)}
            if chance < 0.15:
                raise ValueError(f"{name} fails")
            if chance < 0.2:
                return Cancel("no more")
            if not to:
                return new["id"]
            if chance < 0.25:
                return None
            ahead = [one for one in to if int(one[1:]) > int(name[1:]) or len(new["visits"]) < VISITS_MAX]
            if chance < 0.35 and len(new["visits"]) < VISITS_MAX:
                return [Send(one, {**new, "id": f"{item['id']}.{n}"}) for n, one in enumerate(rng.choices(ahead, k=2))]
            delay = 0.01 if chance < 0.45 else 0
            priority = 7 if chance > 0.95 else None
            if len(to) == 1 and not delay and priority is None and ahead:
                return new
            return Send(rng.choice(ahead), new, delay=delay, priority=priority)

        async def later(item: dict[str, Any], job: Job) -> object:
            return work(item, job)

        function = later if given.pop("is_async", False) else work
        etl.station(name, to=to, retry=Retry.constant(0, jitter=0), **given)(function)

    for name, (to, given) in made.items():
        declare(name, to, dict(given))
    return etl


def ended(etl: Pipeline) -> list[Ended]:
    """Return what has become of all items."""
    return sorted(
        Ended(
            job.payload["id"],
            str(job.state),
            station(job.queue),
            job.result,
            job.payload,
            job.attempts,
            job.failures,
            tuple(error["error"] for error in job.errors),
            tuple((stop.station, stop.attempts) for stop in route_of(job.headers)),
            tuple((station(stop.queue), stop.attempts) for stop in job.trail),
        )
        for job in app_of(context_of(etl)).find(limit=100_000)
        if job.queue.startswith(f"{etl.name}.")
    )


def station(queue: str) -> str:
    """Return the name of a station, or that of the dead letters, without the pipeline's."""
    return queue.partition(".")[2]


def outcome(url: str, made: Made, stored: Literal["needed", "always"]) -> tuple[int, tuple[Any, ...]]:
    """Run the items of a pipeline; return how many stations they reached in memory, and what can be seen of it."""
    app = Stanchion(url)
    app.setup()
    etl = build(app, made, stored)
    store = context_of(app).store
    settle, passages = store.settle, list[Passage]()

    def settling(outcomes: Sequence[Outcome], *args: Any, **more: Any) -> list[JobState | None]:
        passages.extend(passage for one in outcomes if isinstance(one, Pass) for passage in one.passages)
        return settle(outcomes, *args, **more)

    store.settle = settling  # type: ignore[method-assign]
    heard: Counter[tuple[str, str]] = Counter()
    for event in ("started", "done", "failed", "retrying", "dead"):
        app.on(event)(lambda job, *_, event=event: heard.update([(event, station(job.queue))]))
    for entry in plan_of(etl).entries:
        etl.push_many([{"id": f"{entry}-{n}", "visits": [], "n": 0} for n in range(ITEMS)], entry)
    Worker(app, threads=4, until_finished=True, poll=0.02).run()
    status = etl.status()
    figures = [(one.station, one.came, one.out, one.dropped, one.retried, one.dead) for one in status.stations]
    reserved = {name: etl.queue(name).counts().reserved for name in made}
    result = ended(etl), figures, reserved, status.dead_letters, heard
    app.close()
    return len(passages), result


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_random_pipeline_ends_alike(store: str, seed: int, tmp_path: Path) -> None:
    check("memory://" if store == "memory" else f"sqlite:///{tmp_path}/jobs.db", seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20, 32))
@pytest.mark.parametrize("server", ["pg_store_url", "mariadb_url", "mongo_url", "redis_url"])
def test_a_random_pipeline_ends_alike_on_servers(server: str, seed: int, request: pytest.FixtureRequest) -> None:
    check(request.getfixturevalue(server), seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 5])
def test_a_random_pipeline_ends_alike_behind_a_manager(seed: int, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/jobs.db")
    store.setup()
    with ManagerThread(store) as manager:
        check(manager.url, seed)


def check(url: str, seed: int) -> None:
    """Run a random pipeline in both ways, and compare the ends."""
    rng = random.Random(seed)
    made = graph(rng)
    for _, given in made.values():
        given["is_async"] = rng.random() < 0.2
    (in_memory, needed), (never, always) = outcome(url, made, "needed"), outcome(url, made, "always")
    assert never == 0
    assert (in_memory > 0) == any(not edge.stored for edge in build(Stanchion(url), made, "needed").plan().edges)
    whole = [one for one in needed[0] if "." not in one.item]
    assert len({one.item for one in whole}) == len(whole) >= ITEMS
    for mine, theirs in zip(needed, always, strict=True):
        assert mine == theirs
