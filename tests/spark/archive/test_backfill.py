"""Backfills over an archive."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stanchion import Pipeline, Stanchion
from stanchion.errors import InvalidInput
from stanchion.pipelines.backfilling import run as backfill_run
from stanchion.spark import archive


@pytest.fixture
def etl(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setattr(backfill_run, "PAGE", 3)
    etl = app.pipeline("etl")

    @etl.station("raw", to="end", max_attempts=1, dead_letter=None)
    def raw(item: Any) -> Any:
        if item == 13:
            raise ValueError("bad luck")
        return item + 1

    etl.station("end", dead_letter=None)(lambda item: item)
    return etl


def waiting(etl: Pipeline) -> list[Any]:
    return [job.payload for job in reversed(etl.queue("raw").find(state="ready", limit=1000))]


def into(app: Stanchion, folder: Path, **options: Any) -> None:
    app.store.clock_offset += 7200  # nothing is archived in the hour after its end
    archive(app, folder, engine="local", older_than=60, **options)


def test_items_run_again_from_the_archive(app: Stanchion, etl: Pipeline, folder: Path) -> None:
    pushed: list[Any] = []
    for day in range(3):
        pushed += [etl.push(10 * day + n) for n in range(4)]
        etl.drain()
        into(app, folder)
        app.store.clock_offset += 86_400
    assert etl.find() == []
    since = pushed[4].enqueued_at - timedelta(seconds=1)
    assert etl.backfill("raw", since=since, dry_run=True).enqueued == 0  # not in history
    done = etl.backfill("raw", since=since, source=folder)
    assert (done.enqueued, done.purged_before, done.source) == (8, None, str(folder))
    assert waiting(etl) == [10, 11, 12, 13, 20, 21, 22, 23]
    assert etl.backfill("raw", since=since, source=folder).was_done
    etl.drain()
    assert sorted(job.result for job in etl.queue("end").history()) == [11, 12, 13, 21, 22, 23, 24]


def test_it_goes_on_where_it_was_cut_off(app: Stanchion, etl: Pipeline, folder: Path) -> None:
    for start in (0, 100):
        etl.push_many([start + n for n in range(8)])
        etl.drain()
        into(app, folder)
        app.store.clock_offset += 86_400

    class Cut(BaseException):
        pass

    def after(pages: int) -> Callable[[Any], None]:
        left = [pages]

        def watch(_done: Any) -> None:
            left[0] -= 1
            if not left[0]:
                raise Cut

        return watch

    for pages in (1, 2, 1):
        with pytest.raises(Cut):
            etl.backfill("raw", source=folder, name="fix", watch=after(pages))
    etl.backfill("raw", source=folder, name="fix")
    assert waiting(etl) == [*range(8), *range(100, 108)]


def test_an_item_with_several_ends_runs_once_and_a_live_one_not(app: Stanchion, etl: Pipeline, folder: Path) -> None:
    again, live = (etl.push(13) for _ in range(2))
    etl.drain()
    into(app, folder, keep=True)
    etl.queue("raw").retry(again.id)
    etl.drain()
    into(app, folder, keep=True)
    etl.queue("raw").retry(live.id)
    done = etl.backfill("raw", source=folder)
    assert (done.enqueued, done.left_out) == (1, {"live": 1})


def test_no_archive(etl: Pipeline, folder: Path) -> None:
    etl.push(1)
    with pytest.raises(InvalidInput, match="there is no archive in"):
        etl.backfill("raw", source=folder)
    assert etl.backfills() == []
