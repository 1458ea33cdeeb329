import builtins
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run


def test_setup_makes_the_schema_and_repeats(run: Run, tmp_path: Path) -> None:
    assert run("setup").out == f"sqlite:///{tmp_path}/jobs.db is ready\n"
    assert run("setup", "--json").json == {"url": f"sqlite:///{tmp_path}/jobs.db", "ready": True}
    assert (tmp_path / "jobs.db").exists()


def test_setup_sql_changes_nothing(run: Run, tmp_path: Path) -> None:
    script = run("setup", "--sql").out
    assert not (tmp_path / "jobs.db").exists()
    with sqlite3.connect(tmp_path / "by-hand.db") as connection:
        connection.executescript(script)
    assert run("setup", "--sql", "--json").json["sql"] + "\n" == script
    assert run("queues", "--url", f"sqlite:///{tmp_path}/by-hand.db").err == "no queues yet: the first push makes one\n"


def test_setup_sql_of_a_server_needs_no_server(run: Run) -> None:
    assert "CREATE TABLE" in run("setup", "--sql", "--url", "postgresql://nobody@192.0.2.1/db").out


def test_stores_shows_what_each_can_do(run: Run) -> None:
    answer = run("stores", STANCHION_URL="")
    assert answer.code == 0
    assert [line.split()[0] for line in answer.out.splitlines()[:4]] == ["STORE", "memory", "postgresql", "sqlite"]
    for store in run("stores", "--json").json:
        assert store.keys() == {
            *("name", "joins_transactions", "push_wakeup", "wakeup", "atomic_batches", "durable", "processes"),
            *("installed", "missing"),
        }
        assert store["installed"] is True


def test_a_missing_extra_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("psycopg", "stanchion.stores.sql.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    really = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("psycopg"):
            raise ImportError(f"No module named {name!r}")
        return really(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    answer = run("stores")
    assert answer.code == 0
    assert "pip install 'stanchion[postgres]'" in answer.out
    answer = run("jobs", "--url", "postgresql://localhost/db")
    assert answer.code == 1
    assert "pip install 'stanchion[postgres]'" in answer.error
