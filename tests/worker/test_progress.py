"""Progress that a task reports: written at most once a second, and the last value in any case."""

import threading

import pytest

from stanchion import JobState, Reservation, Stanchion
from stanchion.context import context_of
from stanchion.errors import LeaseLost, StoreUnavailable
from tests.worker.conftest import Faulty, ended, until, working


@pytest.fixture
def store() -> Faulty:
    return Faulty(Stanchion("memory://").store, "settle")


@pytest.fixture
def app(store: Faulty) -> Stanchion:
    return Stanchion(store=store)


@pytest.mark.parametrize("end", ["returns", "fails", "commits"])
def test_many_reports_are_few_calls(app: Stanchion, store: Faulty, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr("stanchion.context.progress.EVERY", 3600.0)

    @app.task(max_attempts=1)
    def task(job: Reservation) -> None:
        for n in range(20_000):
            job.progress(n / 20_000)
        if end == "fails":
            raise ValueError
        if end == "commits":
            job.commit()

    with working(app):
        job = ended(app, task.enqueue().id)
    assert job.progress == pytest.approx(19_999 / 20_000)
    assert store.calls["settle"] == 3, "the first report, the last, and the outcome"


def test_a_report_is_seen_while_the_task_goes_on(app: Stanchion) -> None:
    go_on = threading.Event()

    @app.task
    def task(job: Reservation) -> None:
        job.progress(0.25)
        job.progress(0.75)
        go_on.wait(60)

    with working(app):
        handle = task.enqueue()
        until(lambda: handle.job().progress == pytest.approx(0.75))
        assert handle.state is JobState.RUNNING
        go_on.set()
        handle.result(timeout=60)


def test_reports_are_written_after_an_outage(app: Stanchion, store: Faulty) -> None:
    app.queue("q").push({})
    (job,) = app.queue("q").reserve()
    job.progress(0.25)
    store.broken, store.error = True, StoreUnavailable("gone")
    calls = store.calls["settle"]
    job.progress(0.75)
    until(lambda: store.calls["settle"] > calls + 1)
    store.broken = False
    until(lambda: _progress(app, job) == pytest.approx(0.75))


def test_the_thread_ends_with_the_last_report(app: Stanchion) -> None:
    app.queue("q").push({})
    (job,) = app.queue("q").reserve()
    job.progress(0.25)
    writer = context_of(app).progress
    assert writer._running
    until(lambda: not writer._running)
    assert not writer._reports
    job.progress(0.5)
    assert _progress(app, job) == pytest.approx(0.5)


def test_a_lost_lease_is_known_to_a_later_report(app: Stanchion) -> None:
    app.queue("q").push({})
    (job,) = app.queue("q").reserve()
    job.progress(0.25)
    app.reservation(job.id, job.token).rollback(delay=60)
    with pytest.raises(LeaseLost):
        until(lambda: job.progress(0.5))


def _progress(app: Stanchion, job: Reservation) -> float:
    found = app.get(job.id)
    assert found is not None
    return float(found.progress)
