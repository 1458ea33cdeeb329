"""Jobs from store to store: adopted unchanged."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stanchion.core.ids import new_id
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import QUEUED, SECOND, UNLANED, JobRow, JobState
from stanchion.stores.records.outcomes import Commit, Move
from stanchion.stores.records.queues import Counts, QueueSettings, Sizes
from stanchion_conformance.harness import QUEUE, claim, counts_of, find_jobs, new_job, row_of, sizes_of

DAY = 86_400 * SECOND
ERRORS = '[{"attempt":1,"at":1700000000.5,"error":"ValueError: é\\n\\"no\\"","traceback":"Traceback\\n  ..."}]'


def queued(store: Store, **fields: Any) -> JobRow:
    """Return a job of another store that is due now and was never handed out."""
    now = store.now()
    plain = JobRow(
        new_id(), QUEUE, lane=UNLANED, state=QUEUED, priority=0, rank=0, run_at=now, enqueued_at=now, payload="{}"
    )
    return plain._replace(rank=fields.get("priority", 0), **fields)


def finished(store: Store, state: JobState = JobState.DONE, **fields: Any) -> JobRow:
    """Return a job of another store that has just ended."""
    now = store.now()
    ended = {"state": state.value, "attempts": 1, "token": "t-1", "started_at": now, "finished_at": now}
    return queued(store, **ended | fields)


def full(store: Store) -> dict[str, Any]:
    """Return a value for every field that a job may have in any state but running."""
    return {
        "priority": -7,
        "run_at": store.now() - 3 * SECOND + 1,
        "enqueued_at": store.now() - DAY + 7,
        "payload": '{"text":"é ⚙ \\u0000 \\\\ \'\\"%_:x","n":[1.5,null,true]}',
        "task": "mail.send",
        "headers": '{"trace":"00-ab","x":{"y":[1,2]}}',
        "tenant": "acme é",
        "key": "k-1 %:x",
        "order_key": "order",
        "limits": '{"hold":["smtp"],"rate":["mail/acme",0.5]}',
        "flow_root": new_id(),
        "flow_node": new_id(),
        "flow_index": 7,
        "flow_after": f"{new_id()}*",
        "origin": new_id(),
        "attempts": 3,
        "failures": 2,
        "max_attempts": 4,
        "timeout": 1.25,
        "errors": ERRORS,
        "token": "a-token-of-before",
        "started_at": store.now() - 5 * SECOND + 3,
    }


def ended(store: Store) -> dict[str, Any]:
    """Return a value for every field that a finished job may have."""
    return {
        **full(store),
        "progress": 0.75,
        "worker": "host-1-ab",
        "finished_at": store.now() - SECOND + 9,
        "result": '{"sent":["é",1]}',
    }


def some_rows(store: Store) -> dict[str, JobRow]:
    """Return jobs of every kind that can be adopted, by name."""
    return {
        "ready": queued(store),
        "whole": queued(store, **full(store)),
        "sealed": queued(store, payload="enc:gAAAAABm-_=="),
        "large": queued(store, payload=f'"{"x" * 1_000_000}"'),
        "scheduled": queued(store, run_at=store.now() + 30 * DAY, priority=100),
        "dead letter": queued(
            store, queue="letters", dead_from="orders", dead_at=1_700_000_000_500_000, dead_attempts=3
        ),
        "done": finished(store, **ended(store)),
        "dead": finished(store, JobState.DEAD, **{**ended(store), "result": None, "key": "k-2"}),
        "cancelled": finished(store, JobState.CANCELLED, attempts=0, token=None, started_at=None),
    }


class TestAdopting:
    @pytest.mark.parametrize(
        "name", ["ready", "whole", "sealed", "large", "scheduled", "dead letter", "done", "dead", "cancelled"]
    )
    def test_keeps_every_field(self, store: Store, other_store: Store, name: str) -> None:
        row = some_rows(store)[name]
        assert store.adopt([row]) == [True]
        assert row_of(other_store, row.id) == row
        assert find_jobs(other_store, queue=row.queue) == [row]

    def test_takes_all_kinds_in_one_call(self, store: Store) -> None:
        rows = list(some_rows(store).values())
        assert store.adopt(rows) == [True] * len(rows)
        assert store.fetch([row.id for row in rows]) == {row.id: row for row in rows}

    def test_of_nothing(self, store: Store) -> None:
        assert store.adopt([]) == []
        assert store.queues() == []

    def test_answers_in_the_order_of_the_jobs(self, store: Store) -> None:
        store.push([new_job(key="3"), new_job(key="8")])
        rows = [queued(store, key=str(number)) for number in range(10)]
        random.Random(7).shuffle(rows)
        assert store.adopt(rows) == [row.key not in ("3", "8") for row in rows]

    def test_once_more_changes_nothing(self, store: Store, other_store: Store) -> None:
        rows = list(some_rows(store).values())
        store.adopt(rows)
        assert other_store.adopt(rows) == [True] * len(rows)
        assert len(find_jobs(store)) == len(rows)
        assert sizes_of(store, QUEUE).total == 5

    def test_of_a_job_twice_in_one_call(self, store: Store) -> None:
        row, done = queued(store, key="k"), finished(store)
        assert store.adopt([row, done, row, done]) == [True] * 4
        assert sorted(found.id for found in find_jobs(store)) == sorted([row.id, done.id])

    def test_leaves_a_job_that_has_gone_on_since(self, store: Store) -> None:
        rows = {name: queued(store, priority=9 - n) for n, name in enumerate(["runs", "is done", "moved", "waits"])}
        store.adopt(list(rows.values()))
        _runs, done, moved = claim(store, 3)
        store.settle([Commit(done.lease), Move(moved.lease, "next")])
        before = store.fetch([row.id for row in rows.values()])
        assert store.adopt(list(rows.values())) == [True] * 4
        assert store.fetch([row.id for row in rows.values()]) == before
        assert sizes_of(store, QUEUE) == Sizes(total=2, ready=1, running=1)

    def test_does_not_queue_what_is_in_history(self, store: Store) -> None:
        row = finished(store)
        store.adopt([row])
        assert store.adopt([row._replace(state=QUEUED, finished_at=None)]) == [True]
        assert row_of(store, row.id) == row
        assert claim(store, 10) == []

    def test_does_not_end_what_is_queued(self, store: Store) -> None:
        row = queued(store)
        store.adopt([row])
        assert store.adopt([row._replace(state="done", finished_at=store.now())]) == [True]
        assert row_of(store, row.id) == row

    def test_counts_nothing(self, store: Store) -> None:
        store.adopt(list(some_rows(store).values()))
        store.maintain()
        assert counts_of(store, QUEUE) == Counts()
        assert counts_of(store, "letters") == Counts()

    def test_makes_the_queue_with_the_defaults(self, store: Store) -> None:
        store.adopt([queued(store, queue="b"), finished(store, queue="a")])
        assert store.queues() == [QueueSettings("a"), QueueSettings("b")]

    def test_leaves_the_settings_of_a_queue(self, store: Store) -> None:
        given = store.configure(QUEUE, {"paused": True, "max_running": 3, "history_ttl": 60.0})
        store.adopt([queued(store), finished(store)])
        assert store.queues() == [given]

    def test_keeps_the_history_of_a_queue_that_keeps_none(self, store: Store) -> None:
        store.configure(QUEUE, {"history_ttl": 0.0})
        row = queued(store)
        assert store.adopt([row]) == [True]
        (job,) = claim(store)
        store.settle([Commit(job.lease)])
        assert store.fetch([row.id]) == {}

    def test_of_many(self, store: Store) -> None:
        rows = [queued(store, payload=str(n)) for n in range(2_000)] + [finished(store) for _ in range(500)]
        assert all(store.adopt(rows))
        assert sizes_of(store, QUEUE).ready == 2_000
        assert len(find_jobs(store, queue=QUEUE, states=(JobState.DONE,), limit=1_000)) == 500


# What JSON text, a name and a time may be, as far as the door lets them in.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)
JSON = TEXT.map(lambda text: json.dumps(text, ensure_ascii=False))
NAME = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=40)
MOMENT = st.integers(0, 4_000_000_000_000_000)
TO_COME = st.integers(3_000_000_000_000_000, 4_000_000_000_000_000)  # not so long ago that it would be purged
OPTIONAL_NAME = st.none() | NAME

LIVE = {
    "queue": st.sampled_from(["a", "b"]),
    "lane": st.just(UNLANED),
    "state": st.just(QUEUED),
    "priority": st.integers(-100, 100),
    "run_at": MOMENT,
    "enqueued_at": MOMENT,
    "payload": JSON,
    "task": OPTIONAL_NAME,
    "headers": st.none() | st.dictionaries(TEXT, TEXT, max_size=3).map(json.dumps),
    "tenant": OPTIONAL_NAME,
    "origin": st.none() | st.builds(new_id),
    "attempts": st.integers(0, 1_000_000),
    "failures": st.integers(0, 1_000_000),
    "max_attempts": st.integers(1, 1_000_000),
    "timeout": st.none() | st.floats(0.001, 1e9).map(lambda seconds: round(seconds, 6)),
    "errors": st.none() | st.lists(st.fixed_dictionaries({"error": TEXT}), max_size=2).map(json.dumps),
    "token": st.none() | st.text("0123456789abcdef", min_size=16, max_size=16),
    "started_at": st.none() | MOMENT,
}
ENDED = {
    **LIVE,
    "state": st.sampled_from(["done", "dead", "cancelled"]),
    "finished_at": TO_COME,
    "key": OPTIONAL_NAME,
    "progress": st.none() | st.floats(0, 1),
    "worker": OPTIONAL_NAME,
    "result": st.none() | JSON,
}


def rows_of(fields: dict[str, Any]) -> st.SearchStrategy[JobRow]:
    """Return a strategy for rows, each with an id of its own."""
    return st.fixed_dictionaries(fields).map(lambda given: JobRow(id=new_id(), rank=given["priority"], **given))


class TestThereAndBack:
    @given(st.lists(rows_of(LIVE) | rows_of(ENDED), min_size=1, max_size=6))
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    def test_any_job_comes_back_as_it_was(self, store: Store, rows: list[JobRow]) -> None:
        ids, reference = [row.id for row in rows], MemoryStore()
        reference.adopt(rows)
        assert store.adopt(list(reference.fetch(ids).values())) == [True] * len(rows)
        there = store.fetch(ids)
        assert all(store.delete([row.ref for row in rows]))
        assert store.fetch(ids) == {}
        back = MemoryStore()
        back.adopt(list(there.values()))
        assert back.fetch(ids) == {row.id: row for row in rows}
