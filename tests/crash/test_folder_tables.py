"""Workers that write rows to tables in folders are killed at every step: each item becomes one row, or one letter."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from stanchion import Pipeline, Stanchion
from stanchion.stores.registry import open_store
from tests.crash.folder_tables import fits, pipeline, written
from tests.crash.scene import TIMEOUT_SECONDS, Process, Scene

ITEMS = range(1, 601)
FATES = {
    "delta": (
        *("before open", "after open", "after files", "before commit", "after commit", "after rows"),
        *("after item", "before settle", "after settle", "after claim"),
    ),
    "parquet": ("before sync", "after sync", "before file", "after file", "after item", "before settle"),
}


def runner(scene: Scene, kind: str, fate: str = "", *flags: str) -> Process:
    """Start a process that works on the pipeline."""
    given = ["--heartbeat", "0.5s", "--threads", "3", "--poll", "0.05", *flags]
    return scene.stanchion("pipeline", "run", "tests.crash.folder_tables:etl", *given, fate=f"{kind} {fate}")


def push(etl: Pipeline) -> None:
    """Store the items, most of them in chunks."""
    items = [{"n": n} for n in ITEMS]
    etl.push_chunks(items[:560], size=40)
    etl.push_many(items[560:])


def verify(scene: Scene, kind: str, etl: Pipeline) -> None:
    """Let what is left come to its end, and judge it."""
    last = [runner(scene, kind, "", "--until-empty") for _ in range(2)]
    for process in last:
        assert process.wait(TIMEOUT_SECONDS) == 0, scene.log
    assert written(etl) == {n: 1 for n in ITEMS if fits(n)}, scene.log
    letters = etl.dead_letters.find(limit=1000)
    dead = [item["n"] for job in letters for item in ([job.payload] if job.items is None else job.payload)]
    assert sorted(dead) == [n for n in ITEMS if not fits(n)], scene.log
    assert {job.dead_from for job in letters} == {"crash.raw"}
    assert etl.status().empty


@pytest.mark.nightly
@pytest.mark.parametrize("kind", FATES)
def test_workers_killed_at_each_step(scene: Scene, kind: str, tmp_path: Path) -> None:
    with closing(open_store(scene.url)) as store:
        etl = pipeline(Stanchion(scene.url, store=store), kind, tmp_path)
        push(etl)
        deaths = 0
        for number in (1, 3):
            for some in (FATES[kind][::2], FATES[kind][1::2]):
                doomed = [runner(scene, kind, f"{fate} {number}") for fate in some]
                scene.wait(
                    lambda: etl.status().empty or all(one.poll() is not None for one in doomed),  # noqa: B023
                    *(TIMEOUT_SECONDS, "their deaths"),
                )
                deaths += sum(one.poll() == -9 for one in doomed)
                for process in doomed:
                    scene.kill(process)
        assert deaths >= len(FATES[kind]) // 2, scene.log
        verify(scene, kind, etl)


@pytest.mark.parametrize(("kind", "fate"), [("delta", "after commit"), ("parquet", "after file")])
def test_a_worker_killed_between_the_rows_and_the_end_of_the_job(
    sqlite_scene: Scene, kind: str, fate: str, tmp_path: Path
) -> None:
    with closing(open_store(sqlite_scene.url)) as store:
        etl = pipeline(Stanchion(sqlite_scene.url, store=store), kind, tmp_path)
        push(etl)
        for number in (1, 2):
            assert runner(sqlite_scene, kind, f"{fate} {number}").wait(TIMEOUT_SECONDS) == -9, sqlite_scene.log
        verify(sqlite_scene, kind, etl)
