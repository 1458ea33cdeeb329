"""The page below a path: which paths a proxy has stripped, and Debian's nginx as the documentation shows it."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import expect

from stanchion import Stanchion
from stanchion.ops.web.site import Site
from tests.servers.authority import Authority
from tests.servers.nginx import Nginx
from tests.web.conftest import OPERATE, Browser
from tests.web.test_browser import opened
from tests.web.test_pages import pages_of
from tests.web.test_serving import running

ROOTS = ("/jobs", "/queues", "/api", "/static", "/shop/jobs", "/stanchion")


def _title(browser: Browser, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200, path
    found = re.search(r"<h1.*?</h1>", answer.text, re.DOTALL)
    assert found is not None
    return found[0]


def _links(text: str) -> list[str]:
    return re.findall(r'\s(?:href|src|action|hx-get)="(/[^"]*)"', text)


class TestPaths:
    """The same address reaches the same page, whether the proxy strips the root or passes it on."""

    @pytest.mark.parametrize("strips", [True, False])
    def test_each_page_below_a_page_name(self, browser: Browser, site: Site, app: Stanchion, strips: bool) -> None:
        below = Browser(site, root="/jobs")
        for path in pages_of(app):
            assert _title(below, path if strips else f"/jobs{path}") == _title(browser, path), path

    @pytest.mark.parametrize("root", ROOTS)
    @pytest.mark.parametrize("strips", [True, False])
    def test_links_stay_below_the_root(self, site: Site, root: str, strips: bool) -> None:
        below, before = Browser(site, root=root), "" if strips else root
        for path in ("/", "/queues", "/queues/mail", "/jobs", "/errors", "/login/", "/more"):
            answer = below.get(f"{before}{path}")
            links = _links(answer.text) if answer.status_code == 200 else [answer.headers["location"]]
            assert links, path
            assert [
                link for link in links if not link.removeprefix("http://127.0.0.1:7118").startswith(f"{root}/")
            ] == [], path

    def test_a_login_leads_back_to_its_page(self, guarded: Site) -> None:
        for before in ("", "/jobs"):
            below = Browser(guarded, root="/jobs")
            assert below.get(f"{before}/queues").headers["location"] == "/jobs/login?back=/queues"
            said = below.post(f"{before}/login", data={"token": OPERATE, "back": "/queues"})
            assert said.headers["location"] == "/jobs/queues"
            assert below.get(f"{before}/queues").status_code == 200

    def test_the_port_itself_answers_probes(self, site: Site) -> None:
        below = Browser(site, root="/jobs")
        assert [below.get(path).status_code for path in ("/livez", "/readyz", "/jobs/livez")] == [200] * 3

    def test_a_longer_name_is_not_below_the_root(self, site: Site) -> None:
        below = Browser(site, root="/stan")
        assert below.get("/stanchion").status_code == 404
        assert below.get("/stan/stan").status_code == 404


class Proxied(NamedTuple):
    """A page behind nginx, by the address that browsers use."""

    url: str
    job: str


@contextmanager
def behind_nginx(folder: Path, *, strips: bool, tls: bool) -> Iterator[Proxied]:
    """Serve a page with tokens behind nginx, with the location that docs/web-setup.md shows."""
    store = f"sqlite:///{folder}/jobs.db"
    app = Stanchion(store)
    app.queue("mail").push({"n": 1})
    job = app.queue("a/b & c").push({"n": 2})
    app.close()
    tokens = folder / "tokens.toml"
    tokens.write_text(f'[[token]]\nname = "ana"\ntoken = "{OPERATE}"\nrole = "operate"\n')
    shown = re.search(r"```nginx\n(.+?)```", Path("docs/web-setup.md").read_text(), re.DOTALL)
    assert shown is not None
    options = ("--tokens", str(tokens), "--root-path", "/jobs", "--proxy", "127.0.0.1", "--json")
    with running("--url", store, "--listen", "127.0.0.1:0", *options) as process:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["url"].removesuffix("/jobs").rpartition(":")[2]
        upstream = f"127.0.0.1:{port}{'/' * strips}"
        location = shown[1].replace("127.0.0.1:7118", upstream)
        assert upstream in location
        pair = Authority(folder, "authority").pair("page") if tls else None
        with Nginx(location, pair) as nginx:
            yield Proxied(f"{nginx.url}/jobs", job.id)


@pytest.mark.slow
@pytest.mark.one_in_each("tls", "strips")
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("strips", [False, True], ids=["passes", "strips"])
class TestNginx:
    """Debian's nginx, in both forms of its proxy_pass, with and without TLS."""

    def test_a_browser_works(self, chromium: Chromium, tmp_path: Path, strips: bool, tls: bool) -> None:
        with (
            behind_nginx(tmp_path, strips=strips, tls=tls) as proxied,
            opened(chromium, ignore_https_errors=True) as (page, said),
        ):
            page.goto(f"{proxied.url}/")
            assert page.url == f"{proxied.url}/login"
            page.get_by_label("token").fill(OPERATE)
            page.get_by_role("button", name="Log in").click()
            page.wait_for_url(f"{proxied.url}/")
            assert {one["name"] for one in page.context.cookies()} == {"__Host-stanchion" if tls else "stanchion"}
            with page.expect_response(lambda answer: "/jobs/events?" in answer.url) as events:
                page.goto(f"{proxied.url}/queues")
            assert (events.value.status, events.value.headers["content-type"][:17]) == (200, "text/event-stream")
            page.get_by_role("link", name="Jobs", exact=True).click()
            page.wait_for_url(f"{proxied.url}/jobs")
            expect(page.get_by_role("heading", level=1)).to_have_text("2 jobs")
            page.goto(f"{proxied.url}/jobs/{proxied.job}")
            page.get_by_role("link", name="a/b & c").first.click()
            expect(page.get_by_role("heading", level=1)).to_contain_text("a/b & c")
            page.goto(f"{proxied.url}/pause/mail")
            page.locator("[name=note]").fill("the provider is down")
            page.get_by_role("button", name="Pause").click()
            page.wait_for_url(f"{proxied.url}/queues/mail")
            expect(page.get_by_role("main")).to_contain_text("the provider is down")
            assert said == []

    def test_a_program_works(self, tmp_path: Path, strips: bool, tls: bool) -> None:
        with behind_nginx(tmp_path, strips=strips, tls=tls) as proxied:

            def asked(path: str, body: Any = None) -> Any:
                headers = {"Authorization": f"Bearer {OPERATE}", "Content-Type": "application/json"}
                data = None if body is None else json.dumps(body).encode()
                request = Request(f"{proxied.url}{path}", data, headers)  # noqa: S310
                with urlopen(request, context=ssl._create_unverified_context()) as answer:  # noqa: S310, S323
                    return answer.read()

            asked("/api/v1/queues/mail/pause", {"note": "by a program"})
            assert json.loads(asked("/api/v1/queues/mail"))["queue"]["paused"]
            assert json.loads(asked("/api/v1/queues/a%2Fb%20%26%20c"))["queue"]["name"] == "a/b & c"
            assert json.loads(asked("/api/v1/openapi.json"))["servers"] == [{"url": "/jobs/api/v1"}]
            assert b"stanchion_web_renders_total" in asked("/metrics")
            assert json.loads(asked("/livez"))["status"] == "ok"

            origin = {"Origin": proxied.url.removesuffix("/jobs")}
            form = Request(f"{proxied.url}/login", f"token={OPERATE}".encode(), origin)  # noqa: S310
            with urlopen(form, context=ssl._create_unverified_context()) as answer:  # noqa: S310, S323
                assert answer.status == 200
