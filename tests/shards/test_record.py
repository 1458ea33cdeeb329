"""The map on record: no process uses another one by mistake, and no jobs are left behind."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from stanchion import InvalidInput, Push, Stanchion
from tests.shards.conftest import NewMap


@pytest.fixture
def moved(url: str, tmp_path: Path) -> str:
    """A map that gives partition 3 to the default shard."""
    path = tmp_path / "moved.toml"
    path.write_text((tmp_path / "shards.toml").read_text().replace("1-3", "1-2"))
    assert url
    return f"shards:///{path}"


def test_another_map_is_refused(moved: str) -> None:
    with closing(Stanchion(moved)) as app, pytest.raises(InvalidInput, match="that it was set up with"):
        app.queue("orders").push({})


def test_a_map_that_leaves_jobs_behind_is_refused(url: str, moved: str) -> None:
    with closing(Stanchion(url)) as app:
        orders = app.queue("orders")
        orders.push_many([Push({"n": n}) for n in range(40)])
        with closing(Stanchion(moved)) as other:
            with pytest.raises(InvalidInput, match=r"shard 'two' has \d+ live jobs in 'orders#3'"):
                other.setup()
            for job in iter(lambda: orders.pop(), None):
                assert job.queue == "orders"
            other.setup()
            other.queue("orders").push({})


def test_a_shard_is_not_taken_for_another(url: str, new_map: NewMap, tmp_path: Path) -> None:
    assert url
    crossed = new_map(one=f"sqlite:///{tmp_path / 'two.db'}", two=f"sqlite:///{tmp_path / 'one.db'}")
    with closing(Stanchion(crossed)) as app:
        with pytest.raises(InvalidInput, match="is 'two' in the map"):
            app.queue("orders").push({})
        with pytest.raises(InvalidInput, match="shard 'one' was set up as 'two'"):
            app.setup()
