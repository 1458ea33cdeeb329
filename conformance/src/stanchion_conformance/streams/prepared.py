"""Prepared jobs: plain ones, given as columns of Arrow, which are stored without a look at each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from stanchion.core.ids import new_id, new_ids
from stanchion.core.spark_errors import StagedJobsLost
from stanchion.stores.ports import PreparedJobs
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Bury, Commit, Move, Outcome
from stanchion.stores.records.prepared import PlainColumns, Prepared
from stanchion.stores.records.queues import Counts
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.values import ValueChange
from stanchion_conformance.harness import StoreClock, claim, counts_of, find_jobs, row_of, sizes_of
from stanchion_conformance.streams.staging import DAY, OUT, WRITE, outputs

LONG = 20.0
ODD = ('{"a":"tab\\tline\\nquote\\" back\\\\slash"}', '{"é":"\u2028 😀 \u007f \\\\N \\\\T"}', "{}", '{"a":1.0e2}')


def columns(payloads: Sequence[str], queue: str = OUT, fixed: Any = None, **varying: Any) -> PlainColumns:
    """Return new jobs as columns."""
    import pyarrow as pa

    return PlainColumns(queue, pa.array(new_ids(len(payloads))), pa.array(payloads), fixed or {}, varying)


def prepared(store: Store, number: int, queue: str = OUT) -> list[Prepared]:
    """Return so many jobs in the form of the store."""
    found = preparing(store).prepare(columns([f'{{"n":{n}}}' for n in range(number)], queue))
    assert found is not None
    return found


def preparing(store: Store) -> PreparedJobs:
    """Return the optional port of a store."""
    found = store.extension(PreparedJobs)
    assert found is not None
    return found


class TestPreparedJobs:
    @pytest.fixture(autouse=True)
    def _offered(self, store: Store) -> None:
        assert store.capabilities.prepared_jobs, "it takes no prepared jobs: del TestPreparedJobs"

    def test_are_seen_by_nobody_before_they_are_published(self, store: Store, other_store: Store) -> None:
        preparing(store).stage_prepared(WRITE, "a", prepared(store, 3))
        assert sizes_of(other_store, OUT).total == 0
        assert find_jobs(other_store) == []
        assert claim(other_store, 9, queue=OUT) == []
        assert counts_of(other_store, OUT) == Counts()

    def test_are_published_with_others_once(self, store: Store, other_store: Store) -> None:
        rows = outputs(4)
        preparing(store).stage_prepared(WRITE, "a", prepared(store, 3))
        preparing(store).stage_prepared(WRITE, "a", prepared(store, 30))
        preparing(store).stage_prepared(WRITE, "lost", prepared(store, 7))
        store.stage(WRITE, "a", rows[:2])
        other_store.stage(WRITE, "b", rows[2:])
        publication, carried = Publication(WRITE, (("a", 35), ("b", 2))), prepared(store, 5)
        assert preparing(other_store).publish_prepared(publication, carried)
        assert (sizes_of(store, OUT).ready, counts_of(store, OUT)) == (42, Counts(pushed=42))
        assert not preparing(store).publish_prepared(publication, carried)
        assert not store.publish(publication)
        assert (sizes_of(store, OUT).ready, counts_of(store, OUT)) == (42, Counts(pushed=42))
        with pytest.raises(StagedJobsLost):  # under another value: the stage is empty
            store.publish(publication._replace(value=ValueChange("k", "n", "t", 0)))

    def test_are_as_they_are_pushed(self, store: Store) -> None:
        import pyarrow as pa

        given = columns(
            ODD,
            fixed={"max_attempts": 3},
            priority=pa.array([5, 0, -100, 5]),
            tenant=pa.array(["o'hara", None, "\\N", "tab"]),
            timeout=pa.array([0.1, None, 1e-7, 5.0]),
        )
        self.publish(store, given)
        fields = {name: column.to_pylist() for name, column in given.varying.items()}
        pushed = [
            NewJob(new_id(), OUT, text, max_attempts=3, **{name: values[n] for name, values in fields.items()})
            for n, text in enumerate(ODD)
        ]
        store.push(pushed)
        self.are_same(store, given.ids.to_pylist(), [job.id for job in pushed])
        assert [row.priority for row in claim(store, 9, queue=OUT)] == [5, 5, 5, 5, 0, 0, -100, -100]

    def test_with_the_same_options_for_all(self, store: Store) -> None:
        options: tuple[dict[str, Any], ...] = (
            {},
            {"priority": -7, "tenant": "acme", "max_attempts": 2, "timeout": 1.5},
            {"headers": '{"a":"tab\\tback\\\\ é","b":{}}'},
        )
        for fixed in options:
            given = columns(["{}"] * 3, fixed=fixed)
            self.publish(store, given)
            pushed = [NewJob(new_id(), OUT, "{}", **fixed) for _ in range(3)]
            store.push(pushed)
            self.are_same(store, given.ids.to_pylist(), [job.id for job in pushed])

    @staticmethod
    def publish(store: Store, given: PlainColumns) -> None:
        made = preparing(store).prepare(given)
        assert made is not None
        assert preparing(store).publish_prepared(Publication(new_id()), made)

    @staticmethod
    def are_same(store: Store, ids: list[str], others: list[str]) -> None:
        """Check that jobs are equal to others, but for their ids and times."""

        def alike(row: JobRow) -> JobRow:
            return row._replace(id="", run_at=0, enqueued_at=0)

        rows = store.fetch([*ids, *others])
        assert [alike(rows[one]) for one in ids] == [alike(rows[one]) for one in others]
        assert len({rows[one].run_at for one in ids}) == 1

    def test_are_due_at_once_in_the_order_of_their_ids(self, store: Store) -> None:
        given = columns([f'{{"n":{n}}}' for n in range(20)])
        self.publish(store, given)
        rows = claim(store, 99, queue=OUT)
        assert [row.id for row in rows] == given.ids.to_pylist()
        assert [row.payload for row in rows] == given.payloads.to_pylist()

    def test_go_through_life_as_others(self, store: Store) -> None:
        self.publish(store, columns(["{}"] * 4))
        done, buried, moved, running = claim(store, 4, queue=OUT)
        outcomes: list[Outcome] = [
            Commit(done.lease, '"r"'),
            Bury(buried.lease, "why"),
            Move(moved.lease, "next", '{"m":1}'),
        ]
        assert store.settle(outcomes) == [JobState.DONE, JobState.DEAD, JobState.READY]
        assert row_of(store, done.id).result == '"r"'
        assert [redriven is not None for redriven in store.retry([buried.id])] == [True]
        assert store.cancel([running.id]) == [JobState.RUNNING]
        assert [row.payload for row in claim(store, 9, queue="next")] == ['{"m":1}']
        assert counts_of(store, OUT).committed == 1

    def test_wake_and_count_in_each_of_their_queues(self, store: Store) -> None:
        listener = store.listen(["other"])
        listener.wait(0)
        carried = [*prepared(store, 3), *prepared(store, 4, "other")]
        assert preparing(store).publish_prepared(Publication(WRITE), carried)
        assert listener.wait(LONG)
        listener.close()
        assert [counts_of(store, queue).pushed for queue in (OUT, "other")] == [3, 4]
        assert [settings.name for settings in store.queues()] == ["other", OUT]

    def test_staged_twice_under_one_attempt_count_once(self, store: Store, other_store: Store) -> None:
        parts = prepared(store, 20)
        preparing(store).stage_prepared(WRITE, "a", parts)
        preparing(other_store).stage_prepared(WRITE, "a", parts)
        preparing(store).stage_prepared(WRITE, "a", [])
        assert store.publish(Publication(WRITE, (("a", 20),)))
        assert sizes_of(store, OUT).ready == 20

    def test_a_count_that_does_not_fit_changes_nothing(self, store: Store) -> None:
        preparing(store).stage_prepared(WRITE, "a", prepared(store, 3))
        carried = prepared(store, 2)
        for attempts in ((("a", 4),), (("a", 2),), (("a", 3), ("b", 1))):
            with pytest.raises(StagedJobsLost):
                preparing(store).publish_prepared(Publication(WRITE, attempts), carried)
        assert sizes_of(store, OUT).total == 0
        assert store.values("write") == []
        assert preparing(store).publish_prepared(Publication(WRITE, (("a", 3),)), carried)
        assert sizes_of(store, OUT).total == 5

    def test_are_forgotten_with_their_write_or_after_a_day(self, store: Store, clock: StoreClock) -> None:
        for write in ("dropped", "old"):
            preparing(store).stage_prepared(write, "a", prepared(store, 2))
        store.unstage("dropped")
        clock.advance(DAY + 1)
        preparing(store).stage_prepared("fresh", "a", prepared(store, 2))
        store.maintain()
        for write in ("dropped", "old"):
            with pytest.raises(StagedJobsLost):
                store.publish(Publication(write, (("a", 2),)))
        assert store.publish(Publication("fresh", (("a", 2),)))

    def test_of_many_come_in_portions(self, store: Store) -> None:
        text = "x" * 300
        given = columns([f'{{"n":{n},"text":"{text}"}}' for n in range(5000)])
        made = preparing(store).prepare(given)
        assert made is not None
        assert len(made) > 1
        assert all(len(one.rows) < 3 << 20 for one in made)
        preparing(store).stage_prepared(WRITE, "a", made)
        assert store.publish(Publication(WRITE, (("a", 5000),)))
        assert (sizes_of(store, OUT).ready, counts_of(store, OUT).pushed) == (5000, 5000)
        taken = claim(store, 500, queue=OUT)
        assert [row.id for row in taken] == given.ids.slice(0, 500).to_pylist()
