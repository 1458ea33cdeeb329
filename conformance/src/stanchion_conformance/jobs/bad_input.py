"""Bad input is refused before anything is stored, with an error that says what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from stanchion import JobState, Push, Queue, Stanchion
from stanchion.errors import InvalidInput, StanchionError
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import QUEUE

NO_JSON: dict[str, Any] = {
    "object": object(),
    "set": {1},
    "bytes": b"x",
    "datetime": datetime(2030, 1, 1),
    "nan": math.nan,
    "infinity": [math.inf],
    "key": {1: "one"},
    "nested key": {"a": [{None: 1}]},
    "surrogate": "\ud800",
}

OPTIONS: dict[str, dict[str, Any]] = {
    "unknown": {"prioritty": 5},
    "naive run_at": {"run_at": datetime(2030, 1, 1)},
    "run_at as a number": {"run_at": 1_900_000_000},
    "run_at as text": {"run_at": "2030-01-01T00:00:00Z"},
    "negative delay": {"delay": -1},
    "negative timedelta": {"delay": timedelta(seconds=-1)},
    "endless delay": {"delay": math.inf},
    "delay nan": {"delay": math.nan},
    "delay as text": {"delay": "5"},
    "priority too high": {"priority": 101},
    "priority too low": {"priority": -101},
    "priority a fraction": {"priority": 1.5},
    "priority a bool": {"priority": True},
    "max_attempts 0": {"max_attempts": 0},
    "max_attempts a fraction": {"max_attempts": 2.5},
    "timeout 0": {"timeout": 0},
    "negative timeout": {"timeout": -1},
    "on_duplicate": {"on_duplicate": "ignore", "key": "k"},
    "empty key": {"key": ""},
    "long key": {"key": "k" * 201},
    "key with a control character": {"key": "k\x00"},
    "key no text": {"key": 5},
    "empty tenant": {"tenant": ""},
    "headers no mapping": {"headers": [1]},
    "headers no json": {"headers": {"x": object()}},
    "headers too large": {"headers": {"x": "y" * 70_000}},
}

SETTINGS: dict[str, dict[str, Any]] = {
    "unknown": {"max_runing": 5},
    "paused": {"paused": "yes"},
    "rate 0": {"max_rate": 0},
    "negative rate": {"max_rate": -1},
    "rate nan": {"max_rate": math.nan},
    "rate as text": {"max_rate": "5"},
    "running 0": {"max_running": 0},
    "running a fraction": {"max_running": 1.5},
    "negative ttl": {"history_ttl": -1},
    "lease 0": {"lease": 0},
    "dead letter": {"dead_letter": ""},
}

CALLS: dict[str, Callable[[Queue], Any]] = {
    "reserve none": lambda q: q.reserve(0),
    "reserve a negative number": lambda q: q.reserve(-1),
    "reserve for no time": lambda q: q.reserve(lease=0),
    "reserve for less time than a claim takes": lambda q: q.reserve(lease=0.009),
    "set a lease that is shorter than a claim": lambda q: q.configure(lease=0.009),
    "reserve for a negative time": lambda q: q.reserve(lease=-1),
    "wait for a negative time": lambda q: q.reserve(wait=-1),
    "pop for a negative time": lambda q: q.pop(wait=-1),
    "find an unknown state": lambda q: q.find(state="finished"),
    "find none": lambda q: q.find(limit=0),
    "find since a naive time": lambda q: q.find(since=datetime(2030, 1, 1)),
    "purge the future": lambda q: q.purge_history(older_than=-1),
}


class TestRefusedAtTheDoor:
    @pytest.mark.parametrize("payload", NO_JSON.values(), ids=NO_JSON)
    def test_payloads_that_json_cannot_hold(self, q: Queue, payload: Any) -> None:
        with pytest.raises(InvalidInput):
            q.push(payload)
        with pytest.raises(InvalidInput):
            q.push_many(["good", payload])
        assert q.size().total == 0

    def test_a_payload_over_the_limit(self, q: Queue, store: Store) -> None:
        with pytest.raises(InvalidInput, match="max_payload"):
            q.push("x" * (1024 * 1024))
        with pytest.raises(InvalidInput, match="max_payload"):
            q.push("é" * (512 * 1024))
        assert q.size().total == 0
        q.push("x" * (1024 * 1024 - 2))
        with pytest.raises(InvalidInput):
            Stanchion(store=store, max_payload=10).queue(QUEUE).push("more than ten bytes")
        assert q.size().total == 1

    @pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
    def test_options(self, app: Stanchion, q: Queue, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            q.push({}, **options)
        with pytest.raises(InvalidInput):
            q.push_many(["good", Push({}, **options)])
        with pytest.raises(InvalidInput):
            app.using("work", queue=QUEUE, **options).enqueue()
        assert q.size().total == 0

    def test_both_run_at_and_delay(self, q: Queue) -> None:
        at = q.push(1, delay=5).run_at
        with pytest.raises(InvalidInput):
            q.push({}, run_at=at, delay=5)
        assert q.size().total == 1

    @pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
    def test_settings(self, app: Stanchion, q: Queue, settings: dict[str, Any]) -> None:
        before = q.settings
        with pytest.raises(InvalidInput):
            q.configure(**{"lease": 5, **settings})
        with pytest.raises(InvalidInput):
            app.queue(QUEUE, **settings)
        assert q.settings == before

    @pytest.mark.parametrize("name", ["", "x" * 201, "tab\t", "nul\x00", None, 5], ids=repr)
    def test_names_of_queues(self, app: Stanchion, q: Queue, name: Any) -> None:
        with pytest.raises(InvalidInput):
            app.queue(name)
        q.push({})
        (job,) = q.reserve()
        with pytest.raises(InvalidInput):
            job.move(name)
        assert q.size().running == 1

    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
    def test_arguments(self, q: Queue, call: Callable[[Queue], Any]) -> None:
        q.push({})
        with pytest.raises(InvalidInput):
            call(q)
        assert q.size().ready == 1

    @pytest.mark.parametrize(
        "act",
        [
            lambda job: job.commit(object()),
            lambda job: job.commit(payload=object()),
            lambda job: job.commit("x" * (1024 * 1024)),
            lambda job: job.rollback(delay=-1),
            lambda job: job.move("next", payload=object()),
            lambda job: job.move("next", delay=-1),
            lambda job: job.extend(-1),
            lambda job: job.progress(1.1),
            lambda job: job.progress(-0.1),
        ],
    )
    def test_outcomes(self, q: Queue, act: Callable[[Any], None]) -> None:
        q.push({})
        (job,) = q.reserve()
        with pytest.raises(InvalidInput):
            act(job)
        running = q.get(job.id)
        assert running is not None
        assert running.state is JobState.RUNNING
        job.commit()

    @pytest.mark.parametrize("keys", [["short"], [b"\x00" * 32], ["not base64 " * 4]], ids=["short", "raw", "text"])
    def test_keys_of_the_app(self, store: Store, keys: list[Any]) -> None:
        pytest.importorskip("cryptography")
        with pytest.raises(InvalidInput, match="Fernet"):
            Stanchion(store=store, keys=keys)

    @pytest.mark.parametrize("url", ["nosuch://host/db", "jobs.db", ""])
    def test_urls(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("STANCHION_URL", raising=False)
        with pytest.raises(InvalidInput):
            Stanchion(url).queue(QUEUE).push({})

    def test_every_error_says_what_to_do(self, q: Queue) -> None:
        with pytest.raises(StanchionError, match="delay"):
            q.push({}, run_at=5)  # type: ignore[arg-type]
        with pytest.raises(StanchionError, match=r"choose from .*priority"):
            q.push({}, prioritty=5)  # type: ignore[call-arg]
        with pytest.raises(StanchionError, match=r"choose from .*max_running"):
            q.configure(max_runing=5)  # type: ignore[call-arg]
