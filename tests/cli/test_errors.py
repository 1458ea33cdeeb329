"""Whatever goes wrong: one line, a way out, an exit code, no credentials."""

import socket
import sqlite3
from pathlib import Path

import pytest

from stanchion import Stanchion
from tests.cli.conftest import Run


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_no_store(run: Run) -> None:
    answer = run("jobs", STANCHION_URL="")
    assert answer.code == 2
    assert "STANCHION_URL" in answer.error


@pytest.mark.usefixtures("short_calls")
@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        ("jobs.db", 2, "for a SQLite file give sqlite:///jobs.db"),
        ("oracle://root:hush-hush@localhost/x", 2, "no store understands"),
        ("sqlite:////does/not/exist/jobs.db", 2, "there is no file /does/not/exist/jobs.db"),
        ("postgresql://localhost", 2, "names no database"),
        ("postgresql://me:hush-hush@127.0.0.1:{port}/x", 1, "can't reach the store"),
    ],
)
def test_a_wrong_url(run: Run, url: str, code: int, message: str) -> None:
    answer = run("jobs", "--url", url.format(port=closed_port()))
    assert answer.code == code
    assert message in answer.error
    assert "hush-hush" not in answer.err + answer.out


def test_a_folder_that_is_not_there(run: Run) -> None:
    answer = run("push", "q", "1", "--url", "sqlite:////does/not/exist/jobs.db")
    assert answer.code == 1
    assert "folder" in answer.error


def test_looking_makes_no_file(run: Run, tmp_path: Path) -> None:
    for args in (["jobs"], ["queues"], ["workers"], ["top", "--once"], ["retry", "--queue", "q"], ["pause", "q"]):
        assert run(*args).code == 2
    assert not (tmp_path / "jobs.db").exists()


def test_a_schema_of_another_release(run: Run, tmp_path: Path) -> None:
    run("setup")
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute("UPDATE stanchion_meta SET version = 99")
    for args in (["jobs"], ["setup"]):
        answer = run(*args)
        assert answer.code == 1
        assert "newer than this release" in answer.error


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere:app", "can't import 'nowhere'"),
        ("shop:nothing", "is not a Stanchion app"),
        ("shop:SHOP", "is not a Stanchion app"),
        ("broken:app", "importing 'broken' failed: ZeroDivisionError"),
        (":app", "importing '' failed"),
    ],
)
def test_a_wrong_app(run: Run, tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    answer = run("jobs", "--app", path)
    assert answer.code == 2
    assert message in answer.error


def test_url_and_app_exclude_each_other(run: Run, shop: str, url: str) -> None:
    answer = run("jobs", "--app", shop, "--url", url)
    assert answer.code == 2
    assert "not both" in answer.error


def test_an_unforeseen_error_is_one_line_too(run: Run, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    app.queue("mail").push(1)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("odd\nthing at postgresql://me:hush-hush@host/db password=hush-hush")

    monkeypatch.setattr(Stanchion, "find", fail)
    answer = run("jobs", "--json")
    assert answer.code == 1
    assert answer.error.startswith("error: RuntimeError: odd thing at postgresql://me:***@host/db")
    assert "hush-hush" not in answer.err


@pytest.mark.parametrize("args", [["jobs", "--debug"], ["--debug", "jobs"]])
def test_debug_shows_the_traceback(run: Run, args: list[str]) -> None:
    answer = run(*args)
    assert answer.code == 2
    assert "Traceback (most recent call last)" in answer.err
    assert "error: there is no file" in answer.err
    assert "Traceback" in run("jobs", STANCHION_DEBUG="1").err


def test_wrong_usage(run: Run) -> None:
    assert run("jobs", "--nope").code == 2
    assert run("nope").code == 2
    assert run("show").code == 2
