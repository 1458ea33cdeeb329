"""A misspelt option is refused, and not ignored."""

# mypy: disable-error-code="call-arg,call-overload,arg-type,unused-ignore"
# The calls are wrong on purpose.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stanchion import Push, Queue, Retry, Stanchion, Worker, chain
from stanchion.app import app_of
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion_conformance.harness import QUEUE

CALLS: dict[str, Callable[[Stanchion, Queue], Any]] = {
    "app.find": lambda app, _: app.find(status="dead"),
    "find": lambda _, q: q.find(status="dead"),
    "find in another queue": lambda _, q: q.find(queue="elsewhere"),
    "history": lambda _, q: q.history(state="dead"),
    "push": lambda _, q: q.push({}, dely=5),
    "Push": lambda _, q: q.push_many([Push({}, dely=5)]),
    "push_many": lambda _, q: q.push_many([{}], delay=5),
    "pop": lambda _, q: q.pop(timeout=1),
    "reserve": lambda _, q: q.reserve(limit=3),
    "configure": lambda _, q: q.configure(max_runing=1),
    "purge_history": lambda _, q: q.purge_history(older=1),
    "queue": lambda app, _: app.queue(QUEUE, max_runing=1),
    "semaphore": lambda app, _: app.semaphore("smtp", capcity=3),
    "task": lambda app, _: app.task(name="work", prioritty=3)(len),
    "cron": lambda app, _: app.cron("0 3 * * *", name="work", prioritty=3)(len),
    "using": lambda app, _: app.using("work", queu="mail"),
    "task.using": lambda app, _: app.task(name="work")(len).using(dely=3),
    "enqueue": lambda app, _: app.enqueue("work", 1, user_id=3),
    "station": lambda app, _: app.pipeline("etl").station("raw", max_runing=1)(len),
    "pipeline.push": lambda app, _: app.pipeline("etl").push({}, "raw", dely=3),
    "event_group": lambda app, _: app.event_group("order", on_error=None),
    "Worker": lambda app, _: Worker(app, thread=3),
    "run": lambda app, _: app.run(thread=3),
    "Retry": lambda _, __: Retry(attempts=3),
    "Stanchion": lambda _, __: Stanchion("memory://", pol=1),
}

NO_MEMBERS: dict[str, Callable[[Any], Any]] = {
    "a value": lambda _: 5,
    "nothing": lambda _: None,
    "a task": lambda work: work,
    "a list of calls": lambda work: [work.s(1)],
    "a handle": lambda work: work.enqueue(1),
}


class TestUnknownOptions:
    """Concerns only the model."""

    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
    def test_are_refused(self, app: Stanchion, q: Queue, call: Callable[[Stanchion, Queue], Any]) -> None:
        app.pipeline("etl").station("raw")(lambda item: item)
        q.push({})
        with pytest.raises((InvalidInput, TypeError), match=r"unknown|unexpected|multiple"):
            call(app, q)
        assert q.size().ready == 1
        assert q.size().total == 1

    def test_the_error_names_what_was_meant(self, q: Queue) -> None:
        with pytest.raises(InvalidInput, match=r"did you mean 'state'\?.*choose from .*tenant"):
            q.find(stat="dead")
        with pytest.raises(InvalidInput, match=r"did you mean 'priority'\?"):
            q.push({}, prioritty=5)
        with pytest.raises(InvalidInput, match=r"did you mean 'queue'\?.*choose from .*\btx\b"):
            app_of(context_of(q)).using("work", queu="mail")

    def test_a_loop_over_a_misspelt_search_cancels_nothing(self, q: Queue) -> None:
        healthy = q.push({})
        with pytest.raises(InvalidInput):
            [q.cancel(job.id) for job in q.find(status="dead")]
        found = q.get(healthy.id)
        assert found is not None
        assert not found.state.final


class TestNoMembersOfAFlow:
    """Values that can't be parts of a flow are refused before anything is stored. Concerns only the model."""

    @pytest.mark.parametrize("what", NO_MEMBERS.values(), ids=NO_MEMBERS)
    def test_of_an_event_group(self, app: Stanchion, what: Callable[[Any], Any]) -> None:
        work = app.task(name="work", queue=QUEUE)(len)
        member = what(work)
        before = app.queue(QUEUE).size().total
        events = app.event_group("order-17")
        with pytest.raises(InvalidInput, match="a flow consists of calls"):
            events.add(member)
        with pytest.raises(InvalidInput, match="a flow consists of calls"):
            events.add(work.s("first"), member)
        assert app.queue(QUEUE).size().total == before
        events.close()
        assert events.result(timeout=60) == []

    @pytest.mark.parametrize("what", NO_MEMBERS.values(), ids=NO_MEMBERS)
    def test_of_any_other_flow(self, app: Stanchion, what: Callable[[Any], Any]) -> None:
        work = app.task(name="work", queue=QUEUE)(len)
        member = what(work)
        before = app.queue(QUEUE).size().total
        for build in (
            lambda: chain(work.s(1), member),
            lambda: work.s(1).then(member),
            lambda: app.enqueue_flow(member),
            lambda: app.event_group("order-18", then=member) if member is not None else chain(member),
            lambda: app.event_group("order-19", on_failure=member) if member is not None else chain(member),
        ):
            with pytest.raises(InvalidInput):
                build()
        assert app.queue(QUEUE).size().total == before
