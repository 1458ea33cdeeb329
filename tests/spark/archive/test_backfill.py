"""Backfills over an archive."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stanchion import Pipeline, Send, Stanchion
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.values.framing import as_text, chunk_with
from stanchion.errors import InvalidInput
from stanchion.pipelines.backfilling import run as backfill_run
from stanchion.spark import archive
from stanchion.spark.archiving.replay import copy_of
from stanchion.stores.records.jobs import JobRow


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


def test_chunks_and_kept_payloads_come_from_the_archive(app: Stanchion, folder: Path) -> None:
    etl = app.pipeline("chunked")
    etl.station("raw", to="clean")(lambda item: {**item, "raw": True})

    @etl.station("clean", to=["odd", "even"], max_attempts=1, keep_arrival=True)
    def clean(item: Any) -> Send:
        if item["n"] == 3:
            raise ValueError("three")
        return Send("odd" if item["n"] % 2 else "even", item["n"])

    etl.station("odd")(lambda n: n)
    etl.station("even")(lambda n: n)
    (whole,) = etl.push_chunks([{"n": n} for n in range(20, 30, 2)])  # all go the same way
    (divided,) = etl.push_chunks([{"n": n} for n in range(10)])
    single = etl.push({"n": 100})
    etl.drain()
    into(app, folder)
    assert [job.state for job in etl.find()] == ["dead"]  # letters stay
    for station, count in (("raw", 16), ("clean", 16), ("even", 11)):
        found = etl.backfill(station, source=folder, dry_run=True)
        assert (station, found.enqueued, found.left_out) == (station, count, {})
    etl.backfill("clean", source=folder)
    copies = {job.origin: job for job in etl.queue("clean").find(state="ready")}
    assert {one: job.items for one, job in copies.items()} == {whole.id: 5, divided.id: 10, single.id: None}
    assert list(copies[whole.id].payload) == [{"n": n, "raw": True} for n in range(20, 30, 2)]
    assert copies[single.id].payload == {"n": 100, "raw": True}
    etl.drain()
    results = [job.result for name in ("odd", "even") for job in etl.queue(name).find(state="done", limit=100)]
    assert sum(len(one) if isinstance(one, Chunk) else 1 for one in results) == 15


def test_a_copy_of_an_archived_chunk_is_a_chunk() -> None:
    chunk = chunk_with(3, b"\x00 the body")
    row: dict[str, Any] = {**JobRow("1", "q", 0, "done", 0, 0, 0, 0, as_text(chunk))._asdict(), "places": None}
    assert copy_of({**row, "chunk": None}, "2").payload == chunk  # as archives of earlier releases have it
    assert copy_of({**row, "chunk": row, "payload": "7"}, "2").payload == chunk
    assert copy_of({**row, "chunk": None, "arrival_payload": '"came"'}, "2").payload == '"came"'


def test_a_copy_of_some_items_keeps_their_names_and_types() -> None:
    """Of those that came to the queue: the payload had lost one of them there, and was changed."""
    came = Chunk.of_table(pa.table({"n": pa.array([0, 10, 20, 30], pa.int16())})).named("root", [4, 5, 6, 7])
    now = Chunk.of([{"m": place} for place in (7, 4, 5)]).named("root", [7, 4, 5])
    row: dict[str, Any] = {**JobRow("1", "q", 0, "done", 0, 0, 0, 0, "")._asdict(), "places": [0, 2]}
    texts = {**row, "payload": as_text(now.encoded()), "arrival_payload": as_text(came.encoded())}
    copy = Chunk.decoded(copy_of({**row, "chunk": texts}, "2").payload)  # type: ignore[arg-type]
    assert copy.names("2") == ["root/7", "root/5"]
    assert copy.values == [{"n": 30}, {"n": 10}]
    assert copy.content().table.schema == came.content().table.schema
    assert copy_of({**row, "chunk": texts, "places": [1]}, "2").payload == '{"n":0}'
    pushed = {**texts, "payload": as_text(Chunk.of([1, 2, 3]).encoded()), "arrival_payload": None}
    part = Chunk.decoded(copy_of({**row, "chunk": pushed}, "2").payload)  # type: ignore[arg-type]
    assert (part.names("2"), part.values) == (["1/0", "1/2"], [1, 3])
    elsewhere = {**texts, "payload": as_text(now.named("root", [70, 40, 50]).encoded())}
    assert copy_of({**row, "chunk": elsewhere}, "2").payload == came.encoded()
    single = {**texts, "arrival_payload": "1"}
    assert copy_of({**row, "chunk": single}, "2").payload == "1"


def test_no_archive(etl: Pipeline, folder: Path) -> None:
    etl.push(1)
    with pytest.raises(InvalidInput, match="there is no archive in"):
        etl.backfill("raw", source=folder)
    assert etl.backfills() == []
