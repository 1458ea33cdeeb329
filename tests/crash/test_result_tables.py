"""Workers that write rows to a table are killed at every step: each item becomes one row, or one dead letter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from stanchion import Pipeline, Stanchion
from stanchion.context import context_of
from stanchion.stores.registry import open_store
from tests.crash.scene import TIMEOUT_SECONDS, Process, Scene
from tests.crash.tables import fits, pipeline, written

FATES = ("before rows", "after rows", "before settle", "after settle", "after claim")
ITEMS = range(1, 1201)

on_sql = pytest.mark.parametrize("scene", ["sqlite", "postgresql", "mariadb"], indirect=True)


@pytest.fixture
def etl(scene: Scene) -> Iterator[Pipeline]:
    """The pipeline, as the test sees it."""
    with closing(open_store(scene.url)) as store:
        yield pipeline(Stanchion(scene.url, store=store))


def runner(scene: Scene, *flags: str, fate: str = "") -> Process:
    """Start a process that works on the pipeline."""
    given = ["--heartbeat", "0.5s", "--threads", "3", "--poll", "0.05", *flags]
    return scene.stanchion("pipeline", "run", "tests.crash.tables:etl", *given, fate=fate)


def push(etl: Pipeline) -> None:
    """Store the items, most of them in chunks."""
    items = [{"n": n} for n in ITEMS]
    etl.push_chunks(items[:1000], size=50)
    etl.push_many(items[1000:])


def verify(scene: Scene, etl: Pipeline) -> None:
    """Let what is left come to its end, and judge it."""
    last = [runner(scene, "--until-empty") for _ in range(2)]
    for process in last:
        assert process.wait(TIMEOUT_SECONDS) == 0, scene.log
    rows = written(etl, Stanchion(store=context_of(etl).store))
    assert rows == {n: 1 for n in ITEMS if fits(n)}, scene.log
    letters = etl.dead_letters.find(limit=1000)
    dead = [item["n"] for job in letters for item in ([job.payload] if job.items is None else job.payload)]
    assert sorted(dead) == [n for n in ITEMS if not fits(n)], scene.log
    assert etl.status().empty


@on_sql
@pytest.mark.nightly
def test_workers_killed_at_each_step(scene: Scene, etl: Pipeline) -> None:
    push(etl)
    deaths = 0
    for number in (1, 2, 5):
        doomed = [runner(scene, fate=f"{kind} {number}") for kind in FATES]
        scene.wait(
            lambda: etl.status().empty or all(one.poll() is not None for one in doomed),  # noqa: B023
            *(TIMEOUT_SECONDS, "their deaths"),
        )
        deaths += sum(one.poll() == -9 for one in doomed)
        for process in doomed:
            scene.kill(process)
    assert deaths >= len(FATES), scene.log
    verify(scene, etl)


def test_a_worker_killed_between_the_rows_and_their_commit(sqlite_scene: Scene) -> None:
    with closing(open_store(sqlite_scene.url)) as store:
        etl = pipeline(Stanchion(sqlite_scene.url, store=store))
        push(etl)
        for _ in range(2):
            assert runner(sqlite_scene, fate="after rows 2").wait(TIMEOUT_SECONDS) == -9, sqlite_scene.log
        verify(sqlite_scene, etl)
