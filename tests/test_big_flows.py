"""A flow of very many members, in bounded memory from its definition to its end."""

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from stanchion import FlowState, Stanchion, group
from stanchion_conformance.flows.flows import drain_in_batches

MOST_BYTES = 12 * 1024 * 1024
"""What this process may need beside what it has at the start: twice the few batches that it holds at any time, and less
than 420 bytes for each of the fewest members here."""

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return str(request.getfixturevalue({"postgres": "pg_url", "redis": "redis_url"}[request.param]))


@contextmanager
def bounded() -> Iterator[None]:
    """Fail when the block needs more memory than MOST_BYTES at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


def new_app(url: str, seen: list[int]) -> Stanchion:
    app = Stanchion(url)

    @app.task(name="double", queue="orders")
    def double(number: int) -> int:
        return 2 * number

    @app.task(name="total", queue="totals")
    def total(numbers: list[int]) -> int:
        seen.append(len(numbers))
        assert numbers == [2 * number for number in range(len(numbers))]
        return sum(numbers)

    return app


def at_once(*calls: Callable[[], None]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("members", [30_000, 100_000])
def test_completes_in_bounded_memory(url: str, members: int) -> None:
    seen: list[int] = []
    with closing(new_app(url, seen)) as app, closing(new_app(url, seen)) as other:
        app.setup()
        double, total = app.tasks["double"], app.tasks["total"]
        with bounded():
            flow = group(double.s(number) for number in range(members)).then(total.s()).enqueue()
        assert app.queue("orders").size().ready == members
        with bounded():
            at_once(lambda: drain_in_batches(app), lambda: drain_in_batches(other))
        assert flow.state is FlowState.RUNNING
        assert app.queue("totals").size().ready == 1
        assert app.drain(["totals"]) == 1
        assert flow.result(timeout=60) == members * (members - 1)
        assert seen == [members]
        assert sum(1 for _ in flow.members()) == members + 1
