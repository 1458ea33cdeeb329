"""Hostile and broken requests: each is answered with a problem that says what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.errors import StoreUnavailable
from stanchion.ops.web.access import attempts
from stanchion.ops.web.access.session import LASTS
from stanchion.ops.web.api import entry
from stanchion.ops.web.site import Site
from tests.web.api.conftest import Client
from tests.web.attacks import SECRET
from tests.web.conftest import OPERATE, READ, Browser, site_of

PUSH = "queues/mail/jobs"
JSON = {"Content-Type": "application/json"}


class TestBodies:
    @pytest.mark.parametrize(
        ("text", "status", "code"),
        [
            (b"", 400, "not-json"),
            (b"{", 400, "not-json"),
            (b'{"jobs": [{"payload": NaN}]}', 400, "not-json"),
            (b'{"jobs": [{"payload": -Infinity}]}', 400, "not-json"),
            (b"\xff\xfe{\0}\0", 400, "not-json"),
            (b'{"jobs": [{"payload": ' + b"9" * 5000 + b"}]}", 400, "not-json"),
            (b'{"jobs": [{"payload": 1e999}]}', 422, "invalid"),
            (b'{"jobs": [{"payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}", 400, "not-json"),
            (b"[" * 1_000_000, 400, "not-json"),
            (b"null", 422, "invalid"),
            (b'"x"', 422, "invalid"),
            (b'{"jobs": {}}', 422, "invalid"),
            (b'{"jobs": []}', 422, "invalid"),
            (b'{"jobs": [' + b",".join([b'{"payload":1}'] * 1001) + b"]}", 422, "invalid"),
            (b'{"jobs": [{"payload": 1, "key": 7}]}', 422, "invalid"),
        ],
    )
    def test_each_is_refused(self, client: Client, fresh: Stanchion, text: bytes, status: int, code: str) -> None:
        problem = client.refused(status, code, "POST", PUSH, content=text, headers=JSON)
        assert len(problem["detail"]) < 1000
        assert len(problem["errors"]) <= 20
        assert fresh.find() == []

    @pytest.mark.parametrize(
        "headers",
        [
            {"Content-Type": "text/plain"},
            {"Content-Type": "application/x-www-form-urlencoded"},
            {"Content-Type": "application/json; charset=utf-16"},
            {**JSON, "Content-Encoding": "gzip"},
            {},
        ],
    )
    def test_another_type_is_refused(self, client: Client, headers: dict[str, str]) -> None:
        client.refused(415, "unsupported-media-type", "POST", PUSH, content=b"{}", headers=headers)

    def test_a_large_one_is_refused(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(entry, "BODY_MAX", 1000)
        client.refused(413, "too-large", "POST", PUSH, content=b" " * 1001, headers=JSON)
        streamed = (b" " * 100 for _ in range(11))  # without Content-Length
        client.refused(413, "too-large", "POST", PUSH, content=streamed, headers=JSON)
        client.refused(413, "too-large", "POST", PUSH, content=b"", headers={**JSON, "Content-Length": "9" * 30})

    def test_text_of_any_kind_comes_back_as_it_was(self, client: Client) -> None:
        payload = {
            "nul": "\0",
            "bidi": "\u202e",
            "emoji": "😀",
            "big": 2**70,
            "deep": json.loads("[" * 200 + "]" * 200),
        }
        (one,) = client.asks("pushJobs", PUSH, {"jobs": [{"payload": payload, "headers": {"\0": "\0"}}]})["jobs"]
        (job,) = client.asks("reserveJobs", "queues/mail/reserve")["jobs"]
        assert job["payload"] == payload
        error = {"token": job["token"], "error": "a\0b \ud800 c", "delay": 0}
        answer = client.post(f"jobs/{one['id']}/rollback", content=json.dumps(error), headers=JSON)
        assert answer.status_code in (200, 422), answer.text
        assert client.asks("getJob", f"jobs/{one['id']}")["payload"] == payload


class TestAddresses:
    @pytest.mark.parametrize(
        "path", ["nothing", "", "v2", "queues", "%00", "queues/%0A", "queues/a%0Ab/jobs", "é", "jobs/a/b/c", "x" * 3000]
    )
    def test_what_is_not_there(self, client: Client, path: str) -> None:
        if path != "queues":
            client.refused(404, "not-found", "GET", path)
        client.refused(404 if path != "queues" else 405, "not-found" if path != "queues" else "method-not-allowed",
                       "PUT", path)  # fmt: skip

    def test_another_method_is_told_which_there_are(self, client: Client) -> None:
        problem = client.refused(405, "method-not-allowed", "DELETE", "queues/mail")
        assert set(problem["headers"]["allow"].replace(" ", "").split(",")) == {"GET", "HEAD", "PATCH"}
        assert client.head("queues").status_code == 200

    @pytest.mark.parametrize(
        "query",
        [
            {"limit": "0"}, {"limit": "-1"}, {"limit": "501"}, {"limit": "1e3"}, {"limit": "x"}, {"limit": "9" * 40},
            {"limit": ["1", "2"]}, {"limit": "١"}, {"state": "alive"}, {"band": "x"}, {"error": "x"}, {"text": "\0"},
            {"since": "soon"}, {"until": "9" * 30}, {"queue": ""}, {"queue": "a\0b"}, {"task": "x" * 201}, {"x": "1"},
        ],
    )  # fmt: skip
    def test_wrong_parameters_are_named(self, client: Client, query: dict[str, Any]) -> None:
        problem = client.refused(422, "invalid", "GET", "jobs", params=query)
        assert {wrong.get("parameter") for wrong in problem["errors"]} == set(query)

    def test_times_at_the_ends_of_time_are_taken(self, client: Client) -> None:
        for since in ("0001-01-01", "9999-12-31T23:59:59Z"):
            client.asks("listJobs", "jobs", params={"since": since})
        for since in ("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"):
            problem = client.refused(422, "invalid", "GET", "jobs", params={"since": since})
            assert "is not within the years 1 to 9999 in UTC" in problem["detail"]


class TestCallers:
    def test_without_tokens_this_machine_gets_in_by_its_own_names(self, site: Site) -> None:
        far = Client(site, client="10.0.0.7")
        far.refused(403, "forbidden", "GET", "queues")
        near = Client(site)
        near.refused(403, "forbidden", "GET", "queues", headers={"Host": "evil.example"})
        near.refused(403, "forbidden", "GET", "queues", headers={"X-Forwarded-For": "10.0.0.7"})
        near.refused(401, "unauthenticated", "GET", "queues", headers={"Authorization": "Bearer x"})

    @pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}])
    def test_a_page_of_another_site_changes_nothing(self, site: Site, app: Stanchion, headers: dict[str, str]) -> None:
        for client in (Client(site),):
            client.refused(403, "forbidden", "POST", "queues/orders/pause", headers=headers)
            client.refused(403, "forbidden", "POST", "queues/orders/reserve", headers=headers)
        assert not app.queue("orders").settings.paused

    def test_a_token_is_needed(self, guarded: Site) -> None:
        answer = Client(guarded).refused(401, "unauthenticated", "GET", "queues")
        assert answer["headers"]["www-authenticate"].startswith("Bearer")
        for given in ("", "Bearer ", "Basic eDp5", f"Bearer {OPERATE}x", f"bearer{OPERATE}"):
            Client(guarded).refused(401, "unauthenticated", "GET", "openapi.json", headers={"Authorization": given})
        assert Client(guarded, OPERATE).get("openapi.json").status_code == 200
        assert Client(guarded).get("queues", headers={"Authorization": f"bearer  {READ}"}).status_code == 200

    def test_unknown_tokens_are_slowed_and_known_ones_are_not(self, guarded: Site) -> None:
        client = Client(guarded)
        headers = {"Authorization": "Bearer guessed"}
        for _ in range(attempts.ALLOWED):
            client.refused(401, "unauthenticated", "GET", "queues", headers=headers)
        problem = client.refused(429, "too-many-attempts", "GET", "queues", headers=headers)
        assert int(problem["headers"]["retry-after"]) > 0
        assert client.get("queues", headers={"Authorization": f"Bearer {READ}"}).status_code == 200
        assert Browser(guarded).log_in(OPERATE).status_code == 303

    def test_a_session_of_the_page_reads_and_acts_only_with_its_token(self, guarded: Site, app: Stanchion) -> None:
        browser = Browser(guarded)
        browser.log_in(OPERATE)
        api = "/api/v1/queues/orders"
        assert browser.get(api).status_code == 200
        same = {"Sec-Fetch-Site": "same-origin"}
        for headers in ({}, same, {**same, "X-CSRF-Token": "0" * 64}, {"Origin": "http://evil.example"}):
            assert browser.post(f"{api}/pause", headers=headers).status_code == 403
        other = {"Sec-Fetch-Site": "cross-site", "X-CSRF-Token": browser.csrf()}
        assert browser.post(f"{api}/pause", headers=other).status_code == 403
        assert not app.queue("orders").settings.paused
        assert browser.post(f"{api}/pause", headers={**same, "X-CSRF-Token": browser.csrf()}).status_code == 200
        assert "set-cookie" not in browser.get(api).headers

    def test_an_old_session_is_over(self, app: Stanchion) -> None:
        now = [1000.0]
        site = site_of(app, tokens=True, clock=lambda: now[0])
        browser = Browser(site)
        browser.log_in(OPERATE)
        assert browser.get("/api/v1/queues").status_code == 200
        now[0] += LASTS
        assert browser.get("/api/v1/queues").status_code == 401
        site.close()


def test_a_silent_store_is_told_without_its_password(
    client: Client, fresh: Stanchion, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable(f"no answer from postgresql://app:{SECRET}@db/shop")

    for verb in ("now", "queues", "push", "claim", "fetch", "select"):
        monkeypatch.setattr(fresh.store, verb, silent)
    for method, path, body in (
        ("GET", "queues", None),
        ("GET", "jobs/x", None),
        ("POST", PUSH, {"jobs": [{"payload": 1}]}),
        ("POST", "queues/mail/reserve", {}),
    ):
        problem = client.refused(503, "store-unavailable", method, path, body)
        assert int(problem["headers"]["retry-after"]) > 0
        assert SECRET not in str(problem)


def test_a_fault_says_nothing_of_what_is_inside(
    client: Client, fresh: Stanchion, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fresh.store, "queues", lambda *_: 1 / 0)
    problem = client.refused(500, "fault", "GET", "queues")
    assert "division" not in str(problem)
    assert "division by zero" in caplog.text
    assert problem["detail"].split()[-1] in caplog.text


def test_answers_have_the_security_headers(client: Client) -> None:
    for path in ("queues", "nothing", "openapi.json"):
        headers = client.get(path).headers
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
        assert "access-control-allow-origin" not in headers
