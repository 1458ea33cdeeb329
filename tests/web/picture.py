"""Make the picture of the README: `python -m tests.web.picture docs/web.png`. It needs Chromium."""

from __future__ import annotations

import socket
import sys
import threading
from typing import Any

import uvicorn
from playwright.sync_api import sync_playwright

from stanchion import Push, Stanchion
from stanchion.ops.audit import Entry
from stanchion.ops.web.asgi import site_app
from stanchion.ops.web.site import Site
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.registry import open_store
from tests.servers.process import find_program
from tests.web.conftest import site_of

SIZE = (1280, 1040)
MINUTES = 30


def shop() -> Site:
    """Return the page of an app whose provider of payments stops answering after a quarter of an hour."""
    app = Stanchion(store=open_store("memory://?clock=frozen"))
    up = [True]

    @app.task(name="payments.capture", queue="payments", max_attempts=1)
    def capture(order: int) -> None:
        if not up[0] and order % 3 == 0:
            raise TimeoutError("no answer from psp-2.example in 5 s")

    @app.task(name="mail.send", queue="mail")
    def send(order: int) -> None:
        pass

    site = site_of(app)
    store: Any = app.store
    app.queue("reports").push_many([Push({"n": number}, delay=7200) for number in range(1140)])
    for minute in range(MINUTES):
        up[0] = minute < MINUTES // 2
        for number in range(60):
            capture.using(priority="interactive").enqueue(minute * 60 + number)
            send.using(priority="user_visible").enqueue(number)
        app.queue("thumbnails").push_many([{"n": number} for number in range(18 if minute > 8 else 0)])
        store.clock_offset += 2
        app.drain(["payments", "mail"])
        store.clock_offset += 58
        store.beat([WorkerRow("w1", "web-1", 4711, ("payments", "mail"), 8, 10.0)])
        site.sampler.take()
    site.audit.add(Entry(store.now() - 700 * SECOND, "ana", "set max_rate", "payments", 0, "60 → 30"))
    site.audit.add(Entry(store.now() - 2400 * SECOND, "ben", "resume", "mail", 0))
    site.sampler.take()
    return site


def main(path: str) -> None:
    """Write the picture of the first page."""
    site = shop()
    program = find_program("chromium") or find_program("google-chrome")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        free.listen()
        server = uvicorn.Server(uvicorn.Config(site_app(site), log_config=None, lifespan="off"))
        threading.Thread(target=server.run, kwargs={"sockets": [free]}, daemon=True).start()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light")
            page.goto(f"http://127.0.0.1:{free.getsockname()[1]}/")
            page.screenshot(path=path)
            browser.close()
        server.should_exit = True
    site.close()


if __name__ == "__main__":
    main(sys.argv[1])
