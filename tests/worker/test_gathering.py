"""How many jobs a worker claims for batches, and when it starts them."""

from collections.abc import Callable
from itertools import count

import pytest

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion.worker.claiming.gathering import Gathering
from stanchion.worker.running.runner import Held

_IDS = count()


class Buffer:
    """In place of the runners: keeps the batches, and counts the jobs that take no slot."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.riders = 0

    def gathered(self, jobs: int) -> None:
        self.riders += jobs

    def add_batch(self, batch: list[Held], reserved: int) -> None:
        assert reserved == 1
        self.riders -= 1
        self.batches.append([int(row.payload) for row, _ in batch])


@pytest.fixture
def buffer() -> Buffer:
    return Buffer()


@pytest.fixture
def app() -> Stanchion:
    return Stanchion("memory://")


@pytest.fixture
def gathering(app: Stanchion, buffer: Buffer) -> Gathering:
    return Gathering(context_of(app).registry, buffer, lambda: 0)  # type: ignore[arg-type]


def rows(task: str, number: int, queue: str = "default") -> list[JobRow]:
    return [created(NewJob(f"id {n}", queue, str(n), task), 0) for n in (next(_IDS) for _ in range(number))]


def declared(app: Stanchion, name: str, batch: int | None = None, wait: float = 0) -> None:
    def many(numbers: list[int]) -> None:
        raise AssertionError(numbers)

    def one(number: int) -> None:
        raise AssertionError(number)

    decorate: Callable[..., object] = (
        app.task(name=name) if batch is None else app.task(name=name, batch=batch, wait=wait)
    )
    decorate(one if batch is None else many)


def test_a_queue_without_batches_is_asked_for_the_free_slots(app: Stanchion, gathering: Gathering) -> None:
    declared(app, "one")
    assert gathering.asks("default", 8) == 8
    assert not gathering.serves("default")
    assert gathering.take(some := rows("one", 8), 0.0) == (some, 0)
    assert gathering.asks("default", 8) == 8


def test_a_queue_of_batches_is_asked_for_what_one_lacks(app: Stanchion, gathering: Gathering, buffer: Buffer) -> None:
    declared(app, "many", batch=100, wait=600)
    assert gathering.asks("default", 8) == 100
    assert gathering.serves("default")
    assert gathering.take(rows("many", 30), 0.0) == ([], 0)
    assert (gathering.asks("default", 8), buffer.riders) == (70, 30)
    assert gathering.take(rows("many", 70), 0.0) == ([], 1)
    assert (gathering.asks("default", 8), buffer.riders) == (100, 99)
    assert [len(batch) for batch in buffer.batches] == [100]
    gathering.stop()


def test_a_full_batch_starts_and_the_rest_waits(app: Stanchion, gathering: Gathering, buffer: Buffer) -> None:
    declared(app, "many", batch=2, wait=600)
    some = rows("many", 5)
    assert gathering.take(some, 0.0) == ([], 2)
    assert buffer.riders == 3
    assert gathering.stop() == some[4:]
    assert buffer.riders == 2


def test_a_job_that_is_taken_out_is_in_no_batch(app: Stanchion, gathering: Gathering, buffer: Buffer) -> None:
    declared(app, "many", batch=3, wait=600)
    first, *others = rows("many", 3)
    gathering.take([first, others[0]], 0.0)
    assert gathering.take_out({first.id, "unknown"}) == [first]
    assert buffer.riders == 1
    assert gathering.take([others[1]], 0.0) == ([], 0)
    assert gathering.take_out({one.id for one in others}) == others
    assert (gathering.close(), buffer.riders) == (0, 0)


def test_without_a_wait_the_rest_starts_too(app: Stanchion, gathering: Gathering, buffer: Buffer) -> None:
    declared(app, "many", batch=2)
    assert gathering.take(rows("many", 5), 0.0) == ([], 3)
    assert [len(batch) for batch in buffer.batches] == [2, 2, 1]


def test_tasks_and_queues_have_batches_of_their_own(app: Stanchion, gathering: Gathering, buffer: Buffer) -> None:
    declared(app, "a", batch=10, wait=600)
    declared(app, "b", batch=10, wait=600)
    for some in (rows("a", 2), rows("b", 3), rows("a", 4, "elsewhere")):
        assert gathering.take(some, 0.0) == ([], 0)
    assert gathering.close() == 3
    assert [len(batch) for batch in buffer.batches] == [2, 3, 4]


def test_of_several_batch_tasks_the_smallest_batch_counts(app: Stanchion, gathering: Gathering) -> None:
    declared(app, "large", batch=500, wait=600)
    declared(app, "small", batch=10)
    assert gathering.asks("default", 2) == 10
    gathering.take(rows("large", 10), 0.0)
    assert gathering.asks("default", 2) == 10
    gathering.take(rows("large", 485), 0.0)
    assert gathering.asks("default", 2) == 5
    gathering.stop()


def test_a_queue_with_other_tasks_is_asked_for_more_step_by_step(app: Stanchion, gathering: Gathering) -> None:
    declared(app, "many", batch=100)
    declared(app, "one")
    asked = []
    for _ in range(5):
        asked.append(gathering.asks("default", 8))
        gathering.take(rows("many", asked[-1]), 0.0)
    assert asked == [8, 16, 32, 64, 100]
    others = rows("one", 1)
    assert gathering.take([*rows("many", 3), *others], 0.0) == (others, 1)
    assert gathering.asks("default", 8) == 8
    gathering.take(rows("many", 8), 0.0)
    assert gathering.asks("default", 8) == 16
    gathering.take(rows("one", 16), 0.0)
    assert gathering.asks("default", 8) == 8
