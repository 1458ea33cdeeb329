"""Queries with values and cursors that none of our own programs would send."""

from __future__ import annotations

import pytest

from stanchion.errors import InvalidInput
from stanchion.stores.fields.jobs import COMPARED
from stanchion.stores.protocol import Store
from stanchion.stores.records.query import MATCHED, OF_SLOTS, Condition, Query
from stanchion_conformance.harness import QUEUE, new_job
from stanchion_conformance.operate.selecting import where


class TestOddQueries:
    """They are the caller's fault, and no fault of the store."""

    @pytest.mark.parametrize(
        "query",
        [
            *(Query(where=(Condition(name, "=", "x"),)) for name in ("lane", "run_at", "rank", "finished_at")),
            *(Query(where=(Condition(name, "<", 1.5),)) for name in ("lane", "run_at", "priority")),
            *(Query(where=(Condition("lane", ">=", value),)) for value in (None, True, 2**70, -(2**70))),
            *(Query(where=(Condition(name, "=", value),)) for name in ("id", "queue", "state") for value in (5, None)),
            *(Query(where=(Condition("id", op, "x"),)) for op in ("=", "<", ">=")),
            Query(where=(Condition("id", "in", ("01A20E39-8298-718A-BD90-B66EE0C391CA",)),)),
            Query(where=(Condition("task", "in", ("é" * 300,)),)),
            Query(where=(Condition("queue", "in", ("orders", 5)),)),
            Query(where=(Condition("finished_at", "in", (5, "now")),)),
            *(Query(after=after) for after in ("", "5", "null", "{}", "[]", '["a", "b"]', "[5]", '["x"]', "no cursor")),
            Query(after="[" * 9000),
            Query("live", where(queue=QUEUE), order="due", after='["01a20e39-8298-718a-bd90-b66ee0c391ca"]'),
            Query("live", where(queue=QUEUE), order="due", after='[0, "now", "01a20e39-8298-718a-bd90-b66ee0c391ca"]'),
            Query("history", where(queue=QUEUE), order="finished", after='["x", 5]'),
            Query("history", where(queue=QUEUE), order="finished", after="[1e99, 5]"),
        ],
    )
    def test_are_refused(self, store: Store, query: Query) -> None:
        store.push([new_job()])
        with pytest.raises(InvalidInput):
            store.select(query)


class TestStrangeValues:
    """Texts that no job has are no error: no job meets them."""

    @pytest.mark.parametrize("field", ["queue", "state", "task", "tenant", *sorted(MATCHED - OF_SLOTS)])
    @pytest.mark.parametrize("value", ["", "x", "é" * 200, "a\nb", "'; --", "%", "01a20e39"])
    def test_nothing_is_found(self, store: Store, field: str, value: str) -> None:
        store.push([new_job()])
        assert store.select(Query(where=(Condition(field, "=", value),))).rows == []
        if field in COMPARED:
            assert store.select(Query(where=(Condition(field, "in", (value,)),))).rows == []
            for op in ("<", ">="):
                store.select(Query(where=(Condition(field, op, value),)))
