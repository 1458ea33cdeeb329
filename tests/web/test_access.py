"""Who gets in, and which forms are taken."""

from __future__ import annotations

import re

import pytest

from stanchion import Stanchion
from stanchion.core.urls import Listen
from stanchion.errors import InvalidInput
from stanchion.ops.web.access import attempts
from stanchion.ops.web.access.callers import LOCAL, Caller, Tokens, token_of, tokens_in
from stanchion.ops.web.access.guard import local_path
from stanchion.ops.web.access.session import LASTS, Sessions
from stanchion.ops.web.serving import refuse_open
from stanchion.ops.web.site import Site
from tests.web.conftest import OPERATE, READ, Browser, site_of

SAME = {"Sec-Fetch-Site": "same-origin"}


class TestWithoutTokens:
    @pytest.mark.parametrize("base", ["http://127.0.0.1:7118", "http://localhost:7118", "http://[::1]:7118"])
    def test_this_machine_gets_in(self, site: Site, base: str) -> None:
        assert Browser(site, base).get("/queues").status_code == 200

    @pytest.mark.parametrize("base", ["http://evil.example", "http://127.0.0.1.evil.example:7118", "http://10.0.0.7"])
    def test_another_name_is_refused(self, site: Site, base: str) -> None:
        assert Browser(site, base).get("/queues").status_code == 403

    def test_another_machine_is_refused(self, site: Site) -> None:
        assert Browser(site, client="10.0.0.7").get("/queues").status_code == 403

    @pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Forwarded-Host"])
    def test_a_proxy_is_refused(self, browser: Browser, header: str) -> None:
        assert browser.get("/queues", headers={header: "10.0.0.7"}).status_code == 403

    @pytest.mark.parametrize("listen", [Listen("0.0.0.0", 80), Listen("::", 80), Listen("jobs.example", 80)])
    def test_another_address_is_refused(self, listen: Listen) -> None:
        with pytest.raises(InvalidInput, match="--tokens"):
            refuse_open(listen, [], proxied=False)
        refuse_open(listen, [token_of(OPERATE, Caller("ana"))], proxied=False)

    def test_a_proxy_needs_tokens(self) -> None:
        refuse_open(Listen("127.0.0.1", 80), [], proxied=False)
        with pytest.raises(InvalidInput, match="proxy"):
            refuse_open(Listen("127.0.0.1", 80), [], proxied=True)


class TestForms:
    def test_one_of_the_session_is_taken(self, browser: Browser, app: Stanchion) -> None:
        assert browser.submit("/pause/orders", note="why").status_code == 303
        assert app.queue("orders").settings.paused

    def test_one_without_its_token_is_refused(self, browser: Browser, app: Stanchion) -> None:
        browser.csrf()
        for fields in ({}, {"csrf": "0" * 64}, {"csrf": "é"}):
            answer = browser.post("/pause/orders", data={"note": "why", **fields}, headers=SAME)
            assert answer.status_code == 403
        assert not app.queue("orders").settings.paused

    def test_the_token_of_another_session_is_refused(self, site: Site, app: Stanchion) -> None:
        mine, other = Browser(site), Browser(site)
        mine.csrf()
        answer = mine.post("/pause/orders", data={"csrf": other.csrf(), "note": "why"}, headers=SAME)
        assert answer.status_code == 403
        assert not app.queue("orders").settings.paused

    @pytest.mark.parametrize("place", ["cross-site", "same-site", "none"])
    def test_one_of_another_site_is_refused(self, browser: Browser, place: str) -> None:
        fields = {"csrf": browser.csrf(), "note": "why"}
        assert browser.post("/pause/orders", data=fields, headers={"Sec-Fetch-Site": place}).status_code == 403

    @pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:7118"])
    def test_one_of_another_origin_is_refused(self, browser: Browser, origin: str) -> None:
        fields = {"csrf": browser.csrf(), "note": "why"}
        assert browser.post("/pause/orders", data=fields, headers={"Origin": origin}).status_code == 403
        own = {"Origin": "http://127.0.0.1:7118"}
        assert browser.post("/pause/orders", data=fields, headers=own).status_code == 303

    def test_a_large_one_and_another_kind_are_refused(self, browser: Browser) -> None:
        fields = {"csrf": browser.csrf(), "note": "x" * 70_000}
        assert browser.post("/pause/orders", data=fields, headers=SAME).status_code == 413
        assert browser.post("/pause/orders", json=fields, headers=SAME).status_code == 415

    @pytest.mark.parametrize("path", ["/pause/orders", "/resume/orders", "/bulk?act=cancel&queue=mail"])
    def test_a_link_changes_nothing(self, browser: Browser, app: Stanchion, path: str) -> None:
        before = app.queue("orders").settings, app.queue("mail").size()
        assert browser.get(path).status_code == 200
        assert before == (app.queue("orders").settings, app.queue("mail").size())

    @pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "https://evil.example", "\\", "/a\nb"])
    def test_the_way_back_is_on_this_site(self, browser: Browser, path: str) -> None:
        assert local_path(path) == "/"
        assert browser.submit("/theme", theme="dark", back=path).headers["location"] == "/"


class TestWithTokens:
    def test_all_pages_lead_to_the_login(self, guarded: Site) -> None:
        browser = Browser(guarded)
        answer = browser.get("/queues")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?back=/queues")
        assert browser.post("/pause/orders", data={"note": "x"}, headers=SAME).status_code == 401

    def test_a_login_goes_back(self, guarded: Site) -> None:
        browser = Browser(guarded)
        fields = {"token": OPERATE, "back": "/queues"}
        assert browser.post("/login", data=fields, headers=SAME).headers["location"] == "/queues"
        assert "ana · operate" in browser.get("/queues").text

    def test_the_cookie_is_of_this_site_only(self, guarded: Site) -> None:
        plain = Browser(guarded).log_in(OPERATE).headers["set-cookie"]
        assert re.search("HttpOnly", plain)
        assert re.search("SameSite=strict", plain)
        secure = Browser(guarded, "https://jobs.example").log_in(OPERATE).headers["set-cookie"]
        assert secure.startswith("__Host-stanchion=")
        assert re.search("Secure", secure)
        assert "Domain" not in secure

    def test_who_reads_can_not_act(self, guarded: Site, app: Stanchion) -> None:
        browser = Browser(guarded)
        browser.log_in(READ)
        assert browser.submit("/pause/orders", note="why").status_code == 403
        assert not app.queue("orders").settings.paused
        job = app.find(state="dead", limit=1)[0]
        for act in ("retry", "replay", "reveal"):
            assert browser.submit(f"/jobs/{job.id}/{act}").status_code == 403
        assert browser.submit("/bulk", act="cancel", where="queue=mail", total="1").status_code == 403

    def test_who_reads_sees_no_act(self, guarded: Site, app: Stanchion) -> None:
        browser = Browser(guarded)
        browser.log_in(READ)
        job = app.find(state="dead", limit=1)[0]
        for page in ("/queues/orders", "/jobs?state=dead", f"/jobs/{job.id}", "/schedules", "/semaphores/psp"):
            text = browser.get(page).text
            main = text[text.index("<main") : text.index("</main>")]
            assert "<button" not in main.replace("<button>Filter", "").replace('<button type="button" data-copy', ""), (
                page
            )
            assert "…</a>" not in main, page

    def test_a_log_out_ends_the_session(self, guarded: Site) -> None:
        browser = Browser(guarded)
        browser.log_in(OPERATE)
        browser.submit("/logout")
        assert browser.get("/queues").status_code == 303

    def test_a_wrong_token_stays_out_and_is_counted(self, guarded: Site) -> None:
        browser = Browser(guarded)
        answers = [browser.log_in(f"wrong-token-{number}").status_code for number in range(attempts.ALLOWED + 1)]
        assert answers == [401] * attempts.ALLOWED + [429]
        right = browser.log_in(OPERATE)
        assert right.status_code == 429
        assert int(right.headers["retry-after"]) > 0
        assert Browser(guarded, client="10.0.0.8").log_in(OPERATE).status_code == 303

    def test_a_login_of_another_site_is_refused(self, guarded: Site) -> None:
        answer = Browser(guarded).post("/login", data={"token": OPERATE}, headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code == 403


class TestSessions:
    def sessions(self) -> Sessions:
        return Sessions(Tokens([token_of(OPERATE, Caller("ana"))]))

    def test_one_is_known_again(self) -> None:
        sessions = self.sessions()
        begun = sessions.begin(token_of(OPERATE, Caller("ana")), 1000.0)
        assert sessions.of(begun.cookie, 1000.0 + LASTS - 1) == begun

    def test_it_ends(self) -> None:
        sessions = self.sessions()
        begun = sessions.begin(token_of(OPERATE, Caller("ana")), 1000.0)
        assert sessions.of(begun.cookie, 1000.0 + LASTS) is None
        assert sessions.of(begun.cookie, 999.0) is None

    def test_it_ends_with_its_token(self) -> None:
        begun = self.sessions().begin(token_of(OPERATE, Caller("ana")), 1000.0)
        assert Sessions(Tokens([token_of(READ, Caller("ana"))])).of(begun.cookie, 1001.0) is None

    def test_a_changed_one_is_refused(self) -> None:
        sessions = self.sessions()
        name, issued, nonce, signature = sessions.begin(token_of(OPERATE, Caller("ana")), 1000.0).cookie.split(".")
        for forged in (
            f"{name}.{int(issued) + 1}.{nonce}.{signature}",
            f"{name}.{issued}.x{nonce}.{signature}",
            f"{name}.{issued}.{nonce}.{'0' * 64}",
            f"YmVu.{issued}.{nonce}.{signature}",
            *("", ".", "...", "\x80.1.2.3", f"{name}.١٢.3.4"),
        ):
            assert sessions.of(forged, 1001.0) is None, forged

    def test_a_local_one_is_worth_nothing_with_tokens(self) -> None:
        begun = Sessions(Tokens()).begin_local(1000.0)
        assert begun.caller is LOCAL
        assert self.sessions().of(begun.cookie, 1001.0) is None
        assert Sessions(Tokens()).of(begun.cookie, 1001.0) is None


def test_attempts_are_forgotten_after_a_minute() -> None:
    tried = attempts.Attempts()
    for second in range(attempts.ALLOWED):
        assert tried.wait("10.0.0.7", second) == 0
        tried.failed("10.0.0.7", second)
    assert tried.wait("10.0.0.7", 10.0) == 50.0
    assert tried.wait("10.0.0.8", 10.0) == 0
    assert tried.wait("10.0.0.7", 60.0) == 0
    tried.succeeded("10.0.0.7")
    assert tried.wait("10.0.0.7", 10.0) == 0


def test_tokens_are_read_from_a_file(tmp_path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(
        f'[[token]]\nname = "ana"\ntoken = "{OPERATE}"\nrole = "operate"\n[[token]]\nname = "ben"\ntoken = "{READ}"\n'
    )
    tokens = Tokens(tokens_in(file))
    ana, ben = tokens.caller_of(OPERATE), tokens.caller_of(READ)
    assert ana is not None
    assert ana.operates
    assert ben is not None
    assert not ben.operates
    file.write_text('[[token]]\nname = "ana"\ntoken = "0123456789abcdef"\nrole = "admin"\n')
    with pytest.raises(InvalidInput, match="read, operate"):
        tokens_in(file)


def test_each_answer_has_the_security_headers(guarded: Site) -> None:
    browser = Browser(guarded)
    for path in ("/", "/login", "/queues", "/static/stanchion.css", "/nothing", "/static/nothing"):
        headers = browser.get(path).headers
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["referrer-policy"] == "no-referrer", path
        assert headers["cache-control"] == "no-store", path
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


def test_the_nonce_is_new_each_time(browser: Browser) -> None:
    first, second = (browser.get("/queues") for _ in range(2))
    nonces = [re.findall(r"nonce-([\w-]+)'", answer.headers["content-security-policy"]) for answer in (first, second)]
    assert nonces[0] != nonces[1]
    assert set(re.findall(r'nonce="([^"]*)"', first.text)) == set(nonces[0])


def test_mounted_below_a_path_links_stay_below_it(app: Stanchion) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from starlette.testclient import TestClient

    from stanchion.ops.web.asgi import site_app

    site = site_of(app)
    outer = Starlette(routes=[Mount("/ops/jobs", site_app(site))])
    client = TestClient(outer, "http://localhost", follow_redirects=False, client=("127.0.0.1", 1))
    text = client.get("/ops/jobs/queues").text
    assert client.get("/ops/jobs/").status_code == 200
    links = re.findall(r'(?:href|src|action|hx-get)="([^"#]*)', text)
    assert links
    assert [link for link in links if link and not link.startswith("/ops/jobs")] == []
    assert 'aria-current="page">Queues' in text
    site.close()
