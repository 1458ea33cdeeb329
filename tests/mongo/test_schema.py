"""The collections and their indexes: made, made again, checked, and printed."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database

from stanchion.errors import SchemaMismatch
from stanchion.stores.mongo.client import schema
from stanchion.stores.protocol import Store
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import QUEUE, claim, counts_of, new_job, sizes_of, worker
from tests.mongo.acts import purged


@pytest.fixture
def store(mongo_url: str) -> Iterator[Store]:
    """A store on an empty database."""
    with closing(open_store(mongo_url)) as store:
        yield store


@pytest.fixture
def collections(mongo_url: str) -> Iterator[Database[dict[str, Any]]]:
    client: MongoClient[dict[str, Any]]
    with MongoClient(mongo_url) as client:
        yield client.get_default_database()


def test_a_database_without_is_told(store: Store) -> None:
    with pytest.raises(SchemaMismatch, match="stanchion setup"):
        store.check()


def test_setup_is_safe_to_repeat_while_jobs_are_there(store: Store) -> None:
    store.setup()
    store.check()
    store.push([new_job(), new_job(key="k")])
    claim(store, worker="w")
    store.beat([worker("w")])
    store.setup()
    store.check()
    assert sizes_of(store, QUEUE).total == 2


@pytest.mark.parametrize(("version", "word"), [(0, "stanchion setup"), (99, "pip install -U")])
def test_another_version_is_told(store: Store, collections: Database[dict[str, Any]], version: int, word: str) -> None:
    store.setup()
    collections.stanchion_meta.update_one({}, {"$set": {"version": version}})
    with pytest.raises(SchemaMismatch, match=word):
        store.check()
    if version:
        with pytest.raises(SchemaMismatch, match=word):
            store.setup()
    else:
        store.setup()
        store.check()


def test_the_script_names_all_that_setup_makes(store: Store, collections: Database[dict[str, Any]]) -> None:
    steps = store.setup(dry_run=True)
    assert store.setup() == steps
    assert store.setup() == store.setup(dry_run=True) == []
    script = "\n".join(steps)
    for name in collections.list_collection_names():
        assert f"db.{name}." in script or f'createCollection("{name}"' in script
        for index, made in collections[name].index_information().items():
            assert index == "_id_" or f'"name": "{index}"' in script
            assert not made.get("unique") or '"unique": true' in script


def test_history_expires_a_day_after_the_queue_s_ttl_of_now(
    store: Store, collections: Database[dict[str, Any]]
) -> None:
    store.setup()
    job = new_job()
    store.push([job])
    store.cancel([job.id])

    def seconds() -> float:
        found = collections.stanchion_jobs.find_one({"_id": job.id}) or {}
        expires_at: datetime = found["expires_at"]
        return expires_at.replace(tzinfo=UTC).timestamp() - int(found["finished_at"]) / 1e6

    assert seconds() == pytest.approx((7 + 1) * 86_400, abs=0.01)
    store.configure(QUEUE, {"history_ttl": 30 * 86_400.0})
    assert seconds() == pytest.approx((30 + 1) * 86_400, abs=0.01)
    store.configure(QUEUE, {"history_ttl": 1e15})
    assert seconds() > 1e9
    store.retry([job.id])
    assert "expires_at" not in (collections.stanchion_jobs.find_one({"_id": job.id}) or {})


def test_names_may_be_anything_that_the_door_lets_in(store: Store) -> None:
    store.setup()
    for name in ("a.b", "$where", "a$b", "__proto__", "é ⚙", "x" * 200):
        store.push([new_job(queue=name, key=name, tenant=name, task=name)])
        store.configure(name, {"dead_letter": "$dead.letters"})
        (row,) = claim(store, queue=name)
        assert (row.queue, row.key, row.tenant, row.task) == (name, name, name, name)
        assert counts_of(store, name).pushed == 1
        store.maintain()
        assert counts_of(store, name).reserved == 1


def test_times_are_looked_up_in_the_indexes_that_hold_them(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may not use an index of the documents with a time, unless it is told that there is one."""
    store.setup()
    kept = {
        key
        for indexes in schema.INDEXES.values()
        for index in indexes
        for key in index.options.get("partialFilterExpression", {})
    }
    asked: list[tuple[str, Any]] = []

    def note(wanted: Any) -> None:
        if isinstance(wanted, list):
            for one in wanted:
                note(one)
        elif isinstance(wanted, dict):
            asked.extend((key, one) for key, one in wanted.items() if key in kept and isinstance(one, dict))
            note(list(wanted.values()))

    def heard(does: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            note(list(args[1:]))
            return does(*args, **options)

        return call

    for name in ("find", "aggregate", "distinct", "delete_many", "update_many"):
        monkeypatch.setattr(Collection, name, heard(getattr(Collection, name)))
    store.push([new_job(), new_job()])
    (job,) = claim(store)
    store.settle([Commit(job.lease)])
    assert purged(store, QUEUE) == 1
    store.recover()
    store.maintain()
    ranges = [(key, one) for key, one in asked if "$lte" in one or "$lt" in one]
    assert {key for key, _ in ranges} >= {"lease_until", "finished_at", "assembling", "used_at"}
    assert [one for one in ranges if "$exists" not in one[1] and "$gte" not in one[1]] == []
