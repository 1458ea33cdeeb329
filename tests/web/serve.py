"""A page for browsers: served by a thread, and the browser."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from playwright.sync_api import Browser, sync_playwright

from stanchion.ops.web.asgi import site_app
from stanchion.ops.web.site import Site
from tests.servers.process import ServerMissing, find_program


@contextmanager
def served(site: Site) -> Iterator[str]:
    """Serve a page on a free port; the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        config = uvicorn.Config(site_app(site), log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        free.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [free]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{free.getsockname()[1]}"
        server.should_exit = True
        thread.join(20)
    site.close()


@contextmanager
def chromium(*arguments: str, **options: Any) -> Iterator[Browser]:
    """Start Debian's Chromium. Raises ServerMissing."""
    program = find_program("chromium") or find_program("chromium-browser") or find_program("google-chrome")
    if program is None:
        raise ServerMissing("chromium is not installed: see tests/servers/install.sh")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", *arguments], **options)
        yield browser
        browser.close()
