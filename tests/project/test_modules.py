"""Modules that an app includes or discovers: imported when a process first needs its tasks."""

from __future__ import annotations

import pickle
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stanchion import InvalidInput, Stanchion
from stanchion.context import context_of
from stanchion.service.loading import load, load_pipeline
from stanchion.stores.records.outcomes import Rollback
from tests.worker.conftest import ended, working

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes modules of a project, which can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def write(**files: str) -> None:
        for name, text in files.items():
            file = tmp_path / f"{name.replace('__init', '!').replace('__', '/').replace('!', '__init__')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))

    yield write
    for name in set(sys.modules) - before:
        if name.split(".")[0].startswith("shop"):
            del sys.modules[name]


TASK = """
    from shop.app import app

    @app.task(name="{0}")
    def {0}() -> str:
        return "{0}"
"""


def project(write: Write, how: str) -> Stanchion:
    """A package with the app, and modules of tasks that import it."""
    write(
        shop____init="",
        shop__app=f"from stanchion import Stanchion\napp = Stanchion('memory://')\n{how}",
        shop__tasks=TASK.format("welcome"),
        shop__billing____init="",
        shop__billing__tasks=TASK.format("charge"),
        shop__billing__views="raise AssertionError('nobody asked for it')",
        shop__stock____init="",
        shop__stock__tasks____init="",
        shop__stock__tasks__daily=TASK.format("count"),
        shop__stock__tasks____main__="raise AssertionError('it is a program')",
    )
    from shop.app import app  # type: ignore[import-not-found]

    assert isinstance(app, Stanchion)
    return app


def imported() -> list[str]:
    return sorted(name for name in sys.modules if name.startswith("shop."))


INCLUDE = "app.include('shop.tasks')"
DISCOVER = "app = Stanchion('memory://', discover=['shop'])"


class TestInclude:
    def test_imports_nothing_at_once(self, write: Write) -> None:
        project(write, INCLUDE)
        assert imported() == ["shop.app"]

    @pytest.mark.parametrize(
        "need",
        [
            lambda app: app.tasks,
            lambda app: app.using("welcome").enqueue(),
            lambda app: app.drain(),
            lambda app: app.schedules(),
            lambda app: app.pipelines,
            lambda app: context_of(app).registry.task_named("welcome"),
        ],
    )
    def test_imports_at_the_first_need(self, write: Write, need: Callable[[Stanchion], Any]) -> None:
        app = project(write, INCLUDE)
        need(app)
        assert imported() == ["shop.app", "shop.tasks"]

    def test_a_worker_imports_when_it_starts(self, write: Write) -> None:
        app = project(write, INCLUDE)
        with working(app, ["default"]):
            assert "shop.tasks" in imported()

    def test_a_job_is_known_by_a_module_that_was_not_needed_before(self, write: Write) -> None:
        app = project(write, INCLUDE)
        from stanchion.jobs.call import encoded_call
        from stanchion.stores.records.jobs import NewJob

        app.store.push([NewJob("0" * 32, "default", encoded_call(context_of(app).codec, (), {}), "welcome")])
        app.drain(["default"])
        assert ended(app, "0" * 32).result == "welcome"

    def test_a_package_is_meant_with_all_its_modules(self, write: Write) -> None:
        app = project(write, "app.include('shop.stock.tasks')")
        assert list(app.tasks) == ["count"]

    def test_of_a_folder_without_init_too(self, write: Write) -> None:
        app = project(write, "app.include('shop.loose')")
        write(shop__loose__more=TASK.format("more"))
        assert list(app.tasks) == ["more"]

    def test_a_module_that_includes_more(self, write: Write) -> None:
        write(shop__more="from shop.app import app\napp.include('shop.billing.tasks')\n")
        app = project(write, "app.include('shop.more')")
        assert list(app.tasks) == []
        assert list(app.tasks) == ["charge"]

    def test_a_missing_module_is_named(self, write: Write) -> None:
        app = project(write, "app.include('shop.taks', 'shop.tasks')")
        for _ in range(2):
            with pytest.raises(InvalidInput, match=r"can't import 'shop\.taks'"):
                app.drain()

    def test_what_a_module_lacks_is_its_own_error_and_the_next_call_tries_again(
        self, write: Write, tmp_path: Path
    ) -> None:
        app = project(write, "app.include('shop.broken', 'shop.tasks')")
        write(shop__broken="import nothing_of_this_name")
        for _ in range(2):
            with pytest.raises(ModuleNotFoundError, match="nothing_of_this_name"):
                app.drain()
        (tmp_path / "shop" / "broken.py").write_text("")
        assert list(app.tasks) == ["welcome"]

    def test_other_threads_wait_for_the_imports(self, write: Write) -> None:
        app = project(write, "app.include('shop.slow')")
        write(
            shop__slow="import shop.gates as g\ng.begun.set()\ng.gate.wait(60)\n" + textwrap.dedent(TASK.format("slow"))
        )
        write(shop__gates="import threading\nbegun, gate = threading.Event(), threading.Event()\n")
        from shop import gates  # type: ignore[import-not-found]

        seen: list[list[str]] = []
        threads = [threading.Thread(target=lambda: seen.append(list(app.tasks))) for _ in range(3)]
        threads[0].start()
        assert gates.begun.wait(60)
        for thread in threads[1:]:
            thread.start()
        time.sleep(0.1)  # a thread that doesn't wait ends meanwhile
        gates.gate.set()
        for thread in threads:
            thread.join(60)
        assert seen == [["slow"]] * 3

    @pytest.mark.parametrize("wrong", ["", "shop tasks", ".tasks", "shop.", "shop/tasks.py", 5, None])
    def test_what_is_no_name_is_refused(self, wrong: Any) -> None:
        with pytest.raises(InvalidInput, match="names of modules"):
            Stanchion("memory://").include(wrong)

    def test_goes_along_with_a_pickled_app(self, write: Write) -> None:
        app = project(write, INCLUDE)
        again = pickle.loads(pickle.dumps(app))  # noqa: S301 - made here
        assert context_of(again).registry.includes._modules == {"shop.tasks": True}


class TestDiscover:
    def test_finds_the_modules_named_tasks_and_imports_no_others(self, write: Write) -> None:
        app = project(write, DISCOVER)
        assert imported() == ["shop.app"]
        assert sorted(app.tasks) == ["charge", "count", "welcome"]
        assert "shop.billing.views" not in imported()

    def test_nothing_found_is_an_error(self, write: Write) -> None:
        write(shopless____init="", shopless__views="")
        with pytest.raises(InvalidInput, match="no module named 'tasks'"):
            Stanchion("memory://", discover=["shopless"]).drain()

    def test_a_module_is_no_package(self, write: Write) -> None:
        write(shopless="")
        with pytest.raises(InvalidInput, match=r"app\.include\('shopless'\)"):
            Stanchion("memory://", discover=["shopless"]).drain()

    @pytest.mark.parametrize("wrong", ["shop", [5], 5])
    def test_what_is_no_list_of_names_is_refused(self, wrong: Any) -> None:
        with pytest.raises(InvalidInput, match="discover"):
            Stanchion("memory://", discover=wrong)


FACTORY = """
    from stanchion import Stanchion

    made = []

    def create_app():
        app = Stanchion("memory://")
        made.append(app)

        @app.task(name="welcome")
        def welcome() -> str:
            return "welcome"

        etl = app.pipeline("etl")

        @etl.station("raw")
        def raw(item):
            return item

        return app

    class Config:
        create_app = staticmethod(create_app)

    def no_app():
        return 5
"""


class TestFactory:
    @pytest.mark.parametrize("path", ["shopfactory:create_app()", "shopfactory:Config.create_app()"])
    def test_makes_the_one_app_of_the_process(self, write: Write, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stanchion.service.loading._made", {})
        write(shopfactory=FACTORY)
        app = load(path)
        assert list(app.tasks) == ["welcome"]
        assert load(path) is app
        assert load_pipeline(path) is app.pipelines["etl"]

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            (
                "shopfactory:create_app",
                r"it is a function: if it makes the app, name it as 'shopfactory:create_app\(\)'",
            ),
            ("shopfactory:missing()", "has no function 'missing'"),
            ("shopfactory:made()", "has no function 'made'"),
            ("shopfactory:no_app()", "is not a Stanchion app"),
            ("shopfactory:made", "is not a Stanchion app"),
        ],
    )
    def test_says_what_is_wrong(self, write: Write, path: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stanchion.service.loading._made", {})
        write(shopfactory=FACTORY)
        with pytest.raises(InvalidInput, match=message):
            load(path)

    def test_further_modules_are_imported(self, write: Write) -> None:
        project(write, "")
        assert sorted(load("shop.app:app", ["shop.tasks", "shop.billing.tasks"]).tasks) == ["charge", "welcome"]


CELL = """
@app.task(retry_on=ValueError)
def welcome():
    return {0}

@app.cron("{1} * * * *")
def nightly():
    return {0}

@app.on("done")
def heard(job):
    seen.append({0})

@app.middleware
def around(attempt, call_next):
    seen.append("around {0}")
    return call_next()

@app.on_worker_start
def start():
    seen.append("start {0}")

@etl.station("raw")
def raw(item):
    return {0}
"""


class TestNotebooks:
    def test_a_cell_that_is_run_again_replaces_what_it_declares(self) -> None:
        app = Stanchion("memory://")
        seen: list[Any] = []
        cells: dict[str, Any] = {"__name__": "__main__", "app": app, "seen": seen, "etl": app.pipeline("etl")}
        for number in (1, 2):
            exec(CELL.format(number, number), cells)  # noqa: S102
        handle = cells["welcome"].enqueue()
        item = cells["etl"].push(0, station="raw")
        app.drain()
        assert handle.result(timeout=10) == 2
        assert app.tasks[cells["welcome"].name] is cells["welcome"]
        assert ended(app, item.id).result == 2
        assert seen == ["around 2", 2, "around 2", 2]
        assert [schedule.expression for schedule in app.schedules()] == ["2 * * * *"]
        assert len(context_of(app).hooks.of("start", "process", asynchronous=False)) == 1

    def test_functions_that_share_a_name_for_another_reason_stay(self) -> None:
        app = Stanchion("memory://")
        seen: list[str] = []
        cells: dict[str, Any] = {"__name__": "__main__", "app": app, "seen": seen}
        exec("for one in 'ab': app.on('done')(lambda job, one=one: seen.append(one))", cells)  # noqa: S102
        app.task(name="t")(lambda: None).enqueue()
        app.drain()
        assert seen == ["a", "b"]

    def test_two_functions_of_a_module_are_refused(self) -> None:
        app = Stanchion("memory://")
        cells: dict[str, Any] = {"__name__": "shop_module", "app": app}
        exec("@app.task\ndef welcome(): pass", cells)  # noqa: S102
        with pytest.raises(InvalidInput, match="two tasks are named"):
            exec("@app.task\ndef welcome(): return 2", cells)  # noqa: S102


def test_the_retry_policy_of_an_app_is_the_default_of_its_tasks() -> None:
    from stanchion import Retry

    policy = Retry.constant(7, jitter=0, max_attempts=3)
    app = Stanchion("memory://", retry=policy)
    task = app.task(name="t")(lambda: None)
    own = app.task(name="own", retry=Retry.constant(1))(lambda: None)
    assert task.enqueue().job().max_attempts == 3
    assert (task.retry, own.retry.delay(1) != 7) == (policy, True)
    app.pipeline("etl").station("raw")(lambda item: item)
    assert context_of(app).registry.stations["etl.raw"].retry is policy
    app.queue("q").push(1)
    (job,) = app.queue("q").reserve()
    outcome = job.rolled_back(error="no").outcome
    assert isinstance(outcome, Rollback)
    assert outcome.delay == 7
    with pytest.raises(InvalidInput, match="Retry policy"):
        Stanchion("memory://", retry=5)  # type: ignore[arg-type]
