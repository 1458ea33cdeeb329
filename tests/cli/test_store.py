import builtins
import importlib.util
import sqlite3
import sys
from importlib import import_module
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
    assert (
        run("queues", "--url", f"sqlite:///{tmp_path}/by-hand.db").err == "no queues yet: the first push creates one\n"
    )


def test_setup_sql_of_a_server_needs_no_server(run: Run) -> None:
    assert "CREATE TABLE" in run("setup", "--sql", "--url", "postgresql://nobody@192.0.2.1/db").out


def test_stores_shows_what_each_can_do(run: Run) -> None:
    answer = run("stores", STANCHION_URL="")
    assert answer.code == 0
    stores = ["grpc", "mariadb", "memory", "mongodb", "postgresql", "redis", "sqlite"]
    assert [line.split()[0] for line in answer.out.splitlines()[:8]] == ["STORE", *stores]
    for store in run("stores", "--json").json:
        assert store.keys() == {
            *("name", "joins_transactions", "push_wakeup", "wakeup", "atomic_batches", "durable", "processes", "arrow"),
            *("atomic_pushes", "feed", "claims_by_id", "prepared_jobs", "extra", "schemes", "installed", "missing"),
        }
        assert store["installed"] is store["claims_by_id"] is True
        assert (store["extra"] is None) == (store["name"] in ("memory", "sqlite"))
    assert run("stores", "--json").json[1]["schemes"] == ["mysql", "mariadb"]


EXTRAS = {
    "postgresql": ("postgres", "psycopg", "stanchion.stores.postgres.dialect"),
    "mysql": ("mysql", "pymysql", "stanchion.stores.mariadb.dialect"),
    "mongodb": ("mongo", "pymongo", "stanchion.stores.mongo"),
    "redis": ("redis", "redis", "stanchion.stores.redis"),
}


@pytest.mark.parametrize("scheme", EXTRAS)
def test_a_missing_extra_is_said(run: Run, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    extra, driver, module = EXTRAS[scheme]
    parent, _, child = module.rpartition(".")
    # What is there before is there again afterwards, in its place in its package too.
    monkeypatch.setattr(import_module(parent), child, import_module(module))
    for name in [name for name in sys.modules if f"{name}.".startswith((f"{driver}.", f"{module}"))]:
        monkeypatch.delitem(sys.modules, name)
    really, really_find = builtins.__import__, importlib.util.find_spec

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if f"{name}.".startswith(f"{driver}."):
            raise ImportError(f"No module named {name!r}")
        return really(name, *rest, **named)

    def find_nothing(name: str, *rest: Any) -> Any:
        return None if f"{name}.".startswith(f"{driver}.") else really_find(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.setattr(importlib.util, "find_spec", find_nothing)
    answer = run("stores", "--json")
    assert answer.code == 0
    missing = {store["extra"]: store["missing"] for store in answer.json if not store["installed"]}
    assert missing == {extra: f"pip install 'stanchion[{extra}]'"}
    assert f"needs: pip install 'stanchion[{extra}]'" in run("stores").out
    answer = run("jobs", "--url", f"{scheme}://localhost/db")
    assert answer.code == 1
    assert f"pip install 'stanchion[{extra}]'" in answer.error
