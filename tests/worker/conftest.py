import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stanchion import Job, JobState, Stanchion, Worker


@pytest.fixture(params=["memory", "sqlite"])
def app(request, tmp_path) -> Iterator[Stanchion]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db?synchronous=off"
    app = Stanchion(url)
    yield app
    app.close()


@contextmanager
def working(app: Stanchion, queues: list[str] | None = None, **options: Any) -> Iterator[Worker]:
    worker = Worker(app, queues, **{"threads": 4, "grace": 5.0, **options})
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(grace=0)


def health(worker: Worker) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{worker.health_port}/", timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def until(reached: Callable[[], Any], seconds: float = 120.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := reached()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)
    return value


def ended(app: Stanchion, job_id: str, seconds: float = 120.0) -> Job:
    """The job once it is final."""
    until(lambda: _get(app, job_id).state.final, seconds)
    return _get(app, job_id)


def failed(app: Stanchion, job_id: str, seconds: float = 120.0) -> Job:
    """The job once it is back after a failure, or dead of it."""
    until(lambda: _get(app, job_id).failures and _get(app, job_id).state is not JobState.RUNNING, seconds)
    return _get(app, job_id)


def _get(app: Stanchion, job_id: str) -> Job:
    job = app.get(job_id)
    assert job is not None
    return job


class Faulty:
    """A store whose calls fail as long as `broken` says so."""

    def __init__(self, store: Any, *verbs: str) -> None:
        self._store, self._verbs = store, verbs
        self.broken = False
        self.error: Exception = ConnectionError("no route to the store")
        self.calls: dict[str, int] = {}

    @property
    def clock_offset(self) -> float:
        return float(self._store.clock_offset)

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        self._store.clock_offset = seconds

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if self._verbs and name not in self._verbs:
            return verb

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] = self.calls.get(name, 0) + 1
            if self.broken:
                raise self.error
            return verb(*args, **kwargs)

        return call if callable(verb) else verb
