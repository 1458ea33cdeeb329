"""Tables in folders as targets of stations: items move to the table's queue, and its workers write each once."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from stanchion import Pipeline, Send, Stanchion, Table
from stanchion.errors import InvalidInput, MissingExtra, StanchionError, StoreUnavailable
from stanchion.lake.delta import DeltaTarget, OpenTable
from stanchion.lake.files import DeltaFiles
from stanchion.lake.parquet import ParquetFolder
from stanchion.pipelines.plan import TableStation
from stanchion.pipelines.tables.folder import FolderTarget

KINDS = ("delta", "parquet")
both = pytest.mark.parametrize("kind", KINDS)


@dataclass
class Day:
    n: int
    at: datetime
    day: date
    amount: Decimal
    tags: list[str]
    note: str | None = None


AT = datetime(2031, 5, 1, 8, tzinfo=UTC)


def lake(kind: str, folder: Path, **options: Any) -> Table:
    """Return a table in a folder."""
    return Table(f"{kind}://{folder}/days", **options)


def numbers(etl: Pipeline, station: str = "raw") -> Counter[int]:
    """Return how often each number is in the table."""
    return Counter(etl.results(station, as_="arrow").column("n").to_pylist())  # type: ignore[attr-defined]


def letters(etl: Pipeline) -> list[str]:
    return [job.errors[-1]["error"] for job in etl.dead_letters.find(limit=1000)]


@both
@pytest.mark.parametrize("chunked", [False, True])
def test_each_item_is_a_row_of_its_types(etl: Pipeline, kind: str, chunked: bool, tmp_path: Path) -> None:
    @etl.station("raw", to=lake(kind, tmp_path))
    def raw(item: dict[str, Any]) -> Day | None:
        return Day(item["n"], AT, AT.date(), Decimal("12.5"), ["a"]) if item["n"] % 5 else None

    items = [{"n": n} for n in range(20)]
    etl.push_chunks(items) if chunked else etl.push_many(items)
    etl.drain()
    found = etl.results("raw", as_="arrow")
    assert isinstance(found, pa.Table)
    assert [str(found.schema.field(name).type) for name in ("at", "day", "amount", "tags")] == [
        *("timestamp[us, tz=UTC]", "date32[day]", "decimal128(38, 18)"),
        str(pa.list_(pa.string())),
    ]
    assert sorted(found.column("n").to_pylist()) == [n for n in range(20) if n % 5]
    assert set(found.column("at").to_pylist()) == {AT}
    assert set(found.column("amount").to_pylist()) == {Decimal("12.5")}
    assert found.column("note").null_count == found.num_rows == 16
    keys = set(zip(found.column("job_id").to_pylist(), found.column("item").to_pylist(), strict=True))
    assert len(keys) == 16
    assert len({job for job, _ in keys}) == (1 if chunked else 16)
    assert etl.results("days", as_="arrow").num_rows == 16  # type: ignore[attr-defined]
    assert etl.results("raw", as_="arrow", limit=3).num_rows == 3  # type: ignore[attr-defined]
    assert isinstance(etl.results("raw"), pd.DataFrame)
    assert [(one.station, one.came, one.out) for one in etl.status().stations] == [("raw", 20, 16), ("days", 16, 16)]
    assert etl.status().empty


@both
def test_others_can_read_the_folder(etl: Pipeline, kind: str, tmp_path: Path) -> None:
    etl.station("raw", to=lake(kind, tmp_path, schema="n bigint"))(lambda item: item)
    etl.push_chunks([{"n": n} for n in range(10)], size=5)
    etl.push({"n": 10})
    etl.drain()
    folder = tmp_path / "days"
    found = DeltaTable(str(folder)).to_pyarrow_table() if kind == "delta" else pq.read_table(folder)
    assert sorted(pa.table(found).column("n").to_pylist()) == list(range(11))


@both
@pytest.mark.parametrize("takes", [None, "arrow", "pandas"])
def test_an_item_that_does_not_fit_is_a_dead_letter_of_its_station(
    etl: Pipeline, kind: str, takes: Any, tmp_path: Path
) -> None:
    values: list[Any] = [{"n": 1}, {"n": None}, {"n": 3}]
    values += [] if takes else [{"n": "2"}, {"m": 1}, "text", {"n": 2**63}, {"n": 4, "more": 1}]
    etl.station("raw", to=lake(kind, tmp_path, schema="n bigint not null"), takes=takes, max_attempts=1)(
        lambda item: item
    )
    etl.push_chunks(values)
    etl.push_many(values)
    etl.drain()
    assert numbers(etl) == {1: 2, 3: 2}
    found = etl.dead_letters.find(limit=100)
    assert {job.dead_from for job in found} == {"etl.raw"}
    assert len(found) == 2 * (len(values) - 2)
    assert all("does not fit table" in error for error in letters(etl))


@both
def test_stations_and_tables_in_several_places(etl: Pipeline, kind: str, tmp_path: Path) -> None:
    near, far = Table("near", schema="n bigint"), lake(kind, tmp_path, schema="n bigint", name="far")

    @etl.station("raw", to=["end", near, far])
    def raw(item: dict[str, Any]) -> Send | list[Send]:
        if item["n"] % 3 == 0:
            return Send("far")
        return [Send("near", {"n": item["n"]}), Send("far", {"n": 100 + item["n"]}), Send("end")]

    etl.station("end")(lambda item: item["n"])
    items = [{"n": n} for n in range(6)]
    etl.push_chunks(items)
    etl.push_many(items)
    etl.drain()
    assert numbers(etl, "far") == dict.fromkeys((0, 3, 101, 102, 104, 105), 2)
    assert letters(etl) == []
    with pytest.raises(InvalidInput, match="sends its items on"):
        etl.results("raw")


def test_two_stations_may_share_a_table(etl: Pipeline, tmp_path: Path) -> None:
    table = lake("delta", tmp_path, schema="n bigint")
    for name in ("one", "two"):
        etl.station(name, to=table, entry=True)(lambda item: item)
        etl.push({"n": len(name)}, name)
    etl.drain()
    assert numbers(etl, "days") == {3: 2}
    with pytest.raises(InvalidInput, match="write to a table 'days' with other fields"):
        etl.station("three", to=lake("delta", tmp_path, schema="m bigint"))(lambda item: item)
    with pytest.raises(InvalidInput, match="are both named 'one'"):
        etl.station("three", to=lake("delta", tmp_path, schema="m bigint", name="one"))(lambda item: item)


@both
def test_a_table_of_others_that_does_not_fit(app: Stanchion, kind: str, tmp_path: Path) -> None:
    for n, schema in enumerate(["n bigint", "n string", "n bigint, more string"]):
        etl = app.pipeline(f"etl{n}")
        etl.station("raw", to=lake(kind, tmp_path, schema=schema))(lambda item: item)
        etl.push({"n": 1})
        if n == 0:
            etl.drain()
            continue
        why = "its column n is of type" if n == 1 else "no column more"
        with pytest.raises(InvalidInput, match=f"table {kind}://.*/days does not fit the results: .*{why}"):
            etl.drain()


@both
def test_a_folder_that_is_away_is_waited_for(etl: Pipeline, app: Stanchion, kind: str, tmp_path: Path) -> None:
    etl.station("raw", to=lake(kind, tmp_path, schema="n bigint"))(lambda item: item)
    etl.push({"n": 1})
    etl.drain()
    folder = tmp_path / "days"
    folder.rename(tmp_path / "away")
    folder.write_text("no folder")
    etl.push({"n": 2})
    etl.drain()
    (job,) = app.queue("etl.days").find(state="scheduled")
    assert "can't be written now" in job.errors[-1]["error"]
    folder.unlink()
    (tmp_path / "away").rename(folder)
    app.store.clock_offset += 400
    etl.drain()
    assert numbers(etl) == {1: 1, 2: 1}


def test_addresses_and_fields_are_checked(etl: Pipeline, tmp_path: Path) -> None:
    for address in ("delta://lake/days", "parquet:days", "s3://lake/days", "delta:///", "delta:///a?b=1"):
        with pytest.raises(InvalidInput, match=r"named by letters|has an address such as delta:///lake/daily"):
            Table(address)
    with pytest.raises(InvalidInput, match=r"needs a name of letters.*name='daily'"):
        Table("delta:///lake/days of.may")
    assert Table("delta:///lake/days of.may/", name="may").address == "delta:///lake/days of.may"
    with pytest.raises(InvalidInput, match="can't return a field of this name"):
        etl.station("raw", to=lake("delta", tmp_path, schema="job_id string"))(lambda item: item)
    with pytest.raises(InvalidInput, match="names no class with fields"):
        etl.station("raw", to=lake("delta", tmp_path))(lambda item: item)
    with pytest.raises(InvalidInput, match="one current output of each key"):
        etl.station("raw", to=lake("delta", tmp_path, schema="n int"), key="n")(lambda item: item)


@both
def test_without_the_libraries(etl: Pipeline, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    etl.station("raw", to=lake(kind, tmp_path, schema="n bigint"))(lambda item: item)
    etl.push({"n": 1})
    for module in ("deltalake", "stanchion.lake.parquet"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    extra = "delta" if kind == "delta" else "chunks"
    with pytest.raises(MissingExtra, match=rf"pip install 'stanchion\[{extra}\]'"):
        etl.drain()


@both
def test_seen_in_the_plan_and_the_graph(etl: Pipeline, kind: str, tmp_path: Path) -> None:
    etl.station("raw", to=lake(kind, tmp_path, schema="n bigint"), stored=False)(lambda item: item)
    (_, edge) = etl.plan().edges
    assert (edge.source, edge.target) == ("raw", "days")
    assert edge.reasons == ("days is a table outside of the store",)
    assert "days (table)" in etl.graph("text")
    assert f"{kind}://" in etl.svg()


# -- deaths, one after another


class Died(BaseException):
    """The process is gone; nothing after this is done."""


STEPS: dict[str, list[tuple[type, str]]] = {
    "delta": [(DeltaTarget, "open"), (DeltaFiles, "close"), (OpenTable, "append"), (FolderTarget, "append")],
    "parquet": [(ParquetFolder, "_write"), (FolderTarget, "append")],
}


def deaths() -> Iterator[Any]:
    """Yield each step, before and after it."""
    for kind, steps in STEPS.items():
        for owner, name in steps:
            for moment in ("before", "after"):
                yield pytest.param(kind, owner, name, moment, id=f"{kind}-{moment}-{owner.__name__}.{name}")


def declared(app: Stanchion, kind: str, folder: Path) -> Pipeline:
    """Return the pipeline as another process declares it."""
    etl = app.pipeline("etl")
    etl.station("raw", to=lake(kind, folder, schema="n bigint"))(lambda item: item)
    return etl


@pytest.mark.parametrize(("kind", "owner", "name", "moment"), list(deaths()))
@pytest.mark.parametrize("compacted", [False, True])
def test_a_worker_that_dies_at_a_step(
    app: Stanchion,
    kind: str,
    owner: type,
    name: str,
    moment: str,
    compacted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    etl = declared(app, kind, tmp_path)
    etl.push_chunks([{"n": n} for n in range(40)], size=10)
    etl.push({"n": 40})
    call: Callable[..., Any] = getattr(owner, name)
    if name == "open":  # as it is opened to be made, too
        etl.drain()
        etl.push_chunks([{"n": n} for n in range(41, 60)], size=10)

    def fatal(*args: Any, **options: Any) -> Any:
        if moment == "before":
            raise Died
        call(*args, **options)
        raise Died

    for _ in range(2):
        monkeypatch.setattr(owner, name, fatal)
        with pytest.raises(Died):
            declared(Stanchion(store=app.store), kind, tmp_path).drain()
        monkeypatch.undo()
        if compacted and kind == "delta" and (tmp_path / "days/_delta_log").exists():
            DeltaTable(str(tmp_path / "days")).optimize.compact()
        app.store.clock_offset += 1000
        app.store.recover()
        app.store.clock_offset += 1000
    last = declared(Stanchion(store=app.store), kind, tmp_path)
    last.drain()
    assert numbers(last) == dict.fromkeys(range(60 if name == "open" else 41), 1)
    assert letters(last) == []
    assert last.status().empty


@both
def test_a_worker_that_wakes_up_after_its_lease(
    app: Stanchion, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one has written the same job meanwhile: between the look at the table and the commit of the first."""
    etl = declared(app, kind, tmp_path)
    etl.push_chunks([{"n": n} for n in range(10)])
    owner, name = (OpenTable, "append") if kind == "delta" else (pq, "write_table")
    call = getattr(owner, name)

    def late(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(owner, name, call)
        app.store.clock_offset += 1000
        app.store.recover()
        app.store.clock_offset += 1000
        other = declared(Stanchion(store=app.store), kind, tmp_path)
        other.drain()
        assert numbers(other) == dict.fromkeys(range(10), 1)
        return call(*args, **options)

    monkeypatch.setattr(owner, name, late)
    with suppress(StanchionError):
        etl.drain()
    assert numbers(etl) == dict.fromkeys(range(10), 1)
    assert etl.status().empty


def test_threads_that_commit_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = FolderTarget(lake("delta", tmp_path, schema="n bigint"), _schema("n bigint"))
    target.prepare()
    began, first, call = threading.Event(), threading.Event(), OpenTable.append
    commits: list[int] = []

    def slow(self: OpenTable, files: Any, once: Any) -> bool:
        commits.append(len(files))
        first.set()
        assert began.wait(60)
        return call(self, files, once)

    monkeypatch.setattr(OpenTable, "append", slow)
    threads = [threading.Thread(target=target.append, args=(f"job-{n}", {"n": n})) for n in range(6)]
    threads[0].start()
    assert first.wait(60)
    for one in threads[1:]:
        one.start()
    while len(target._writer()._waiting) < 5:  # type: ignore[attr-defined]
        pass
    began.set()
    for one in threads:
        one.join()
    assert commits == [1, 5]
    assert sorted(target.read(None).column("n").to_pylist()) == list(range(6))


def test_an_error_of_a_commit_fails_all_of_its_jobs(tmp_path: Path) -> None:
    target = FolderTarget(lake("delta", tmp_path, schema="n bigint"), _schema("n bigint"))
    target.prepare()
    os.rename(tmp_path / "days", tmp_path / "away")
    (tmp_path / "days").write_text("no folder")
    with pytest.raises(StoreUnavailable, match="can't be written now"):
        target.append("a", {"n": 1})
    (tmp_path / "days").unlink()
    os.rename(tmp_path / "away", tmp_path / "days")
    target.append("a", {"n": 1})
    target.append("a", {"n": 1})
    assert target.read(None).column("n").to_pylist() == [1]


def test_unfinished_files_are_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    etl = declared(Stanchion("memory://"), "parquet", tmp_path)
    folder, write, seen = tmp_path / "days", pq.write_table, list[Path]()

    def watched(rows: Any, place: Any, **options: Any) -> None:
        Path(place).write_text("half")
        seen.extend(folder.glob("[!._]*"))
        write(rows, place, **options)

    monkeypatch.setattr(pq, "write_table", watched)
    etl.push({"n": 1})
    etl.drain()
    assert seen == []
    abandoned = folder / ".part-abandoned"
    abandoned.write_text("half")
    os.utime(abandoned, (0, 0))
    (folder / ".part-of-now").write_text("half")
    declared(Stanchion("memory://"), "parquet", tmp_path).drain()
    assert [one.name for one in folder.glob(".part-*")] == [".part-of-now"]


def _schema(ddl: str) -> Any:
    from stanchion.schemas.models import schema_from

    return schema_from(ddl)


def test_a_chunk_that_lost_its_worker_stays_whole(app: Stanchion, tmp_path: Path) -> None:
    """Its id names its rows, so that it must not be cut into jobs with other ids."""
    from stanchion.pipelines.pipeline import plan_of

    etl = declared(app, "delta", tmp_path)
    station = plan_of(etl).station("days")
    assert isinstance(station, TableStation)
    assert station.of_chunk(None) is station  # type: ignore[arg-type]


def test_a_commit_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process adds rows of another job between the look at the table and the commit."""
    mine, other = (FolderTarget(lake("delta", tmp_path, schema="n bigint"), _schema("n bigint")) for _ in range(2))
    mine.prepare()
    call = OpenTable.append

    def late(self: OpenTable, files: Any, once: Any) -> bool:
        monkeypatch.setattr(OpenTable, "append", call)
        other.append("other", {"n": 2})
        return call(self, files, once)

    monkeypatch.setattr(OpenTable, "append", late)
    mine.append("mine", {"n": 1})
    assert sorted(mine.read(None).column("n").to_pylist()) == [1, 2]


@pytest.mark.parametrize("compacted", [False, True])
def test_jobs_are_found_in_files(tmp_path: Path, compacted: bool) -> None:
    target = FolderTarget(lake("delta", tmp_path, schema="n bigint"), _schema("n bigint"))
    jobs = [f"01a22e76-1c4d-76e6-b5c6-57a739d3e1{n}" for n in range(10, 16)]
    for job in jobs[1:5]:
        target.append(job, {"n": 1})
    if compacted:
        DeltaTable(str(tmp_path / "days")).optimize.compact()
    table = DeltaTarget(tmp_path / "days", target._columns()).open()
    for wanted in (jobs[1:2], jobs[2:3], jobs[4:5], jobs, jobs[:2], jobs[4:], jobs[:1], jobs[5:]):
        assert table.named("job_id", wanted) == set(wanted) & set(jobs[1:5])


@pytest.mark.parametrize("url", ["redis_url", "mongo_url"])
def test_stores_without_tables_point_to_folders(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> None:
    name = "redis" if url == "redis_url" else "mongodb"
    with Stanchion(request.getfixturevalue(url)) as app:
        app.setup()
        refused = app.pipeline("refused")
        refused.station("raw", to=Table("days", schema="n bigint"))(lambda item: item)
        refused.push({"n": 1})
        with pytest.raises(InvalidInput, match=rf"the {name} store has no tables in its transactions; use a table in"):
            refused.drain()
        assert refused.status().stations[0].depth.ready == 1
        etl = declared(app, "delta", tmp_path)
        etl.push_chunks([{"n": n} for n in range(5)])
        etl.push({"n": 5})
        etl.drain()
        assert numbers(etl) == dict.fromkeys(range(6), 1)
        assert etl.status().empty
