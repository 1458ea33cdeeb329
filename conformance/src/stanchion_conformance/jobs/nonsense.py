"""Invalid values for every argument: refused in one sentence, or accepted as they are; never another error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stanchion import (
    Bury,
    JobHandle,
    JobState,
    Pipeline,
    Push,
    Queue,
    Reservation,
    Retry,
    RetryAfter,
    Send,
    Snooze,
    Stanchion,
    Worker,
    chain,
    group,
)
from stanchion.app import app_of
from stanchion.context import context_of
from stanchion.errors import InvalidInput, StanchionError
from stanchion.jobs.options import ENQUEUE_OPTIONS
from stanchion.jobs.search import Search
from stanchion.stores.protocol import Store
from stanchion.worker.worker import run_worker
from stanchion_conformance.harness import QUEUE

NONSENSE: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**70, -(2**70), 10**400, 1.5, math.nan, math.inf),
    *("", "x", "yesterday", "nul\0", "\ud800", "é" * 300, b"x"),
    *([], [None], ["x"], {}, {"a": 1}, (), range(0), range(-3, 2), object(), len, int),
    *(datetime(2030, 1, 1), datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)),
    *(timedelta(days=-1), timedelta.max, "01a20000-0000-7000-8000-000000000000"),
)

ENDLESS = (None, math.inf)
"""As a time-out: for ever, which is no nonsense."""

LONGEST = 1200
"""Characters of an error: it tells what is wrong, and not all of it."""

ACTS: dict[str, Callable[[Stanchion, Queue, Any], Any]] = {
    "get": lambda app, q, x: (app.get(x), q.get(x)),
    "cancel": lambda app, q, x: (app.cancel(x), q.cancel(x)),
    "retry": lambda _, q, x: q.retry(x),
    "retry_job": lambda app, _, x: app.retry_job(x),
    "replay": lambda app, q, x: (app.replay(x), q.replay(x)),
    "flow": lambda app, _, x: app.flow(x).state,
    "handle": lambda app, _, x: JobHandle(app, x).state,
    "queue": lambda app, _, x: app.queue(x),
    "push_many": lambda _, q, x: q.push_many(x),
    "Push": lambda _, q, x: q.push_many([Push(x)]),
    "tx": lambda _, q, x: q.push({}, tx=x),
    "pop": lambda _, q, x: q.pop(x) if x != 2**70 else None,
    "reserve": lambda _, q, x: q.reserve(x, lease=1e6),
    "reserve lease": lambda _, q, x: q.reserve(lease=x),
    "reserve lanes": lambda _, q, x: q.reserve(lanes=x),
    "purge_history": lambda _, q, x: q.purge_history(x),
    "history": lambda _, q, x: q.history(limit=x),
    "enqueue": lambda app, _, x: app.enqueue(x),
    "using": lambda app, _, x: app.using(x).enqueue(),
    "enqueue_many": lambda app, _, x: app.using("work").enqueue_many(x),
    "a call": lambda app, _, x: app.using("work").enqueue_many([x]),
    "task": lambda app, _, x: app.task(name=f"work {id(x)}")(x),
    "task name": lambda app, _, x: app.task(name=x)(lambda: None),
    "task retry": lambda app, _, x: app.task(name=f"retry {id(x)}", retry=x)(lambda: None),
    "on": lambda app, _, x: app.on(x)(len),
    "listener": lambda app, _, x: Stanchion(store=app.store).on("dead")(x),
    "cron": lambda app, _, x: app.cron(x, name=f"cron {id(x)}")(lambda: None),
    "cron tz": lambda app, _, x: app.cron("0 3 * * *", tz=x, name=f"tz {id(x)}")(lambda: None),
    "cron args": lambda app, _, x: app.cron("0 3 * * *", args=x, name=f"args {id(x)}")(lambda *_: None),
    "schedule": lambda app, _, x: app.schedule(x),
    "semaphore": lambda app, _, x: app.semaphore(x),
    "capacity": lambda app, _, x: app.semaphore("smtp", x),
    "resize": lambda app, _, x: app.semaphore("mine", 1).resize(x),
    "holders": lambda app, _, x: app.semaphore("mine", 1).holders(x),
    "blocked": lambda app, _, x: app.semaphore("mine", 1).blocked(x),
    "event_group": lambda app, _, x: app.event_group(x),
    "chain": lambda _, __, x: chain(x),
    "group": lambda app, _, x: app.enqueue_flow(group(x)),
    "flow tx": lambda app, _, x: app.using("work").s().enqueue(tx=x),
    "graph": lambda app, _, x: app.using("work").s().enqueue().graph(x),
    "result": lambda app, _, x: x in ENDLESS or x == 2**70 or JobHandle(app, _GONE).result(timeout=x),
    "flow result": lambda app, _, x: x in ENDLESS or app.flow(_GONE).result(timeout=x),
    "drain": lambda app, _, x: app.drain(x),
    "pipeline": lambda app, _, x: app.pipeline(x),
    "station": lambda app, _, x: _pipeline(app).station(x)(lambda item: item),
    "station function": lambda app, _, x: _pipeline(app).station("raw")(x),
    "station to": lambda app, _, x: _pipeline(app).station("raw", to=x)(lambda item: item),
    "station attempts": lambda app, _, x: _pipeline(app).station("raw", max_attempts=x)(lambda item: item),
    "station rounds": lambda app, _, x: _pipeline(app).station("raw", max_rounds=x)(lambda item: item),
    "Send": lambda _, __, x: Send(x),
    "Send delay": lambda _, __, x: Send("to", delay=x),
    "Snooze": lambda _, __, x: Snooze(x),
    "RetryAfter": lambda _, __, x: RetryAfter(x),
    "Bury": lambda _, __, x: Bury(x),
    "Retry": lambda _, __, x: Retry(x).delay(1),
    "Retry jitter": lambda _, __, x: Retry(jitter=x).delay(1),
    "Retry max": lambda _, __, x: Retry(max=x).delay(1),
    "constant": lambda _, __, x: Retry.constant(x).delay(1),
    "linear": lambda _, __, x: Retry.linear(x).delay(1),
    "exponential": lambda _, __, x: Retry.exponential(x).delay(1),
    "factor": lambda _, __, x: Retry.exponential(factor=x).delay(3),
    "url": lambda _, __, x: x is None or Stanchion(x),
    "keys": lambda _, __, x: Stanchion("memory://", keys=x),
    "max_payload": lambda _, __, x: Stanchion("memory://", max_payload=x).queue(QUEUE).push("long enough"),
    "worker queues": lambda app, _, x: Worker(app, x),
    "worker threads": lambda app, _, x: Worker(app, threads=x),
    "worker heartbeat": lambda app, _, x: Worker(app, heartbeat=x),
    "worker grace": lambda app, _, x: Worker(app, grace=x),
    "worker poll": lambda app, _, x: Worker(app, poll=x),
    "worker port": lambda app, _, x: Worker(app, health_port=x),
}

SETTINGS = ("max_rate", "max_running", "lanes", "lanes_per_tenant", "history_ttl", "dead_letter", "lease", "paused")

OUTCOMES: dict[str, Callable[[Reservation, Any], Any]] = {
    "result": lambda job, x: job.commit(x),
    "payload": lambda job, x: job.commit(payload=x),
    "tx": lambda job, x: job.commit(tx=x),
    "delay": lambda job, x: job.rollback(x),
    "error": lambda job, x: job.rollback(0, error=x),
    "release": lambda job, x: job.release(x),
    "move": lambda job, x: job.move(x),
    "move delay": lambda job, x: job.move("next", delay=x),
    "bury": lambda job, x: job.bury(x),
    "extend": lambda job, x: _extend(job, x),
    "progress": lambda job, x: job.progress(x),
}


def _extend(job: Reservation, seconds: Any) -> None:
    if seconds != 1.5:  # no nonsense, and too short for a slow machine
        job.extend(seconds)


def _pipeline(app: Stanchion) -> Pipeline:
    return Pipeline(context_of(app), "etl", run_worker)


_GONE = "01a20000-0000-7000-8000-000000000001"


def refused_or_taken(act: Callable[[Any], Any]) -> None:
    """Call with each invalid value; only short errors of the documented kinds may reach users."""
    for nonsense in NONSENSE:
        said = ""
        try:
            act(nonsense)
        except StanchionError as error:
            said = str(error)
        except Exception as error:
            raise AssertionError(f"{nonsense!r:.80}: {type(error).__name__}: {error}") from error
        assert len(said) < LONGEST, f"{nonsense!r:.80}: too long an error"


class TestNonsense:
    """Concerns only the model."""

    @pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
    def test_as_an_argument(self, app: Stanchion, q: Queue, act: Callable[[Stanchion, Queue, Any], Any]) -> None:
        refused_or_taken(lambda nonsense: act(app, q, nonsense))

    @pytest.mark.parametrize("option", sorted(ENQUEUE_OPTIONS))
    def test_as_an_option(self, app: Stanchion, q: Queue, option: str) -> None:
        refused_or_taken(lambda nonsense: app.using("work", **{option: nonsense}).enqueue())
        if option not in ("queue", "tx"):
            refused_or_taken(lambda nonsense: q.push({}, **{option: nonsense}))
            refused_or_taken(lambda nonsense: q.push_many([Push({}, **{option: nonsense})]))

    @pytest.mark.parametrize("option", sorted(Search.__optional_keys__))
    def test_in_a_search(self, app: Stanchion, q: Queue, option: str) -> None:
        q.push({})
        refused_or_taken(lambda nonsense: app.find(**{option: nonsense}))

    @pytest.mark.parametrize("setting", SETTINGS)
    def test_as_a_setting(self, app: Stanchion, q: Queue, setting: str) -> None:
        refused_or_taken(lambda nonsense: q.configure(**{setting: nonsense}))
        declared = iter(range(len(NONSENSE)))
        refused_or_taken(lambda nonsense: app.queue(f"q{next(declared)}", **{setting: nonsense}).push({}))

    @pytest.mark.parametrize("act", OUTCOMES.values(), ids=OUTCOMES)
    def test_as_an_outcome(self, q: Queue, act: Callable[[Reservation, Any], Any]) -> None:
        for job in self.reserved(q):
            refused_or_taken(lambda nonsense, job=job: act(job, nonsense))  # type: ignore[misc]
            found = app_of(context_of(q)).get(job.id)
            assert found is not None
            if job.settled_as is None:
                assert found.state is JobState.RUNNING
                job.commit()

    def reserved(self, q: Queue) -> Iterator[Reservation]:
        q.push({}, max_attempts=100)
        return iter(q.reserve())


class TestWhatWasTakenForSomethingElse:
    """Concerns only the model."""

    @pytest.mark.parametrize("items", ["abc", {"id": 1}, b"abc"], ids=repr)
    def test_a_single_payload_is_no_list_of_them(self, q: Queue, items: Any) -> None:
        with pytest.raises(InvalidInput, match="the payloads must be a list"):
            q.push_many(items)
        assert q.size().total == 0

    def test_headers_without_any(self, q: Queue, store: Store) -> None:
        pushed = q.push({}, headers={})
        assert store.fetch([pushed.id])[pushed.id].headers is None
        assert q.reserve()[0].headers == {}

    @pytest.mark.parametrize("job_id", [None, 5, b"x", ["x"], "nul\0", "tab\t"], ids=repr)
    def test_what_is_no_id(self, app: Stanchion, job_id: Any) -> None:
        for ask in (app.get, app.queue(QUEUE).get):
            with pytest.raises(InvalidInput, match="the id of a job is a string"):
                ask(job_id)
        for act in (app.cancel, app.retry_job):
            with pytest.raises(InvalidInput, match="is not the id of a job; pass"):
                act(job_id)

    def test_the_name_of_an_item(self, app: Stanchion, q: Queue) -> None:
        job = q.push({})
        for act in (app.cancel, app.retry_job, q.cancel):
            with pytest.raises(InvalidInput, match=f"job {job.id} carries one item: give its id, without /17"):
                act(f"{job.id}/17")
        with pytest.raises(InvalidInput, match=f"item 17 is part of chunk {job.id}, which ends as a whole"):
            app.replay([f"{job.id}/17"])
        assert app.cancel(job.id) is JobState.CANCELLED

    def test_text_with_nul(self, q: Queue) -> None:
        q.push("payload")
        with pytest.raises(InvalidInput, match="without NUL"):
            q.find(text="\0")
        with pytest.raises(InvalidInput, match="since must be an aware datetime, not 'yesterday'"):
            q.find(since="yesterday")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="to 1,000,000"):
            q.reserve(2**70)

    def test_errors_are_at_hand(self) -> None:
        import stanchion
        from stanchion import errors

        for name, found in vars(errors).items():
            if isinstance(found, type) and issubclass(found, StanchionError):
                assert getattr(stanchion, name) is found
                assert name in stanchion.__all__
