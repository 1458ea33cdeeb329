"""Replays over a pipeline enqueue each item once: when they are interrupted, repeated, or have very many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from stanchion import Pipeline, Stanchion
from stanchion.core.ids import new_ids
from stanchion.errors import InvalidInput
from stanchion.pipelines.pipeline import plan_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion_conformance.harness import all_at_once

MANY = 600


@pytest.fixture
def lines(app: Stanchion) -> Pipeline:
    """raw, then end."""
    etl = app.pipeline("lines")
    etl.station("raw", to="end")(lambda item: item + 1)
    etl.station("end")(lambda item: item)
    return etl


def ran(store: Store, count: int) -> list[str]:
    """Store items that have run through the pipeline; return their ids, oldest first."""
    now = store.now()
    rows = [
        created(NewJob(one, "lines.end", str(n + 1)), now)._replace(
            state="done", finished_at=now, entry_payload=str(n), trail=f'[["lines.raw",{now},1,1],["lines.end",{now}]]'
        )
        for n, one in enumerate(new_ids(count))
    ]
    for at in range(0, count, 500):
        assert all(store.adopt(rows[at : at + 500]))
    return [row.id for row in rows]


def origins(lines: Pipeline) -> list[str | None]:
    """Return the origins of the waiting copies, in the order in which they run."""
    return [job.origin for job in reversed(lines.queue("raw").find(limit=10_000))]


class TestReplaysOnce:
    def test_one_that_died_has_enqueued_nothing(self, lines: Pipeline, store: Store) -> None:
        ids = ran(store, 5)
        died = plan_of(lines).reruns("raw", "fix")
        for plans in died.plan(ids[:3]):
            died.stage(plans)
        assert origins(lines) == []
        assert lines.replay(state="done", from_="raw", write_id="fix") == 5
        assert origins(lines) == ids
        assert [job.payload for job in reversed(lines.queue("raw").find())] == [0, 1, 2, 3, 4]

    def test_one_that_is_repeated_does_nothing(self, lines: Pipeline, store: Store) -> None:
        ids = ran(store, 3)
        assert len(lines.replay(ids, write_id="fix 17 ' 🦆")) == 3
        lines.drain()
        assert lines.replay(ids, write_id="fix 17 ' 🦆") == []
        assert lines.replay(state="done", write_id="fix 17 ' 🦆") == 0
        assert origins(lines) == []
        assert len(lines.queue("end").history()) == 6
        assert len(lines.replay(ids, write_id="fix 18")) == 3

    def test_two_of_the_same_name_at_once(self, lines: Pipeline, store: Store) -> None:
        ids = ran(store, 30)
        all_at_once([lambda: lines.replay(state="done", from_="raw", write_id="fix")] * 3)
        assert origins(lines) == ids

    def test_one_that_is_refused_can_be_repeated(self, lines: Pipeline, store: Store) -> None:
        ids = ran(store, MANY)
        waiting = lines.push(1).id
        with pytest.raises(InvalidInput, match="is still on its way"):
            lines.replay([*ids, waiting], write_id="fix")
        assert origins(lines) == [None]
        assert len(lines.replay(ids, write_id="fix")) == MANY

    def test_of_very_many_goes_by_batches(self, lines: Pipeline, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        ids, read, fetch = ran(store, MANY), list[int](), store.fetch

        def counting(some: Sequence[str]) -> dict[str, JobRow]:
            read.append(len(some))
            return fetch(some)

        monkeypatch.setattr(store, "fetch", counting)
        assert lines.replay(from_="raw", state="done") == MANY
        assert max(read) <= 500
        assert origins(lines) == ids
        assert lines.replay(from_="end", limit=550) == 550
        copies = lines.queue("end").find(state="ready", limit=1000)
        assert [copy.origin for copy in reversed(copies)] == ids[-550:]

    def test_copies_that_have_run_meanwhile_are_not_found(self, lines: Pipeline, store: Store) -> None:
        ids = ran(store, 5)
        for number in range(3):
            lines.replay(ids)
            lines.drain()
            assert len(lines.find(state="done")) == 5 * (number + 2)
        assert lines.replay(from_="raw", state="done") == 20


class TestReplaysOfOthers:
    def test_are_not_mixed(self, lines: Pipeline, app: Stanchion, store: Store) -> None:
        other: Any = app.pipeline("lines2")
        other.station("raw")(lambda item: item)
        other.push(1)
        other.drain()
        ids = ran(store, 2)
        assert [item.id for item in lines.find()] == list(reversed(ids))
        assert lines.replay(state="done") == 2
        assert other.replay(state="done") == 1
