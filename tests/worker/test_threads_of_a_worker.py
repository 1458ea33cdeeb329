"""A worker that has stopped leaves no thread behind: a process may run one after the other."""

import threading

import pytest

from stanchion import Stanchion
from tests.worker.conftest import until, working


@pytest.mark.parametrize("app", ["memory", "sqlite"], indirect=True)
def test_none_is_left(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stanchion.core.concurrency.threads._IDLE_SECONDS", 0.01)

    @app.task
    def task() -> str:
        return "done"

    @app.task
    async def other() -> str:
        return "done"

    before = set(threading.enumerate())
    with working(app):
        assert [one.result(timeout=60) for one in (task.enqueue(), other.enqueue())] == ["done"] * 2
    app.close()
    until(lambda: not set(threading.enumerate()) - before)
