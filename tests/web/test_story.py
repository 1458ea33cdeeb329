"""The story of a job: what is stored with its attempts, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stanchion import Job, JobState, Retry, Stanchion
from stanchion.app.testing import Clock
from stanchion.context import context_of
from stanchion.core.text.redaction import Redaction
from stanchion.ops.web.show.life import life
from stanchion.ops.web.show.present import Step, sentence
from stanchion.ops.web.show.story import steps
from stanchion.ops.words import waited
from stanchion.queues.waiting import past_waits, waits_for
from stanchion.stores.records.claims import Claim
from stanchion_conformance.harness import worker

QUEUE = "work"


@pytest.fixture
def app() -> Iterator[Stanchion]:
    app = Stanchion("memory://")
    yield app
    app.close()


@pytest.fixture
def clock(app: Stanchion) -> Iterator[Clock]:
    with app.testing() as clock:
        yield clock


def told(app: Stanchion, job_id: str) -> list[Step]:
    job = app.get(job_id)
    assert job is not None
    return steps(job, Redaction(), waits_for(context_of(app), job_id))


def test_an_attempt_has_its_worker_its_time_and_its_back_off(app: Stanchion, clock: Clock) -> None:
    pushed = app.queue(QUEUE).push({})
    (job,) = app.queue(QUEUE).reserve(holder="billing:1")
    clock.advance(5)
    job.rollback(delay=90, error=ValueError("no stock"))
    due, failed, enqueued = told(app, pushed.id)
    assert (failed.title, failed.took, failed.error) == ("Attempt 1 failed", "5 s", "ValueError: no stock")
    assert failed.text.startswith("On billing:1. Backed off for 1 min 30 s, until ")
    assert (due.title, due.at) == ("Due then", app.get(pushed.id).run_at)  # type: ignore[union-attr]
    assert enqueued.title == "Enqueued in work"
    pieces = life(app.get(pushed.id), app.store.now())[1]  # type: ignore[arg-type]
    assert pieces[-1].width > 90


def test_an_attempt_that_lost_its_worker_names_it(app: Stanchion, clock: Clock) -> None:
    pushed = app.queue(QUEUE).push({})
    store = app.store
    store.beat([worker("host-7")])
    assert len(store.claim(Claim(QUEUE, 1, "t+", worker="host-7")).rows) == 1
    clock.advance(31)
    store.recover()
    (lost,) = [step for step in told(app, pushed.id) if step.mark == "risk"]
    assert (lost.title, lost.text) == ("Attempt 1 lost its worker", "On host-7.")


def test_a_parked_job_tells_since_when(app: Stanchion, clock: Clock) -> None:
    first, second = (app.queue(QUEUE).push({}, order_key="customer-5512") for _ in range(2))
    held = app.queue(QUEUE).reserve(2, lease=600)
    assert [job.id for job in held] == [first.id]
    since = app.store.now()
    clock.advance(60)
    found = app.get(second.id)
    assert found is not None
    step = told(app, second.id)[0]
    assert step.title.startswith("Parked: waits for ")
    assert first.id in step.title
    assert abs((step.at.timestamp() * 1_000_000) - since) < 30_000_000
    assert found.waits_since == step.at
    held[0].commit()
    assert app.get(second.id).waits_since is None  # type: ignore[union-attr]


def test_a_dead_job_backs_off_no_more(app: Stanchion) -> None:
    @app.task(name="ship", queue=QUEUE, retry=Retry.constant(0, max_attempts=2))
    def ship(job: Job) -> None:
        raise ValueError(f"attempt {job.attempt}")

    handle = ship.enqueue()
    app.drain()
    dead, second, first, *_ = told(app, handle.id)
    assert (dead.mark, dead.title) == ("dead", "Dead: its two attempts are used up")
    assert "until" not in second.text
    assert "Ready again at once." in first.text
    assert sentence(app.get(handle.id), None) == "is dead after two attempts"  # type: ignore[arg-type]


def test_a_dead_job_with_attempts_left_was_not_to_be_tried_again(app: Stanchion) -> None:
    pushed = app.queue(QUEUE).push({})
    (job,) = app.queue(QUEUE).reserve()
    job.bury("no such customer")
    assert told(app, pushed.id)[0].title == "Dead: it was not to be tried again"


def test_a_job_that_has_expired_says_so(app: Stanchion, clock: Clock) -> None:
    pushed = app.queue(QUEUE).push({}, expires=120)
    clock.advance(121)
    app.maintain()
    expired, enqueued = told(app, pushed.id)
    assert (expired.title, expired.text) == ("Expired", "No attempt began within 2 min of its push.")
    assert enqueued.title == "Enqueued in work"
    job = app.get(pushed.id)
    assert job is not None
    assert sentence(job, None) == "has expired"
    assert [piece.kind for piece in life(job, app.store.now())[1]] == ["ready"]


def test_a_job_that_failed_before_it_expired_tells_both(app: Stanchion, clock: Clock) -> None:
    pushed = app.queue(QUEUE).push({}, expires=120)
    app.queue(QUEUE).reserve()[0].rollback(delay=300, error="no stock")
    clock.advance(301)
    app.maintain()
    assert [step.title for step in told(app, pushed.id)] == ["Expired", "Attempt 1 failed", "Enqueued in work"]


def test_waits_that_are_over_stand_where_they_began(app: Stanchion, clock: Clock) -> None:
    app.semaphore("mail", capacity=1)
    queue = app.queue(QUEUE)
    first, second = (queue.push({}, order_key="customer-5512", limits=["mail"]) for _ in range(2))
    (held,) = queue.reserve(2, lease=600)
    assert held.id == first.id
    clock.advance(240)
    queue.pause()
    held.commit()
    clock.advance(60)
    queue.resume()
    job = app.get(second.id)
    assert job is not None
    waits = past_waits(context_of(app), job)
    ready = [step for step in steps(job, Redaction(), None, waits) if step.mark == "waiting"]
    assert [step.title for step in ready] == [
        "work was paused for 1 min",
        "Waited 4 min behind order key customer-5512",
    ]
    assert [step.at for step in ready] == [wait.since for wait in reversed(waits)]
    assert ready[1].text == f"Until {waits[0].until:%H:%M:%S}."
    bar = [piece for piece in life(job, app.store.now(), waits)[1] if piece.kind == "waiting"]
    assert [piece.label for piece in bar] == [step.title for step in reversed(ready)]
    assert [round(piece.width) for piece in bar] == [80, 20]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate_key": "psp"}, "rate psp"),
        ({}, "the rate of queue work"),
        ({"rate_by": "tenant", "tenant": "a/b:c"}, "the rate of queue work, tenant a/b:c"),
    ],
)
def test_a_rate_is_named_as_it_was_given(app: Stanchion, clock: Clock, options: dict[str, Any], words: str) -> None:
    for _ in range(2):
        app.queue(QUEUE).push({}, rate=0.01, **options)
    app.queue(QUEUE).reserve(2)
    clock.advance(101)
    (ready,) = app.find(state="ready")
    (wait,) = ready.past_waits
    assert waited(wait.kind, wait.name, 100.0) == f"Waited 1 min 40 s for {words}"


def test_a_job_with_more_waits_than_are_kept_says_so(app: Stanchion) -> None:
    lines = (f'["semaphore","","mail",{at}000000,{at + 240}000000]\n' for at in range(1, 3001, 300))
    (row,) = app.store.fetch([app.queue(QUEUE).push({}).id]).values()
    job = Job(context_of(app), row._replace(past_waits="+" + "".join(lines)), JobState.READY)
    told = [step for step in steps(job, Redaction(), None, job.past_waits) if step.mark == "waiting"]
    assert [step.title for step in told] == ["Waited 4 min for semaphore mail"] * 10
    assert [step.text.startswith("Until 00:04:01. It has waited before") for step in told] == [False] * 9 + [True]
