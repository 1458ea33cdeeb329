"""Where jobs go, what is merged, and what is refused."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from stanchion import CannotJoin, DuplicateKey, InvalidInput, Push, Stanchion
from stanchion.stores.records.query import Query
from stanchion.stores.registry import absolute_url, open_store
from stanchion.stores.rules.shard_map import ShardMap
from stanchion.stores.shards.map import map_in


def test_partitions_are_where_the_map_says(app: Stanchion, tmp_path: Path) -> None:
    jobs = app.queue("orders").push_many([Push({"n": n}) for n in range(60)])
    app.queue("mail").push({})
    for name, partitions in (("one", {0, None}), ("two", {1, 2, 3})):
        with closing(open_store(f"sqlite:///{tmp_path / name}.db")) as shard:
            held = shard.fetch([job.id for job in jobs])
            assert {job.partition for job in jobs if job.id in held} == partitions - {None}
            assert shard.stats(["mail"], ["states"])["mail"].states.total == (name == "one")
    assert app.queue("orders").size().ready == 60
    assert app.queue("orders").counts().pushed == 60


def test_a_batch_that_is_refused_for_a_key_in_one_shard_is_stored_in_none(app: Stanchion) -> None:
    orders = app.queue("orders")
    for n in range(20):
        key = f"k{n}"
        orders.push({}, key=key)
        size = orders.size().total
        # The others go to each shard, before and after it.
        with pytest.raises(DuplicateKey):
            orders.push_many([*map(Push, range(10)), Push({}, key=key, on_duplicate="raise"), *map(Push, range(10))])
        assert orders.size().total == size


def test_each_partition_keeps_so_many_finished_jobs(app: Stanchion) -> None:
    orders, mail = app.queue("orders"), app.queue("mail")
    for queue in (orders, mail):
        queue.configure(history_max=2)
        queue.push_many(range(60))
        for job in queue.reserve(60):
            job.commit()
    assert app.store.maintain(seconds=60) == []
    assert Counter(job.partition for job in orders.history(limit=100)) == dict.fromkeys(range(4), 2)
    assert len(mail.history(limit=100)) == 2


def test_pages_are_merged_in_order(app: Stanchion) -> None:
    pushed = [job.id for job in app.queue("orders").push_many([Push({"n": n}) for n in range(50)])]
    pushed += [job.id for job in app.queue("mail").push_many([Push({"n": n}) for n in range(20)])]
    found: list[str] = []
    while page := app.find(limit=7, after=found[-1] if found else None):
        found += [job.id for job in page]
    assert found == sorted(pushed, reverse=True)


def test_parts_of_a_query_make_up_the_whole(app: Stanchion) -> None:
    pushed = {job.id for job in app.queue("orders").push_many([Push({"n": n}) for n in range(90)])}
    parts = app.store.partition(Query("live"), 4)
    found = [row.id for part in parts for row in app.store.select(part).rows]
    assert 1 < len(parts) <= 4
    assert sorted(found) == sorted(pushed)


def test_verbs_by_id_find_their_shard(app: Stanchion) -> None:
    jobs = app.queue("orders").push_many([Push({"n": n}, delay=100) for n in range(30)])
    ids = [job.id for job in jobs]
    assert {one.value for one in app.store.retry(ids)} == {"ready"}
    assert {str(state) for state in app.store.cancel(ids)} == {"cancelled"}
    rows = app.store.fetch(ids)
    assert app.store.delete([rows[one].ref for one in ids]) == [True] * 30
    assert app.store.cancel(ids) == [None] * 30


def test_what_can_not_span_shards_is_refused(app: Stanchion) -> None:
    orders, mail = app.queue("orders"), app.queue("mail")
    app.semaphore("smtp", capacity=1)
    orders.push({})
    (job,) = orders.reserve(1)
    mail.push({})
    (other,) = mail.reserve(1)
    for refused in (
        lambda: orders.push({}, limits=["smtp"]),
        lambda: job.move("mail"),
        lambda: other.move("orders"),
        lambda: orders.configure(dead_letter="dead"),
        lambda: mail.configure(dead_letter="orders"),
    ):
        with pytest.raises(InvalidInput, match=r"shards|partitions"):
            refused()
    with pytest.raises(CannotJoin):
        orders.push({}, tx=object())  # type: ignore[arg-type]
    other.move("letters")
    mail.push({}, limits=["smtp"])
    job.commit()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('default = "a"', "default is 'a'"),
        ('default = "a"\n[shards]\na = "memory://"\n[partitions.q]\nb = "0"', "which is no shard"),
        ('default = "a"\n[shards]\na = "memory://"\n[partitions.q]\na = "3-1"', "not '3-1'"),
        ('default = "a"\n[shards]\na = "x://1"\nb = "x://1"', "same URL"),
        ('default = "a"\n[shards]\na = "x://1"\nb = "x://2"\n[partitions.q]\na = "0-1"\nb = "1"', "two shards"),
        ('default = "a"\nmore = 1\n[shards]\na = "x://1"', "unknown|entry"),
        ("default = ", "no TOML"),
    ],
)
def test_a_map_that_contradicts_itself_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "shards.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        map_in(path)


def test_a_missing_map_is_refused(tmp_path: Path) -> None:
    for url in (f"shards:///{tmp_path}/none.toml", "shards://", "shards://here"):
        with pytest.raises(InvalidInput, match=r"shards\.toml|none\.toml"):
            open_store(url)
    assert absolute_url(f"shards:///{tmp_path}/s.toml") == f"shards:///{tmp_path}/s.toml"
    assert not ShardMap("a", {"q#1": "a"}).divides("q")
