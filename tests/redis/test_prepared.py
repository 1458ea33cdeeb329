"""Prepared jobs that are staged and published by processes that die at any step on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pytest

from stanchion.core.ids import new_ids
from stanchion.stores.records.prepared import PlainColumns, Prepared
from stanchion.stores.records.staging import Publication
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.rules import prepared as rules
from tests.redis.conftest import Open
from tests.redis.deaths import Way, at_every_call, ways
from tests.redis.test_staging import (
    ALSO,
    INTO,
    VALUE,
    WRITE,
    at_rest,
    forgetful,
    new_jobs,
    run_out,
    run_to_the_end,
)

JOBS = 6


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a few jobs be several portions."""
    monkeypatch.setattr(rules, "_BYTES", 250)


def prepared(store: RedisStore, number: int, queue: str = INTO) -> list[Prepared]:
    return store.prepare(PlainColumns(queue, pa.array(new_ids(number)), pa.array(["{}"] * number)))


class Given(NamedTuple):
    publication: Publication
    carried: Sequence[Prepared]


def staged(store: RedisStore) -> Given:
    """Stage jobs of all kinds in several pieces; return their publication."""
    forgetful(store)
    store.stage(WRITE, "a", new_jobs(1))
    store.stage_prepared(WRITE, "a", prepared(store, 3))
    store.stage_prepared(WRITE, "b", prepared(store, 1, ALSO))
    store.stage_prepared(WRITE, "lost", prepared(store, 1))
    return Given(Publication(WRITE, (("a", 4), ("b", 1)), VALUE), prepared(store, 1))


def publish(store: RedisStore, given: Given) -> bool:
    return store.publish_prepared(*given)


def nothing_staged(store: RedisStore) -> None:
    """Check that no key of the write is left."""
    at_rest(store)
    keys = store.server.keys
    assert store.server.command("ZCARD", keys.own("stages")) == 0
    names = ("attempts", "numbers", "used_at", "prepared:a", "prepared:b", "prepared:lost", "ids:a", "pieces:a")
    assert [name for name in names if store.server.command("EXISTS", keys.stage(WRITE) + name)] == []


@pytest.mark.parametrize("way", ["before", pytest.param("lost", marks=pytest.mark.nightly)])
def test_each_job_is_stored_once_or_none(opened: Open, url: str, way: Way) -> None:
    stored = set[int]()
    for scene in at_every_call(opened, url, way, staged, publish):
        store = scene.witness
        begun = bool(store.values("stream"))
        assert begun or scene.died
        ran = run_to_the_end(store)
        assert len(ran) == (JOBS if begun else 0)
        assert set(ran.values()) <= {1}
        if begun:
            nothing_staged(store)
        stored.add(len(ran))
    assert stored == ({0, JOBS} if way != "lost" else {JOBS})


@ways
@pytest.mark.nightly
def test_a_repeat_completes_it(opened: Open, url: str, way: Way) -> None:
    for scene in at_every_call(opened, url, way, staged, publish):
        store, begun = scene.witness, bool(scene.witness.values("stream"))
        ran = run_out(store)
        assert publish(store, scene.made) is not begun
        ran += run_out(store)
        assert len(ran) == JOBS
        assert set(ran.values()) == {1}
        nothing_staged(store)


@ways
@pytest.mark.nightly
def test_a_repeated_stage_completes_it(opened: Open, url: str, way: Way) -> None:
    def act(store: RedisStore, parts: list[Prepared]) -> None:
        store.stage_prepared(WRITE, "a", parts)

    for scene in at_every_call(opened, url, way, lambda store: prepared(store, 5), act):
        store = scene.witness
        act(store, scene.made)
        assert store.publish(Publication(WRITE, (("a", 5),)))
        assert set(run_out(store).values()) == {1}
        nothing_staged(store)
