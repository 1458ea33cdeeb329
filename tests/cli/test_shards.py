"""stanchion shards."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from stanchion import Push, Stanchion
from tests.cli.conftest import Run

IN_MAP = """default = "one"
[shards]
one = "sqlite:///one.db?synchronous=off"
two = "sqlite:///two.db?synchronous=off"
"""
AT_ONCE = ("--settle", "0s", "--wait", "0s")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A map of two shards, the first of which has all partitions."""
    (tmp_path / "shards.toml").write_text(IN_MAP)
    url = f"shards:///{tmp_path}/shards.toml"
    with closing(Stanchion(url)) as app:
        app.queue("orders", partitions=4)
        app.setup()
        app.queue("orders").push_many([Push({"n": n}) for n in range(40)])
    return url


def test_split(run: Run) -> None:
    would = run("shards", "split", "one", "two", "--dry-run", "--json").json
    assert [(one["partition"], one["source"], one["to"]) for one in would] == [
        ("orders#2", "one", "two"),
        ("orders#3", "one", "two"),
    ]
    assert [one["partitions"] for one in run("shards", "--json").json] == ["0-3"]
    moved = run("shards", "split", "one", "two", *AT_ONCE, "--json").json
    assert [one["jobs"] for one in moved] == [one["jobs"] for one in would]
    places = run("shards", "--json").json
    assert [(one["shard"], one["partitions"], one["to"]) for one in places] == [
        ("one", "0-1", None),
        ("two", "2-3", None),
    ]
    assert sum(one["live"] for one in places) == 40
    assert run("shards", "--toml").out == '[partitions."orders"]\n"two" = "2-3"\n'


def test_a_file_with_the_partitions_as_they_are_is_taken(run: Run, tmp_path: Path) -> None:
    run("shards", "move", "orders", "1,3", "two", *AT_ONCE)
    run("push", "orders", "1")
    (tmp_path / "shards.toml").write_text(IN_MAP + run("shards", "--toml").out)
    assert run("push", "orders", "1").code == 0
    (tmp_path / "shards.toml").write_text(IN_MAP + '[partitions.orders]\ntwo = "1"\n')
    assert "that it was set up with" in run("push", "orders", "1").error
    refused = run("setup")
    assert "live jobs in 'orders#3'" in refused.error


def test_a_partition_that_waits(run: Run, url: str) -> None:
    with closing(Stanchion(url)) as app:
        (job, *_) = app.queue("orders").reserve(1, lease=600)
        answer = run("shards", "move", "orders", str(job.partition), "two", *AT_ONCE)
        assert answer.code == 3
        assert f"orders#{job.partition}: 1 of its jobs still run" in answer.err
        assert "waits" in answer.out
        assert run("shards").code == 3
        refused = run("shards", "move", "orders", "0-3", "two", *AT_ONCE)
        assert (refused.code, "on record already" in refused.error) == (2, True)
        assert run("shards", "resume", *AT_ONCE).code == 3
        assert "1 planned moves abandoned" in run("shards", "abandon").out
        assert run("shards", "abandon").code == 1
        assert run("shards", "resume").code == 1
        job.commit()
    assert run("shards", "move", "orders", str(job.partition), "two", *AT_ONCE).code == 0


def test_a_shard_that_was_added_to_the_file(run: Run, tmp_path: Path, url: str) -> None:
    with closing(Stanchion(url)) as app:
        orders = app.queue("orders")
        assert orders.size().ready == 40
        (tmp_path / "shards.toml").write_text(IN_MAP + 'three = "sqlite:///three.db"\n')
        assert run("setup").code == 0
        assert run("shards", "split", "one", "three", *AT_ONCE).code == 0
        app.store.check()  # reads the map
        assert orders.size().ready == 40
        assert {job.partition for job in orders.find(limit=100)} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("split", "one", "three"), "'three' is no shard: the file of the map has one, two"),
        (("split", "three", "one"), "'three' is no shard"),
        (("move", "orders", "4", "two"), "no partition 4"),
        (("move", "orders", "x", "two"), "are a text such as"),
        (("move", "mail", "1", "two"), "has no partitions"),
    ],
)
def test_what_is_refused(run: Run, command: tuple[str, ...], message: str) -> None:
    answer = run("shards", *command)
    assert (answer.code, message in answer.error) == (2, True)


def test_a_store_without_shards(run: Run, tmp_path: Path) -> None:
    answer = run("shards", STANCHION_URL=f"sqlite:///{tmp_path}/one.db")
    assert "this store has no shards" in answer.error
