"""Split chunks: an operator takes items out of a chunk that waits, or is dead, as jobs of their own."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stanchion import Pipeline, Stanchion
from stanchion.errors import InvalidInput, JobNotFound
from stanchion.jobs.job import Job, JobState
from stanchion.pipelines.chunks import splitting
from stanchion.pipelines.chunks.division import Division
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.lifecycle.jobs import items_of
from stanchion_conformance.harness import StoreClock, all_at_once, claim, counts_of, row_of, sizes_of
from stanchion_conformance.streams.replays_of_chunks import items

RAW = "split.raw"
DOWN: list[str] = []
"""What is down: the station fails for each item."""


@pytest.fixture
def split(app: Stanchion) -> Pipeline:
    """A pipeline whose station refuses each item without a number."""
    pytest.importorskip("pyarrow")
    etl = app.pipeline("split")

    @etl.station("raw", to="end", max_attempts=2)
    def raw(item: dict[str, Any]) -> dict[str, Any]:
        if DOWN:
            raise ValueError("an outage")
        return item

    etl.station("end")(lambda item: item["n"])
    DOWN.clear()
    return etl


def items_in(store: Store) -> int:
    """Return the number of live items at the station."""
    return sum(items_of(row) for row in store.select(Query("live", (Condition("queue", "=", RAW),), limit=2000)).rows)


def places(jobs: list[Job]) -> list[list[int]]:
    """Return the numbers of the items that each job carries."""
    return [[one["n"] for one in job.payload] if job.items else [job.payload["n"]] for job in jobs]


def died(etl: Pipeline, clock: StoreClock, count: int) -> Job:
    """Return the dead letter of a chunk, all items of which failed in each attempt."""
    DOWN.append("all")
    (chunk,) = etl.push_chunks(items(count))
    for _ in range(3):
        etl.drain()
        clock.advance(3600)
    DOWN.clear()
    (letter,) = etl.dead_letters.find()
    assert (letter.id, letter.items, letter.state) == (chunk.id, count, JobState.DEAD)
    return letter


class TestSplit:
    def test_some_items_and_the_rest(self, split: Pipeline, store: Store) -> None:
        (chunk,) = split.push_chunks(items())
        jobs = split.split(chunk.id, [7, 3])
        assert places(jobs) == [[7], [3], [0, 1, 2, 4, 5, 6, 8, 9]]
        assert [(job.items, job.origin, job.state) for job in jobs] == [
            (None, chunk.id, JobState.READY),
            (None, chunk.id, JobState.READY),
            (8, chunk.id, JobState.READY),
        ]
        assert jobs[2].payload.names(jobs[2].id)[2:4] == [f"{chunk.id}/2", f"{chunk.id}/4"]
        assert (row_of(store, chunk.id).state, row_of(store, chunk.id).items) == ("done", 0)
        split.drain()
        assert (split.status().stations[1].out, sizes_of(store, RAW).ready) == (10, 0)

    def test_all_items(self, split: Pipeline) -> None:
        (chunk,) = split.push_chunks(items(4))
        assert places(split.split(chunk.id)) == [[0], [1], [2], [3]]

    def test_by_their_places_in_the_pushed_chunk(self, split: Pipeline) -> None:
        (chunk,) = split.push_chunks(items())
        rest = split.split(chunk.id, [0, 1])[-1]
        with pytest.raises(InvalidInput, match=r"has no item 1: it has 8 items, from 2 to 9"):
            split.split(rest.id, [1])
        assert places(split.split(rest.id, [9, 2])) == [[9], [2], [3, 4, 5, 6, 7, 8]]

    def test_the_last_two_part(self, split: Pipeline) -> None:
        (chunk,) = split.push_chunks(items(2))
        jobs = split.split(chunk.id, [1])
        assert (places(jobs), [job.items for job in jobs]) == ([[1], [0]], [None, None])

    def test_a_paused_chunk_that_is_due_later(self, split: Pipeline, store: Store) -> None:
        at = datetime.now(UTC) + timedelta(days=2)
        (chunk,) = split.push_chunks(items(), run_at=at, priority=5, headers={"of": "may"}, expires=864000.0)
        split.pause("raw")
        jobs = split.split(chunk.id, [4])
        assert {(job.run_at, job.priority, job.headers["of"], job.expires) for job in jobs} == {
            (at, 5, "may", 864000.0)
        }
        assert {job.state for job in jobs} == {JobState.SCHEDULED}
        assert (counts_of(store, RAW).pushed, counts_of(store, RAW).reserved, items_in(store)) == (10, 0, 10)

    def test_a_tenant_in_its_lane(self, split: Pipeline, app: Stanchion, store: Store) -> None:
        app.queue(RAW).configure(lanes=16)
        (chunk,) = split.push_chunks([{**item, "of": "acme"} for item in items()], tenant="of")
        jobs = split.split(chunk.id, [4])
        lane = row_of(store, chunk.id).lane
        assert {(job.tenant, row_of(store, job.id).lane) for job in jobs} == {("acme", lane)}

    def test_what_has_failed_once_keeps_its_attempts(self, split: Pipeline, store: Store, clock: StoreClock) -> None:
        (chunk,) = split.push_chunks(items())
        DOWN.append("all")
        split.drain()
        DOWN.clear()
        before = row_of(store, chunk.id)
        assert (before.attempts, before.failures) == (1, 1)
        jobs = split.split(chunk.id, [4])
        rows = [row_of(store, job.id) for job in jobs]
        assert {(row.attempts, row.failures, row.errors, row.run_at) for row in rows} == {
            (1, 1, before.errors, before.run_at)
        }
        assert [job.trail[0] for job in jobs] == [chunk.trail[0]._replace(attempts=2)] * 2
        clock.advance(3600)
        split.drain()
        assert split.status().stations[1].out == 10

    def test_a_dead_chunk_becomes_dead_letters(self, split: Pipeline, clock: StoreClock) -> None:
        letter = died(split, clock, 105)
        jobs = split.split(letter.id, [3])
        assert [(job.state, job.items, job.dead_from, job.attempts, job.queue) for job in jobs] == [
            (JobState.DEAD, None, RAW, 2, "split.dead"),
            (JobState.DEAD, 104, RAW, 2, "split.dead"),
        ]
        assert [job.errors for job in jobs] == [letter.errors] * 2
        split.drain()
        assert split.status().stations[0].out == 0
        again = split.dead_letters.retry(jobs[0].id)
        assert (again.queue, again.state, again.payload) == (RAW, JobState.READY, {"n": 3})
        split.drain()
        assert [job.result for job in split.find("end")] == [3]
        assert {job.state for job in split.dead_letters.find() if job.id != letter.id} == {JobState.DEAD}

    def test_replay_of_a_split_item_runs_its_chunk(self, split: Pipeline) -> None:
        (chunk,) = split.push_chunks(items(3))
        jobs = split.split(chunk.id)
        split.drain()
        (copy,) = split.replay([job.id for job in jobs], from_="raw")
        assert (copy.origin, copy.items) == (chunk.id, 3)


class TestSplitInSteps:
    def test_each_step_leaves_the_rest_a_chunk(self, split: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(splitting, "AT_ONCE", 3)
        (chunk,) = split.push_chunks(items(7))
        jobs = split.split(chunk.id)
        assert places(jobs) == [[n] for n in range(7)]
        (other,) = split.push_chunks(items())
        jobs = split.split(other.id, [9, 8, 7, 6, 1])
        assert places(jobs) == [[9], [8], [7], [6], [1], [0, 2, 3, 4, 5]]
        split.drain()
        assert split.status().stations[1].out == 17

    def test_large_items_take_more_steps(self, split: Pipeline) -> None:
        (chunk,) = split.push_chunks(
            [{"n": n, "text": "x" * 100_000} for n in range(200)]
        )  # no MongoDB document of 20 MB
        jobs = split.split(chunk.id)
        assert [(job.payload["n"], len(job.payload["text"])) for job in jobs] == [(n, 100_000) for n in range(200)]
        assert {job.origin == chunk.id for job in jobs} == {True, False}

    def test_a_thousand_in_one_step(self, split: Pipeline, store: Store) -> None:
        (chunk,) = split.push_chunks([{"n": n, "text": "x" * 1000} for n in range(1500)])
        jobs = split.split(chunk.id, range(1000))
        assert [job.items for job in jobs] == [None] * 1000 + [500]
        assert items_in(store) == 1500

    def test_another_that_takes_the_rest_stops_it(
        self, split: Pipeline, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(splitting, "AT_ONCE", 3)
        (chunk,) = split.push_chunks(items(7))
        settle, taken = store.settle, []

        def settled(*given: Any, **options: Any) -> Any:
            states = settle(*given, **options)
            taken.extend(claim(store, 9, queue=RAW))
            return states

        monkeypatch.setattr(store, "settle", settled)
        with pytest.raises(InvalidInput, match=r"3 items are jobs of their own now, but not all: job .* is running"):
            split.split(chunk.id)
        assert sorted(row.items or 1 for row in taken) == [1, 1, 1, 4]


class TestSplitRefused:
    def test_unknown_jobs_and_items(self, split: Pipeline) -> None:
        (chunk,) = split.push_chunks(items(2000))
        with pytest.raises(JobNotFound):
            split.split("0190f5fe-7c00-7a00-8000-000000000000")
        with pytest.raises(InvalidInput, match=r"is not the id of a job"):
            split.split("nonsense")
        with pytest.raises(
            InvalidInput, match=rf"chunk {chunk.id} has no item 2000: it has 2,000 items, from 0 to 1999"
        ):
            split.split(chunk.id, [17, 2000])
        for wrong in ("x", True, 1.5):
            with pytest.raises(InvalidInput, match=r"has no item"):
                split.split(chunk.id, [wrong])  # type: ignore[list-item]
        for none in ((), 17):
            with pytest.raises(InvalidInput, match=r"items"):
                split.split(chunk.id, none)  # type: ignore[arg-type]
        assert chunk.items == 2000

    def test_too_many(self, split: Pipeline) -> None:
        (chunk,) = split.push_chunks(range(10_001), size=20_000)
        with pytest.raises(InvalidInput, match=r"10,001 items would become 10,001 jobs, and a call makes up to 10,000"):
            split.split(chunk.id)

    def test_a_job_of_another_queue(self, split: Pipeline, app: Stanchion) -> None:
        job = app.queue("other").push(1)
        with pytest.raises(InvalidInput, match=r"is in queue 'other', which is no station of this pipeline"):
            split.split(job.id)

    def test_an_item_alone(self, split: Pipeline) -> None:
        job = split.push({"n": 1})
        with pytest.raises(InvalidInput, match=rf"job {job.id} carries one item"):
            split.split(job.id)

    def test_a_running_chunk(self, split: Pipeline, store: Store) -> None:
        (chunk,) = split.push_chunks(items())
        claim(store, queue=RAW)
        with pytest.raises(InvalidInput, match=rf"job {chunk.id} is running: pause its station"):
            split.split(chunk.id)

    def test_an_ended_or_divided_chunk(self, split: Pipeline) -> None:
        (chunk,) = split.push_chunks(items())
        split.split(chunk.id, [3])
        with pytest.raises(InvalidInput, match=rf"job {chunk.id} was divided"):
            split.split(chunk.id, [4])
        (other,) = split.push_chunks(items())
        split.drain()
        with pytest.raises(InvalidInput, match=rf"job {other.id} is done: only chunks that wait or are dead"):
            split.split(other.id)

    def test_an_ordered_queue(self, split: Pipeline, app: Stanchion) -> None:
        app.queue(RAW).configure(ordered=True)
        (chunk,) = split.push_chunks(items())
        with pytest.raises(InvalidInput, match=r"keeps its place in an order"):
            split.split(chunk.id)

    def test_an_item_too_large_to_be_alone_changes_nothing(
        self, split: Pipeline, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (chunk,) = split.push_chunks(items())
        before = row_of(store, chunk.id)

        def broken(*_: object) -> None:
            raise InvalidInput("too large")

        monkeypatch.setattr(Division, "split", broken)
        with pytest.raises(InvalidInput, match="too large"):
            split.split(chunk.id, [3])
        after = row_of(store, chunk.id)
        assert (after.state, after.attempts, after.run_at) == (before.state, before.attempts, before.run_at)


class TestItemsOfChunks:
    def test_one_item_can_not_be_acted_on(self, split: Pipeline, app: Stanchion) -> None:
        (chunk,) = split.push_chunks(items(2000))
        name = f"{chunk.id}/17"
        for act in (app.cancel, app.retry_job, app.queue(RAW).cancel, split.split):
            with pytest.raises(InvalidInput) as told:
                act(name)
            assert str(told.value) == (
                f"item 17 is part of chunk {chunk.id}, which has 2,000 items; split it first: "
                f"etl.split('{chunk.id}', [17])"
            )
        split.split(chunk.id, [17])
        with pytest.raises(InvalidInput, match=rf"chunk {chunk.id} was divided: item 17 is in a job whose origin"):
            app.cancel(name)
        with pytest.raises(JobNotFound):
            app.cancel("0190f5fe-7c00-7a00-8000-000000000000/17")

    def test_an_item_with_its_result(self, split: Pipeline) -> None:
        (chunk,) = split.push_chunks(items())
        assert chunk.item(3) == (f"{chunk.id}/3", {"n": 3}, None, None)
        split.drain()
        (done,) = split.find()
        assert done.item(3) == (f"{chunk.id}/3", {"n": 3}, 3, None)
        for wrong in (10, -1, "3", True):
            with pytest.raises(InvalidInput, match=rf"chunk {chunk.id} has no item .*: it has 10 items, from 0 to 9"):
                done.item(wrong)  # type: ignore[arg-type]

    def test_an_item_of_a_part_with_its_error(self, split: Pipeline) -> None:
        (chunk,) = split.push_chunks(items(210))
        rest = split.split(chunk.id, [0])[1]
        DOWN.append("all")
        split.drain()
        (failed,) = [job for job in split.find("raw") if job.id == rest.id]
        assert failed.item(7)[:3] == (f"{chunk.id}/7", {"n": 7}, None)
        assert (failed.item(7).error or "").startswith("ValueError: an outage")
        with pytest.raises(InvalidInput, match=r"has no item 0: it has 209 items, from 1 to 209"):
            failed.item(0)

    def test_no_chunk(self, split: Pipeline, app: Stanchion) -> None:
        job = split.push({"n": 1})
        with pytest.raises(InvalidInput, match=rf"job {job.id} carries one item: read its payload"):
            job.item(0)
        (chunk,) = split.push_chunks(items())
        split.split(chunk.id, [3])
        divided = app.get(chunk.id)
        assert divided is not None
        with pytest.raises(InvalidInput, match=rf"job {chunk.id} was divided: its items are in other jobs"):
            divided.item(3)


class TestSplitRaces:
    def test_a_worker_that_claims_the_chunk_meanwhile(self, split: Pipeline, store: Store) -> None:
        for _ in range(5):
            (chunk,) = split.push_chunks(items())
            made, taken = list[Job](), list[JobRow]()

            def take(chunk: Job = chunk, made: list[Job] = made) -> None:
                try:
                    made += split.split(chunk.id, [3])
                except InvalidInput as error:
                    assert "is running" in str(error) or "split it again" in str(error)  # noqa: PT017 - either is right

            all_at_once([take, lambda taken=taken: taken.extend(claim(store, 1, queue=RAW))])  # type: ignore[misc]
            row = row_of(store, chunk.id)
            if made:
                assert (row.state, row.items, len(made)) == ("done", 0, 2)
                assert chunk.id not in {one.id for one in taken}
            else:
                assert (row.state, row.items, [one.id for one in taken]) == ("running", 10, [chunk.id])
            store.drop_queue(RAW)

    def test_two_that_split(self, split: Pipeline, store: Store) -> None:
        (chunk,) = split.push_chunks(items())
        made = list[Job]()

        def take() -> None:
            with suppress(InvalidInput):
                made.extend(split.split(chunk.id))

        all_at_once([take] * 3)
        assert (len(made), items_in(store), sizes_of(store, RAW).ready) == (10, 10, 10)

    def test_a_chunk_whose_reservation_ends_meanwhile(
        self, split: Pipeline, store: Store, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (chunk,) = split.push_chunks(items())
        divide = Division.split

        def slowly(*given: Any) -> Any:
            clock.advance(61)
            store.recover()
            return divide(*given)

        monkeypatch.setattr(Division, "split", slowly)
        with pytest.raises(InvalidInput, match=rf"job {chunk.id} was cancelled, or its lease of 60 s ended"):
            split.split(chunk.id, [3])
        assert (items_in(store), row_of(store, chunk.id).items) == (10, 10)

    def test_a_death_between_its_steps(
        self, split: Pipeline, store: Store, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (chunk,) = split.push_chunks(items())

        def dies(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as dying:
            dying.setattr(store, "settle", dies)
            with pytest.raises(KeyboardInterrupt):
                split.split(chunk.id, [3])
        assert row_of(store, chunk.id).state == "running"
        clock.advance(61)
        assert [row.id for row in store.recover()] == [chunk.id]
        row = row_of(store, chunk.id)
        assert (row.items, row.attempts) == (10, 0)
        assert places(split.split(chunk.id, [3]))[0] == [3]
