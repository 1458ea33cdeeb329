"""The figures of stations whose jobs carry chunks: items, beside jobs."""

from typing import Any

from stanchion import Pipeline, Stanchion
from stanchion.ops.cli.run.look import Look
from stanchion.stores.records.outcomes import Commit, Move, Tally
from stanchion_conformance.harness import claim, new_job
from stanchion_conformance.jobs.chunk_contents import chunk, settle


def stations(etl: Pipeline) -> None:
    etl.station("raw", to="end")(lambda item: item)
    etl.station("end")(lambda item: item)


def test_depths_are_items_beside_jobs(app: Stanchion, etl: Pipeline) -> None:
    stations(etl)
    app.store.push([chunk(10, queue="etl.raw"), new_job(queue="etl.raw"), chunk(5, queue="etl.raw", delay=60.0)])
    (row, _) = claim(app.store, 2, queue="etl.raw")
    raw, end = etl.status().stations
    assert (raw.depth, raw.jobs) == ((16, 0, 5, 0, 11), (3, 0, 1, 0, 2))
    assert (raw.items_per_job, end.items_per_job) == (16 / 3, None)
    assert (raw.came, end.came, end.depth.total) == (16, 0, 0)
    settle(app.store, Move(row.lease, "etl.end"))
    status = etl.status()
    raw, end = status.stations
    assert (raw.came, raw.out, end.came) == (16, row.items or 1, row.items or 1)
    assert status.as_json()["stations"][1]["depth"]["ready"] == (row.items or 1)
    assert status.as_json()["stations"][1]["jobs"]["ready"] == 1
    assert not status.empty


def test_a_division_keeps_what_came(app: Stanchion, etl: Pipeline) -> None:
    stations(etl)
    app.store.push([chunk(10, queue="etl.raw")])
    (row,) = claim(app.store, queue="etl.raw")
    parts = chunk(7, queue="etl.end"), chunk(3, queue="etl.raw", attempts=1)
    tallies = Tally("etl.raw", "moved", 7), Tally("etl.raw", "rolled_back", 3)
    settle(app.store, Commit(row.lease, jobs=parts, tallies=tallies))
    raw, end = etl.status().stations
    assert (raw.came, raw.out, raw.retried, raw.depth.total) == (10, 7, 3, 3)
    assert (end.came, end.depth.total, end.jobs.total) == (7, 7, 1)


def test_the_command_line_shows_items(app: Stanchion, etl: Pipeline) -> None:
    stations(etl)
    app.store.push([chunk(10, queue="etl.raw")])
    look = Look(etl)
    look.again()
    told: Any = look.as_json()
    raw = told["stations"][0]
    assert (raw["depth"]["ready"], raw["jobs"]["ready"], raw["came"]) == (10, 1, 10)
    assert list(map(str, look.rows()[0][1:3])) == ["10", "10"]
