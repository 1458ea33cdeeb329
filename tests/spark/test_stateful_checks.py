"""What a station with a watermark needs, checked before Spark starts."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from stanchion import Pipeline, Stanchion
from stanchion.errors import InvalidInput
from stanchion.pipelines.pipeline import plan_of
from stanchion.pipelines.station import Station
from stanchion.spark.stations.stateful import begin_again, check
from stanchion.streams import StreamSource
from stanchion.streams.state import load


def declared(app: Stanchion, folder: Path, **options: Any) -> list[Station]:
    etl = app.pipeline("rides")
    given = {"schema": "at timestamp", "to": "sums", "watermark": ("at", "1 minute"), "checkpoint": folder, **options}
    etl.spark_station("raw", **given)(print)
    etl.station("sums", entry=True)(print)
    etl.station("late", entry=True, limits=["geo"])(print)
    return plan_of(etl).chosen([])


def run(app: Stanchion, folder: Path) -> None:
    """Leave what a run has left: a checkpoint, and the times of a batch."""
    (folder / "metadata").mkdir(parents=True)
    app.queue("rides.raw").push({})
    source = StreamSource(app.store, "rides.raw", "rides.raw")
    end = source.latest(source.initial(), 1)
    source.settle([], 100)
    source.latest(end, 1)


def test_what_it_needs(app: Stanchion, tmp_path: Path) -> None:
    app.semaphore("geo", capacity=1)
    stations = declared(app, tmp_path / "one")
    check(stations)
    app.queue("rides.raw").configure(history_ttl=60)
    with pytest.raises(InvalidInput, match="keep history_ttl of 3600 s or more"):
        check(stations)


def test_what_it_can_not_have(app: Stanchion, tmp_path: Path) -> None:
    sealed = Stanchion(f"sqlite:///{tmp_path}/sealed.db", keys=[Fernet.generate_key()])
    with pytest.raises(InvalidInput, match="can't read encrypted items"):
        check(declared(sealed, tmp_path))
    with pytest.raises(InvalidInput, match="can't have limits"):
        check(declared(app, tmp_path, late="late"))


def test_a_checkpoint_each(app: Stanchion, tmp_path: Path) -> None:
    stations = declared(app, tmp_path)
    app.pipeline("rides").spark_station(
        "more", schema="at timestamp", to="sums", watermark=("at", 1), checkpoint=tmp_path, entry=True
    )(repr)
    check(stations)
    with pytest.raises(InvalidInput, match="'raw' and 'more' have the same checkpoint="):
        check(plan_of(app.pipeline("rides")).chosen([]))


def test_a_lost_checkpoint_and_a_new_beginning(app: Stanchion, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    stations = declared(app, folder)
    run(app, folder)
    check(stations)
    etl: Pipeline = app.pipeline("rides")
    with pytest.raises(InvalidInput, match="delete the checkpoint of station 'raw' first"):
        begin_again(etl, "raw")
    (folder / "metadata").rmdir()
    with pytest.raises(InvalidInput, match=r"checkpoint of station 'raw' is missing .* begin with none"):
        check(stations)
    begin_again(etl, "raw")
    check(stations)
    state = load(app.store, "rides.raw")
    assert state is not None
    assert (state.seen, state.acked) == (None, 1)
    with pytest.raises(InvalidInput, match="has no watermark"):
        begin_again(etl, "sums")
