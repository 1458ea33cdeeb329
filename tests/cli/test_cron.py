from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stanchion import Stanchion
from stanchion.app import tick
from tests.cli.conftest import Run


@pytest.fixture
def app(url: str) -> Iterator[Stanchion]:
    """An app with schedules, which a worker has seen."""
    app = Stanchion(url)
    app.cron("0 3 * * *", tz="Europe/Paris", name="nightly", queue="reports", args=[7])(lambda day: day)
    app.cron("*/15 * * * *", name="tidy", missed="all")(lambda: None)
    tick(app)
    yield app
    app.close()


def undeclared(app: Stanchion) -> None:
    """Move the declarations into the past."""
    app.store.clock_offset = -3600
    for schedule in app.schedules():
        schedule.remove()
    tick(app)
    app.store.clock_offset = 0


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize("args", [("cron",), ("cron", "list")])
def test_lists_schedules(run: Run, args: tuple[str, ...]) -> None:
    answer = run(*args)
    assert answer.code == 0
    heading, nightly, tidy = answer.out.splitlines()
    assert heading.split() == ["NAME", "CRON", "ZONE", "NEXT", "LAST", "STATE"]
    assert nightly.startswith("nightly  0 3 * * *     Europe/Paris")
    assert nightly.count(" 03:00") == 3
    assert nightly.endswith("active")
    assert tidy.split()[0] == "tidy"
    assert answer.err == ""


@pytest.mark.usefixtures("app")
def test_json_shape(run: Run) -> None:
    nightly, tidy = run("cron", "--json").json
    assert nightly.keys() == {
        *("name", "expression", "tz", "missed", "task", "queue", "next", "last", "paused", "declared"),
    }
    assert (nightly["tz"], nightly["queue"], nightly["task"]) == ("Europe/Paris", "reports", "nightly")
    assert (nightly["last"], nightly["paused"], nightly["declared"]) == (None, False, True)
    assert [datetime.fromisoformat(tick).hour for tick in nightly["next"]] == [3, 3, 3]
    assert tidy["missed"] == "all"


def test_shows_the_last_tick(run: Run, app: Stanchion) -> None:
    app.store.clock_offset = 15 * 60
    assert tick(app) >= 1
    app.store.clock_offset = 0
    tidy = run("cron", "list", "--json").json[1]
    assert datetime.fromisoformat(tidy["last"]).minute % 15 == 0
    assert tidy["last"].endswith("Z")
    assert f"{datetime.fromisoformat(tidy['last']):%Y-%m-%d %H:%M}" in run("cron").out


def test_one_that_no_live_worker_declares_is_told(run: Run, app: Stanchion) -> None:
    undeclared(app)
    answer = run("cron", "list")
    assert answer.code == 0
    assert answer.out.count("undeclared") == 2
    assert "nightly is not declared by any live worker" in answer.err
    assert "stanchion cron remove nightly" in answer.err
    assert run("cron", "remove", "nightly", "tidy").err == ""
    assert run("cron").code == 1


def test_no_schedules_is_nothing_found(run: Run) -> None:
    run("setup")
    answer = run("cron")
    assert answer.code == 1
    assert "@app.cron" in answer.err
    assert run("cron", "--json").json == []


def test_pause_and_resume(run: Run, app: Stanchion) -> None:
    assert run("cron", "pause", "nightly", "tidy").out == "paused: nightly, tidy\n"
    assert app.schedule("nightly").paused
    assert "paused" in run("cron").out
    assert run("cron", "resume", "nightly", "--json").json == [{"schedule": "nightly", "paused": False}]
    assert not app.schedule("nightly").paused
    assert app.schedule("tidy").paused


def test_trigger_enqueues_now(run: Run, app: Stanchion) -> None:
    answer = run("cron", "trigger", "nightly")
    job = app.get(answer.out.strip())
    assert job is not None
    assert (job.queue, job.task, job.payload, job.state) == ("reports", "nightly", {"args": [7]}, "ready")
    (found,) = run("cron", "trigger", "tidy", "--json").json
    assert (found["schedule"], found["duplicate"]) == ("tidy", False)
    assert app.drain() == 2


def test_trigger_tells_of_a_key_that_is_taken(run: Run, app: Stanchion) -> None:
    app.cron("@daily", name="once", key="once")(lambda: None)
    tick(app)
    first = run("cron", "trigger", "once")
    again = run("cron", "trigger", "once")
    assert first.out == again.out
    assert "already has its key" in again.err


def test_removing_what_lives_says_that_it_comes_back(run: Run, app: Stanchion) -> None:
    answer = run("cron", "remove", "nightly")
    assert answer.out == "removed: nightly\n"
    assert "pause" in answer.err
    assert [schedule.name for schedule in Stanchion(app.url).schedules()] == ["tidy"]


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize("verb", ["pause", "resume", "trigger", "remove"])
def test_a_mistyped_name_is_refused(run: Run, verb: str) -> None:
    answer = run("cron", verb, "nihgtly")
    assert answer.code == 2
    assert "known: nightly, tidy" in answer.error


def test_next_needs_no_store(run: Run, tmp_path: Path) -> None:
    answer = run("cron", "next", "30 9 * * MON-FRI", "--tz", "Asia/Tokyo", "-n", "7", STANCHION_URL="")
    assert answer.code == 0
    found = [datetime.fromisoformat(line) for line in answer.out.splitlines()]
    assert len(found) == 7
    assert found == sorted(found)
    assert found[0] > datetime.now(UTC)
    assert all((tick.hour, tick.minute, str(tick.utcoffset())) == (9, 30, "9:00:00") for tick in found)
    assert all(tick.weekday() < 5 for tick in found)
    assert len(run("cron", "next", "@daily", "--json").json) == 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("61 * * * *",), "bad minute"),
        (("* * * *",), "4 fields"),
        (("* * * * *", "--tz", "Mars"), "no time zone"),
        (("* * * * *", "-n", "0"), "--count"),
    ],
)
def test_next_refuses_what_makes_no_sense(run: Run, args: tuple[str, ...], message: str) -> None:
    answer = run("cron", "next", *args)
    assert answer.code == 2
    assert message in answer.error


def test_the_app_names_its_own_schedules(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plans.py").write_text(
        "from stanchion import Stanchion\n\napp = Stanchion('sqlite:///own.db')\n\n\n"
        "@app.cron('0 6 * * *', name='early')\ndef early():\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    run("setup", STANCHION_URL="sqlite:///own.db")
    answer = run("cron", "list", "--app", "plans:app")
    assert answer.code == 0
    assert answer.out.splitlines()[1].endswith("undeclared")
