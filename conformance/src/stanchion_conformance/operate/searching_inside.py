"""Searches by values in payloads and headers, and by the time of the end: the same answers on every store."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet

from stanchion import JobState, Push, Queue, Stanchion
from stanchion.errors import InvalidInput, SearchTooWide, StanchionError
from stanchion.jobs import contents
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import QUEUE, StoreClock, new_job, payloads

STRANGE = ["a.b", "$", "$set", "%", "it's", '"', "ü 🐘", "a ", "A", "\\", "0", "", "[0]", "*"]


class TestSearchByContents:
    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            (4, [4, 4.0]),
            (4.0, [4, 4.0]),
            ("4", ["4"]),
            (1, [1]),
            (True, [True]),
            (False, [False]),
            (0, [0]),
            (None, [None]),
            ("", [""]),
            ("Ünï 🐘", ["Ünï 🐘"]),
            ("a%", ["a%"]),
            (2**60 + 1, [2**60 + 1]),
            (0.1, [0.1]),
            ("nobody", []),
        ],
    )
    def test_values_are_compared_as_json(self, q: Queue, wanted: Any, found: list[Any]) -> None:
        values = [
            4,
            4.0,
            "4",
            1,
            True,
            False,
            0,
            None,
            "",
            "Ünï 🐘",
            "ünï 🐘",
            "a%",
            "ab",
            2**60 + 1,
            2**60,
            0.1,
            [4],
            {},
        ]
        q.push_many([{"value": value} for value in values])
        q.push_many([{"other": 4}, 4, None, [4]])
        got = [payload["value"] for payload in payloads(q.find(payload={"value": wanted}))]
        assert [(type(value), value) for value in reversed(got)] == [(type(value), value) for value in found]

    @pytest.mark.parametrize("key", STRANGE)
    def test_keys_may_be_strange(self, q: Queue, key: str) -> None:
        q.push_many([{one: 1} for one in STRANGE])
        assert payloads(q.find(payload={(key,): 1})) == [{key: 1}]
        q.push({"in": {key: {"deep": "x"}}})
        assert len(q.find(payload={("in", key, "deep"): "x"})) == 1

    def test_paths(self, q: Queue) -> None:
        q.push_many([{"user": {"id": 4, "tags": ["a", {"b": None}]}}, {"user.id": 4}, {"user": [7]}, {"a\\": {"b": 1}}])
        assert len(q.find(payload={"user.id": 4})) == 1
        assert payloads(q.find(payload={r"user\.id": 4})) == [{"user.id": 4}]
        assert len(q.find(payload={"user.tags.0": "a"})) == 1
        assert len(q.find(payload={"user.tags.1.b": None})) == 1
        assert len(q.find(payload={("user", 0): 7})) == 1
        assert len(q.find(payload={r"a\\.b": 1})) == 1
        for path in ("user.tags.2", "user.tags.-1", "user.id.x", "user.tags", "user..id", "none"):
            assert q.find(payload={path: None}) == []

    def test_all_conditions_hold(self, q: Queue, app: Stanchion) -> None:
        q.push_many(
            [
                Push({"a": 1, "b": 2}, headers={"x": "web", "n": 1}, tenant="t"),
                Push({"a": 1, "b": 3}, headers={"x": "web"}),
                Push({"a": 1, "b": 2}, headers={"x": "cli"}),
                Push({"a": 1, "b": 2}),
            ]
        )
        app.queue("other").push({"a": 1, "b": 2}, headers={"x": "web"})
        assert len(q.find(payload={"a": 1, "b": 2})) == 3
        assert len(q.find(payload={"a": 1, "b": 2}, headers={"x": "web"})) == 1
        assert len(q.find(headers={"x": "web"})) == 2
        assert len(q.find(headers={"x": "web", "n": 1.0})) == 1
        assert len(q.find(headers={"x": "web"}, tenant="t", state="ready", text='"b":2')) == 1
        assert q.find(headers={"n": True}) == []
        assert len(app.find(payload={"a": 1, "b": 2}, headers={"x": "web"})) == 2

    def test_headers_are_named_as_they_are(self, q: Queue) -> None:
        q.push(1, headers={"a.b": "x", "a": {"b": "y"}})
        assert len(q.find(headers={"a.b": "x"})) == 1
        assert q.find(headers={"a.b": "y"}) == []

    def test_arguments_of_a_task(self, app: Stanchion) -> None:
        app.using("mail", queue=QUEUE).enqueue(42, lang="fr")
        assert len(app.find(payload={"args.0": 42, "kwargs.lang": "fr"})) == 1

    def test_live_and_finished_jobs_page_by_page(self, q: Queue) -> None:
        q.push_many([{"n": n, "odd": n % 2 == 1} for n in range(60)])
        for job in q.reserve(30):
            job.commit()
        found: list[int] = []
        after = None
        while jobs := q.find(payload={"odd": True}, limit=7, after=after):
            found += [job.payload["n"] for job in jobs]
            after = jobs[-1].id
        assert found == [n for n in reversed(range(60)) if n % 2]
        assert len(q.find(payload={"odd": True}, state=JobState.DONE)) == 15

    def test_a_search_looks_into_a_bounded_number(self, q: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(contents, "LOOKED_AT_MAX", 200)
        q.push_many([{"n": n} for n in range(450)])
        assert len(q.find(payload={"n": 449}, limit=1)) == 1
        found, after, rounds = list[str](), None, 0
        while True:
            try:
                found += [job.id for job in q.find(payload={"n": 1}, after=after)]
                break
            except SearchTooWide as error:
                found, after, rounds = found + error.found, error.after, rounds + 1
        with pytest.raises(SearchTooWide, match="narrow it by queue"):
            q.find(payload={"n": 1})
        monkeypatch.setattr(contents, "LOOKED_AT_MAX", 450)
        assert len(q.find(payload={"n": 1})) == 1
        assert rounds >= 1
        assert [job.payload for job in map(q.get, found) if job] == [{"n": 1}]

    def test_what_is_no_json_is_passed_over(self, q: Queue, store: Store) -> None:
        q.push({"n": 1})
        with suppress(InvalidInput):  # a manager refuses it
            store.push([new_job(payload="no json")])
        assert len(q.find(payload={"n": 1})) == 1
        assert q.find(payload={"9" * 5000: 1, ("n", "9" * 5000): 1}) == []

    def test_encrypted_payloads(self, store: Store, app: Stanchion) -> None:
        key = Fernet.generate_key()
        secret = Stanchion(store=store, keys=[key]).queue(QUEUE)
        secret.push({"user": 4}, headers={"x": 1})
        assert payloads(secret.find(payload={"user": 4})) == [{"user": 4}]
        assert len(app.queue(QUEUE).find(headers={"x": 1})) == 1
        with pytest.raises(StanchionError, match="no keys"):
            app.queue(QUEUE).find(payload={"user": 4})

    @pytest.mark.parametrize(
        "wrong",
        [
            {"payload": {"a": [1]}},
            {"payload": {"a": {}}},
            {"payload": {}},
            {"payload": "a=1"},
            {"payload": {"": 1}},
            {"payload": {(): 1}},
            {"payload": {4: 1}},
            {"headers": {"a": [1]}},
            {"headers": {1: 1}},
            {"headers": []},
            {"finished_since": "1h"},
        ],
    )
    def test_what_is_refused(self, q: Queue, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            q.find(**wrong)


class TestSearchByTheEnd:
    def test_times_of_the_end(self, q: Queue, clock: StoreClock) -> None:
        q.push_many(range(4))
        ends = []
        for _ in range(3):
            q.reserve()[0].commit()
            ends.append(q.history(limit=1)[0].finished_at)
            clock.advance(100)
        q.cancel(q.find(state="ready")[0].id)
        by_end = {job.payload: job for job in q.history()}
        second = by_end[1].finished_at
        assert second is not None
        assert sorted(payloads(q.find(finished_since=second))) == [1, 2, 3]
        assert payloads(q.find(finished_until=second)) == [0]
        assert payloads(q.find(finished_since=second, finished_until=second + timedelta(microseconds=1))) == [1]
        assert payloads(q.find(finished_since=second, state=JobState.CANCELLED)) == [3]
        assert q.find(finished_since=second, state="ready") == []
        q.push("live")
        assert len(q.find(finished_since=second - timedelta(days=1))) == 4
