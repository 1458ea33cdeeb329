"""The attempts of tasks, and what results say about them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from stanchion import Retry, Stanchion, Worker
from stanchion.context import context_of
from stanchion.django.tasks.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_finished,
    task_started,
)
from tests.django.backend.conftest import Settings, imported, settings_of

NAME = "tests.django.backend.tasks"


def run_worker(app: Stanchion, name: str) -> None:
    """Run a worker until no job is due."""
    Worker(app, name=name, until_empty=True).run()


@pytest.fixture
def heard() -> Any:
    """The signals of tasks that start and finish: the name, the status and the attempts."""
    found: list[tuple[str, str, int]] = []

    def started(sender: type, task_result: Any, **_: Any) -> None:
        assert sender.__name__ == "StanchionBackend"
        found.append(("started", str(task_result.status), task_result.attempts))

    def finished(sender: type, task_result: Any, **_: Any) -> None:
        assert sender.__name__ == "StanchionBackend"
        found.append(("finished", str(task_result.status), task_result.attempts))
        if task_result.status == TaskResultStatus.FAILED:
            found.append((type(sys.exc_info()[1]).__name__, str(sys.exc_info()[1]), len(task_result.errors)))

    task_started.connect(started)
    task_finished.connect(finished)
    yield found
    task_started.disconnect(started)
    task_finished.disconnect(finished)


def test_a_failing_task_is_ready_again_and_failed_in_the_end(shop: Any, app: Stanchion, heard: Any) -> None:
    result = shop.fail.enqueue()
    with app.queue("default").reserve(1)[0] as job:
        job.rollback(0, shop.CardRefused("by hand"))
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.READY, 1, 1)
    app.drain()
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.FAILED, 3, 3)
    assert result.finished_at >= result.last_attempted_at >= result.started_at
    with pytest.raises(ValueError, match="Task failed"):
        result.return_value  # noqa: B018 - it raises
    error = result.errors[-1]
    assert (error.exception_class_path, error.exception_class) == (f"{NAME}.CardRefused", shop.CardRefused)
    assert error.traceback.startswith("Traceback (most recent call last):\n")
    assert error.traceback.endswith(f'in fail\n    raise CardRefused("no money")\n{NAME}.CardRefused: no money\n')
    assert "stanchion/" not in error.traceback
    assert heard == [
        ("started", "RUNNING", 2),
        ("started", "RUNNING", 3),
        ("finished", "FAILED", 3),
        ("CardRefused", "no money", 3),
    ]


def test_the_context_knows_the_attempt_and_its_workers(shop: Any, app: Stanchion, heard: Any) -> None:
    result = shop.attempt.enqueue(2)
    later = shop.attempt_later.enqueue()
    run_worker(app, "ada")
    for one in (result, later):
        one.refresh()
    number, result_id, status, workers = result.return_value
    assert (number, result_id, status) == (2, result.id, "RUNNING")
    assert workers == result.worker_ids
    assert len(workers) == 2
    assert all(worker.startswith("ada") for worker in workers)
    assert later.return_value == [1, later.id]
    assert sorted(heard) == [
        ("finished", "SUCCESSFUL", 1),
        ("finished", "SUCCESSFUL", 2),
        ("started", "RUNNING", 1),
        ("started", "RUNNING", 1),
        ("started", "RUNNING", 2),
    ]


def test_each_attempt_names_its_worker_and_the_first_its_start(configured: Settings, url: str) -> None:
    from stanchion.django import app_of

    configured({"default": settings_of(url)}, {"retry": Retry.constant(0, max_attempts=200)})
    shop, app = imported(), app_of()
    result = shop.fail.enqueue()
    queue, began = app.queue("default"), []
    for number in range(130):
        job = queue.reserve(1, holder=f"worker {number}")[0]
        began.append(job.started_at)
        job.rollback(0, shop.CardRefused("again"))
    job = queue.reserve(1, holder="the last")[0]
    result.refresh()
    assert result.status == TaskResultStatus.RUNNING
    assert (result.started_at, result.last_attempted_at) == (began[0], job.started_at)
    assert result.worker_ids == ["" for _ in range(70)] + [f"worker {number}" for number in range(70, 130)] + [
        "the last"
    ]
    assert result.attempts == 131


def test_a_faulty_receiver_harms_no_task(shop: Any, app: Stanchion) -> None:
    def refuse(**_: Any) -> None:
        raise ZeroDivisionError

    for signal in (task_started, task_finished):
        signal.connect(refuse)
    try:
        results = [shop.add.enqueue(1), shop.add_later.enqueue(1, 2)]
        app.drain()
    finally:
        for signal in (task_started, task_finished):
            signal.disconnect(refuse)
    for result in results:
        result.refresh()
        assert (result.return_value, result.attempts) == (3, 1)


def test_tasks_of_stanchion_itself_share_the_app(shop: Any, app: Stanchion, heard: Any) -> None:
    @app.task(name=f"{NAME}.double")
    def double(number: int) -> int:
        return 2 * number

    handle, result = double.enqueue(4), shop.add.enqueue(1)
    app.drain()
    assert handle.result(60) == 8
    assert heard == [("started", "RUNNING", 1), ("finished", "SUCCESSFUL", 1)]
    with pytest.raises(TaskResultDoesNotExist):
        shop.add.get_result(handle.id)
    assert result.id != handle.id


def test_secrets_among_positional_arguments_are_hidden(shop: Any, app: Stanchion) -> None:
    result = shop.pay.enqueue("ada", "geheim")
    job = app.get(result.id)
    assert job is not None
    assert job.payload == {"args": ["ada", "geheim"]}
    mask = context_of(app).hidden.masking(job.task, lambda: job.payload)
    assert mask is not None
    assert "geheim" not in mask("ada has the password geheim")


def test_a_retry_by_hand_counts_attempts_anew(shop: Any, app: Stanchion) -> None:
    result, queue = shop.fail.enqueue(), app.queue("default")
    for number in range(3):
        queue.reserve(1, holder=f"worker {number}")[0].rollback(0, shop.CardRefused("before"))
    result.refresh()
    assert (result.status, result.worker_ids) == (TaskResultStatus.FAILED, ["worker 0", "worker 1", "worker 2"])
    app.retry_job(result.id)
    result.refresh()
    assert (result.status, result.worker_ids, result.started_at) == (TaskResultStatus.READY, [], None)
    queue.reserve(1, holder="worker 3")[0].rollback(0, shop.CardRefused("after"))
    result.refresh()
    assert (result.status, result.worker_ids) == (TaskResultStatus.READY, ["worker 3"])
    queue.reserve(1, holder="worker 4")[0].commit(5)
    result.refresh()
    assert (result.worker_ids, result.return_value, len(result.errors)) == (["worker 3", "worker 4"], 5, 4)


def test_a_task_has_options_of_its_own(shop: Any, app: Stanchion) -> None:
    result = shop.fail_once.enqueue()
    job = app.get(result.id)
    assert job is not None
    assert (job.max_attempts, job.timeout) == (1, 60)
    app.drain()
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    assert result.task == shop.fail_once
    for wrong in ({"max_attempts": 0}, {"timeout": -1}, {"retry": 3}):
        with pytest.raises(InvalidTask, match=next(iter(wrong))):
            type(shop.fail)(func=shop.fail.func, **wrong)


def test_a_system_exit_fails_the_task_and_not_the_worker(shop: Any, app: Stanchion) -> None:
    for run in (app.drain, lambda: run_worker(app, "ada")):
        result = shop.leave.enqueue()
        run()
        result.refresh()
        assert (result.status, result.errors[-1].exception_class) == (TaskResultStatus.FAILED, SystemExit)
        assert result.errors[-1].traceback.endswith("SystemExit: the task leaves\n")


def test_a_result_that_json_lacks_fails_at_once(shop: Any, app: Stanchion) -> None:
    result = shop.not_json.enqueue()
    app.drain()
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    assert result.errors[0].exception_class is TypeError
    assert "Unsupported type" in result.errors[0].traceback


def test_a_result_is_normalised(shop: Any, app: Stanchion) -> None:
    result = shop.echo.enqueue(1, a=2)
    app.drain()
    result.refresh()
    assert result.return_value == [[1], {"a": 2}]


def test_a_buried_task_keeps_the_error_it_was_raised_from(shop: Any, app: Stanchion) -> None:
    result = shop.bury.enqueue()
    app.drain()
    result.refresh()
    (error,) = result.errors
    assert (result.status, error.exception_class) == (TaskResultStatus.FAILED, shop.CardRefused)
    assert f"{NAME}.CardRefused: stolen" in error.traceback
    assert error.traceback.endswith("Bury: the card is stolen\n")


def test_a_snoozed_task_has_one_attempt(shop: Any, app: Stanchion) -> None:
    result = shop.snooze_once.enqueue()
    app.drain()
    result.refresh()
    assert (result.return_value, result.attempts, result.errors) == ("done", 1, [])


def test_mistakes_of_the_task_end_it_after_three_attempts(configured: Settings, tmp_path: Path) -> None:
    from stanchion.django import app_of

    configured({"default": settings_of(f"sqlite:///{tmp_path / 'shop.db'}")}, {"retry": Retry.constant(0)})
    result = imported().mistake.enqueue()
    app_of().drain()
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 3)


def test_arguments_that_no_longer_fit_fail_at_once(shop: Any, app: Stanchion) -> None:
    with Stanchion(app.url) as other:  # as an older release would
        stored = other.enqueue(f"{NAME}.add", 1, 2, 3)
    app.drain()
    result = shop.add.get_result(stored.id)
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    assert result.errors[0].exception_class is TypeError


def test_a_cancelled_task_has_failed(shop: Any, app: Stanchion) -> None:
    result = shop.add.enqueue(1)
    app.cancel(result.id)
    result.refresh()
    assert (result.status, result.attempts, result.errors) == (TaskResultStatus.FAILED, 0, [])
    assert result.is_finished


def test_a_dead_letter_has_failed_in_its_own_queue(shop: Any, app: Stanchion) -> None:
    app.queue("default").configure(dead_letter="dead")
    result = shop.fail_once.enqueue()
    app.drain(["default"])
    result.refresh()
    assert (result.status, result.attempts, result.task) == (TaskResultStatus.FAILED, 1, shop.fail_once)
    assert result.finished_at is not None


def test_a_lost_lease_is_an_error_with_its_worker(shop: Any, app: Stanchion) -> None:
    with app.testing() as clock:
        result = shop.add.enqueue(1)
        app.queue("default").reserve(1, lease=1, holder="gone")
        clock.advance(5)
        app.maintain()
        result.refresh()
        assert (result.status, result.worker_ids) == (TaskResultStatus.READY, ["gone"])
        assert result.errors[0].exception_class_path == "stanchion.errors.LeaseLost"
        assert result.errors[0].traceback == "LeaseLost: the lease ran out or the worker died\n"


def test_a_task_that_dies_of_a_lost_lease_has_finished(shop: Any, app: Stanchion, heard: Any) -> None:
    with app.testing() as clock:
        result = shop.fail_once.enqueue()
        app.queue("default").reserve(1, lease=1, holder="gone")
        clock.advance(5)
        app.maintain()
        result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert [(event, status) for event, status, _ in heard] == [
        ("finished", "FAILED"),
        ("LeaseLost", heard[-1][1]),
    ]


def test_a_worker_imports_the_module_of_a_task(app: Stanchion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = f"late_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{folder}.py").write_text(
        "from tests.django.backend.tasks import task\n\n\n@task()\ndef hello():\n    return 'hello'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    handles = [app.enqueue(f"{folder}.{name}", queue="default") for name in ("hello", "gone")]
    missing = app.enqueue(f"{folder}_missing.hello", queue="default")
    app.drain(["default"])
    assert handles[0].result(60) == "hello"
    assert [one.job().attempts for one in (handles[1], missing)] == [0, 0]
