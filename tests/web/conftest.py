"""The page over stores in memory: asked by a client in this process, and served to a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from starlette.testclient import TestClient

from stanchion import Stanchion
from stanchion.ops.web.access.callers import Caller, Role, Tokens, token_of
from stanchion.ops.web.asgi import site_app
from stanchion.ops.web.live.deadlines import Deadlines
from stanchion.ops.web.site import Site
from stanchion.stores.registry import open_store
from tests.web import serve
from tests.web.seed import shop

OPERATE, READ = "operate-token-0123456789", "read-token-0123456789abc"


def site_of(app: Stanchion, *, tokens: bool = False, **options: Any) -> Site:
    known = [token_of(OPERATE, Caller("ana")), token_of(READ, Caller("ben", Role.READ))] if tokens else []
    return Site(app, Tokens(known), **{"login_delay": 0, "deadlines": Deadlines(60), **options})


class Browser(TestClient):
    """A client that follows no redirect, and sends forms as a browser does."""

    def __init__(
        self, site: Site, base: str = "http://127.0.0.1:7118", client: str = "127.0.0.1", root: str = ""
    ) -> None:
        super().__init__(site_app(site, root), base, follow_redirects=False, client=(client, 50_000))
        self.site = site

    def csrf(self, page: str = "/more") -> str:
        """Return the CSRF token of this browser's session."""
        found = re.search(r'name="csrf" value="(\w+)"', self.get(page).text)
        assert found is not None
        return found[1]

    def submit(self, path: str, **fields: Any) -> Any:
        """Send a form with the session's token."""
        return self.post(path, data={"csrf": self.csrf(), **fields}, headers={"Sec-Fetch-Site": "same-origin"})

    def log_in(self, token: str) -> Any:
        return self.post("/login", data={"token": token}, headers={"Sec-Fetch-Site": "same-origin"})


@pytest.fixture
def app() -> Iterator[Stanchion]:
    app = shop(open_store("memory://"))
    yield app
    app.close()


@pytest.fixture
def site(app: Stanchion) -> Iterator[Site]:
    site = site_of(app)
    yield site
    site.close()


@pytest.fixture
def browser(site: Site) -> Browser:
    """This machine's browser, for a page without tokens."""
    return Browser(site)


@pytest.fixture
def guarded(app: Stanchion) -> Iterator[Site]:
    """A page with tokens."""
    site = site_of(app, tokens=True)
    yield site
    site.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """Debian's Chromium, one for the tests of a module; each test has a context of its own."""
    with serve.chromium() as browser:
        yield browser


@dataclass
class Served:
    """A page that a browser can open."""

    app: Stanchion
    site: Site
    url: str


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """The page without tokens, served for all tests of a module; tests that act on it use jobs of their own."""
    yield from _served(tokens=False)


@pytest.fixture(scope="module")
def served_guarded() -> Iterator[Served]:
    """The page with tokens."""
    yield from _served(tokens=True)


def _served(*, tokens: bool) -> Iterator[Served]:
    with ThreadPoolExecutor(1) as seeding:  # Playwright runs an event loop on this thread, where `drain` is refused
        app = seeding.submit(shop, open_store("memory://")).result()
    site = site_of(app, tokens=tokens)
    with serve.served(site) as url:
        yield Served(app, site, url)
    app.close()
