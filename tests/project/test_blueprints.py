"""Tasks of a reusable package: declared without an app, and registered on one later."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import ref

import pytest

from stanchion import Attempt, InvalidInput, Job, Retry, Stanchion, Tasks
from stanchion.context import context_of
from tests.worker.conftest import ended, working


def billing() -> tuple[Tasks, Any]:
    tasks = Tasks()

    @tasks.task(name="charge", priority=20)
    def charge(order: int, job: Job | None = None) -> str:
        return f"charged {order} by {None if job is None else job.task}"

    return tasks, charge


def result(app: Stanchion, handle: Any) -> Any:
    app.drain()
    return handle.result(timeout=10)


class TestTasks:
    def test_can_be_called_and_not_enqueued_before_an_app_registers_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("STANCHION_URL", "memory://")
        _, charge = billing()
        assert charge(7) == "charged 7 by None"
        app = Stanchion("memory://")
        for refused in (
            lambda: charge.enqueue(7),
            lambda: charge.using(delay=5).enqueue(7),
            lambda: charge.enqueue_many([(7,)]),
            lambda: charge.s(7).enqueue(),
            lambda: app.enqueue_flow(charge.s(7)),
        ):
            with pytest.raises(InvalidInput, match=r"app\.register\(tasks\)"):
                refused()
        assert app.drain() == 0

    def test_enqueue_to_the_app_that_registers_them(self) -> None:
        tasks, charge = billing()
        app = Stanchion("memory://")
        app.register(tasks)
        handle = charge.enqueue(7)
        assert handle.job().priority == 20
        assert result(app, handle) == "charged 7 by charge"
        assert result(app, charge.s(8).enqueue()) == "charged 8 by charge"
        charge.enqueue(9)
        app.assert_enqueued(charge, args=[9], times=1)

    def test_run_in_a_worker(self) -> None:
        tasks, charge = billing()
        app = Stanchion("memory://")
        app.register(tasks, prefix="billing", queue="money")
        with working(app) as worker:
            assert worker.queues == ["money"]
            assert ended(app, charge.enqueue(7).id).result == "charged 7 by billing.charge"

    def test_a_prefix_and_a_queue_belong_to_the_registration(self) -> None:
        tasks, charge = billing()
        tasks.task(name="own", queue="own")(lambda: None)
        app = Stanchion("memory://")
        app.register(tasks, prefix="billing", queue="money")
        assert {name: task.queue for name, task in app.tasks.items()} == {
            "billing.charge": "money",
            "billing.own": "own",
        }
        assert charge.name == "billing.charge"

    def test_names_are_those_of_the_functions(self) -> None:
        tasks = Tasks()
        tasks.task(module_level)
        app = Stanchion("memory://")
        app.register(tasks, prefix="billing")
        assert list(app.tasks) == [f"billing.{__name__}.module_level"]

    def test_what_is_declared_later_is_registered_at_once(self) -> None:
        tasks, _ = billing()
        app = Stanchion("memory://")
        app.register(tasks, prefix="billing")
        later = tasks.task(name="later")(lambda: "later")
        assert result(app, later.enqueue()) == "later"
        assert "billing.later" in app.tasks

    def test_several_apps_run_them_and_the_last_one_gets_their_jobs(self) -> None:
        tasks, charge = billing()
        first, second = Stanchion("memory://"), Stanchion("memory://")
        first.register(tasks, prefix="a")
        second.register(tasks, prefix="b")
        assert result(second, charge.enqueue(1)) == "charged 1 by b.charge"
        assert result(first, first.enqueue("a.charge", 2)) == "charged 2 by a.charge"

    def test_twice_on_one_app_is_refused(self) -> None:
        tasks, _ = billing()
        app = Stanchion("memory://")
        app.register(tasks)
        with pytest.raises(InvalidInput, match="already"):
            app.register(tasks, prefix="b")

    def test_an_app_that_is_gone_is_not_kept(self) -> None:
        tasks, _ = billing()
        app = Stanchion("memory://")
        app.register(tasks)
        gone = ref(context_of(app))
        second = Stanchion("memory://")
        second.register(tasks)
        app.close()
        del app
        gc.collect()
        assert gone() is None
        tasks.task(name="later")(lambda: None)
        assert "later" in second.tasks

    def test_the_retry_policy_of_the_app_is_their_default(self) -> None:
        tasks, charge = billing()
        app = Stanchion("memory://", retry=Retry.constant(1, max_attempts=3))
        app.register(tasks)
        assert charge.enqueue(1).job().max_attempts == 3

    def test_two_of_a_name_are_refused(self) -> None:
        tasks, _ = billing()
        with pytest.raises(InvalidInput, match="two tasks"):
            tasks.task(name="charge")(lambda: 2)
        app = Stanchion("memory://")
        app.task(name="charge")(lambda: 3)
        with pytest.raises(InvalidInput, match="two tasks"):
            app.register(tasks)

    def test_wrong_options_are_refused_at_the_declaration(self) -> None:
        with pytest.raises(InvalidInput):
            Tasks().task(priority=1000)(lambda: None)

    def test_rates_are_declared_as_an_app_does(self) -> None:
        tasks = Tasks()
        tasks.rate("gateway", "20/s")
        charge = tasks.task(name="charge", rate_key="gateway")(lambda: "charged")
        app = Stanchion("memory://")
        app.register(tasks)
        assert result(app, charge.enqueue()) == "charged"
        assert [rate.per_second for rate in app.rates()] == [20]


def module_level() -> None:
    pass


class TestSchedules:
    def test_are_those_of_the_app(self) -> None:
        tasks, charge = billing()
        tasks.cron("0 3 * * *", args=[7])(charge)

        @tasks.cron("0 4 * * *", schedule="morning", name="report")
        def report() -> None:
            pass

        app = Stanchion("memory://")
        app.register(tasks, prefix="billing")
        found = {one.name: (one.expression, one.task) for one in app.schedules()}
        assert found == {
            "billing.charge": ("0 3 * * *", "billing.charge"),
            "billing.morning": ("0 4 * * *", "billing.report"),
        }

    def test_of_a_task_of_something_else_are_refused(self) -> None:
        app = Stanchion("memory://")
        other = app.task(name="other")(lambda: None)
        with pytest.raises(InvalidInput, match="of something else"):
            Tasks().cron("0 3 * * *")(other)


class TestAround:
    @pytest.mark.parametrize("kind", ["sync", "async", "both", "both, async"])
    def test_middleware_concerns_these_tasks_only(self, kind: str) -> None:
        tasks, seen = Tasks(), list[str]()

        def around(attempt: Attempt, call_next: Callable[[], Any]) -> Any:
            seen.append(attempt.task)
            return call_next()

        async def aaround(attempt: Attempt, call_next: Callable[[], Awaitable[Any]]) -> Any:
            seen.append(attempt.task)
            return await call_next()

        class Both:
            run, arun = staticmethod(around), staticmethod(aaround)

        tasks.middleware(around if kind == "sync" else aaround if kind == "async" else Both())
        app = Stanchion("memory://")
        app.register(tasks, prefix="billing")

        async def aown() -> None:
            pass

        def own() -> None:
            pass

        function: Any = aown if "async" in kind else own
        app.task(name="own")(function).enqueue()
        tasks.task(name="own")(function).enqueue()
        assert app.drain() == 2
        assert seen == ["billing.own"]

    def test_listeners_hear_of_these_tasks_only(self) -> None:
        tasks, charge = billing()
        seen: list[Any] = []

        @tasks.on("done")
        def heard(job: Job) -> None:
            seen.append(job.task)

        @tasks.on("dead")
        def died(_job: Job, error: BaseException) -> None:
            seen.append(error)

        app = Stanchion("memory://")
        app.register(tasks, prefix="billing")
        app.task(name="own")(lambda: None).enqueue()
        charge.enqueue(7)
        app.drain()
        assert seen == ["billing.charge"]

    def test_hooks_are_those_of_the_worker(self) -> None:
        tasks, seen = Tasks(), list[str]()
        tasks.on_worker_start(lambda: seen.append("start"))
        tasks.on_worker_stop(per="process")(lambda: seen.append("stop"))
        tasks.task(name="t")(lambda: None)
        app = Stanchion("memory://")
        app.register(tasks)
        with working(app):
            pass
        assert seen == ["start", "stop"]

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda tasks: tasks.middleware(5),
            lambda tasks: tasks.on("never")(print),
            lambda tasks: tasks.on_worker_start(per="job")(print),
            lambda _tasks: Stanchion("memory://").register(5),  # type: ignore[arg-type]
            lambda tasks: Stanchion("memory://").register(tasks, prefix=5),  # type: ignore[arg-type]
        ],
    )
    def test_anything_else_is_refused(self, wrong: Callable[[Tasks], Any]) -> None:
        with pytest.raises(InvalidInput):
            wrong(Tasks())
