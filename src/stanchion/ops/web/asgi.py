"""The ASGI app of the page: its routes, and what wraps all of them."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stanchion.app import Stanchion
from stanchion.ops.web.access.callers import Token, Tokens
from stanchion.ops.web.access.headers import SECURITY, policy
from stanchion.ops.web.api.asgi import api, missing
from stanchion.ops.web.door import Door
from stanchion.ops.web.events import Events
from stanchion.ops.web.mounted import Mounted
from stanchion.ops.web.pages import (
    audit,
    bulk,
    errors,
    flows,
    frame,
    job,
    jobs,
    managers,
    overview,
    pipelines,
    queue,
    queues,
    report,
    schedules,
    semaphores,
    settings,
    streams,
    workers,
)
from stanchion.ops.web.probes import Probes
from stanchion.ops.web.site import Site

STATIC: Final = Path(__file__).with_name("static")


def app(stanchion: Stanchion, tokens: Iterable[Token] = ()) -> ASGIApp:
    """Return the page of an app, to be served alone or mounted below a path of another ASGI app.

    `tokens`: who may use it, see `access.callers.tokens_in`. Without any, it answers this machine only, by the names
    `localhost`, `127.0.0.1` and `[::1]`, and all that reaches it so may operate.
    """
    return site_app(Site(stanchion, Tokens(tokens)))


def site_app(site: Site, root_path: str = "") -> ASGIApp:
    """Return the ASGI app of a site. `root_path`: the path below which a proxy serves it, such as /jobs."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        site.close()

    door = Door(site)
    events = Events(door)
    routes = [
        *_routes(door),
        Route("/events", events.stream),
        *Probes(door, lambda: events.open).routes(),
        Mount("/api", api(site)),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]

    def lost(request: Request, error: Exception) -> Response:
        base = str(request.scope.get("root_path", "")).rstrip("/")
        if str(request.scope["path"]).removeprefix(base).startswith("/api/"):  # such as with a line feed in its path
            return missing(request, error, f"{base}/api/v1")
        return door.missing(request, getattr(error, "status_code", 404))

    starlette = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: lost, 405: lost})
    return Secured(Mounted(starlette, root_path, routes) if root_path else starlette)


def _routes(door: Door) -> list[Route]:
    page = door.page
    return [
        Route("/", page(overview.show, "verdict")),
        Route("/on-it", page(overview.be_on_it), methods=["POST"]),
        Route("/login", door.login, methods=["GET", "POST"]),
        Route("/logout", page(frame.log_out, open_to_all=True), methods=["POST"]),
        Route("/theme", page(frame.choose_theme, open_to_all=True), methods=["POST"]),
        Route("/more", page(frame.more)),
        Route("/keys", page(frame.choose_keys, open_to_all=True), methods=["POST"]),
        Route("/runbook", page(frame.runbook)),
        Route("/queues", page(queues.every, "queues")),
        Route("/pause/{name:path}", page(queue.ask_pause)),
        Route("/pause/{name:path}", page(queue.pause), methods=["POST"]),
        Route("/resume/{name:path}", page(queue.ask_resume)),
        Route("/resume/{name:path}", page(queue.resume), methods=["POST"]),
        Route("/queues/{name:path}", page(queue.show, "queue:{name}")),
        Route("/set/{name:path}", page(settings.ask)),
        Route("/set/{name:path}", page(settings.save), methods=["POST"]),
        Route("/push/{name:path}", page(settings.ask_push)),
        Route("/push/{name:path}", page(settings.push), methods=["POST"]),
        Route("/errors", page(errors.every, "errors")),
        Route("/errors/{name}", page(errors.show)),
        Route("/jobs", page(jobs.every)),
        Route("/jobs/{name}", page(job.show)),
        Route("/jobs/{name}/reveal", page(job.reveal), methods=["POST"]),
        Route("/jobs/{name}/{act}", page(job.ask)),
        Route("/jobs/{name}/{act}", page(job.act), methods=["POST"]),
        Route("/bulk", page(bulk.ask)),
        Route("/bulk", page(bulk.begin), methods=["POST"]),
        Route("/bulk/{name}/stop", page(bulk.stop), methods=["POST"]),
        Route("/flows", page(flows.every)),
        Route("/flows/{name}", page(flows.show)),
        Route("/managers", page(managers.every, "managers")),
        Route("/pipelines", page(pipelines.every, "queues", "streams")),
        Route("/{act}-pipeline/{name:path}", page(pipelines.ask)),
        Route("/{act}-pipeline/{name:path}", page(pipelines.act), methods=["POST"]),
        Route("/pipelines/{name:path}", page(pipelines.show, "queues", "streams")),
        Route("/streams", page(streams.every, "streams")),
        Route("/streams/release/{name:path}", page(streams.ask_release)),
        Route("/streams/release/{name:path}", page(streams.release), methods=["POST"]),
        Route("/workers", page(workers.every, "workers")),
        Route("/schedules", page(schedules.every)),
        Route("/schedules/{act}/{name:path}", page(schedules.ask)),
        Route("/schedules/{act}/{name:path}", page(schedules.act), methods=["POST"]),
        Route("/semaphores", page(semaphores.every)),
        Route("/semaphores/{name:path}", page(semaphores.show)),
        Route("/semaphores/{name:path}", page(semaphores.resize), methods=["POST"]),
        Route("/report", page(report.show)),
        Route("/audit", page(audit.log)),
        Route("/audit.csv", page(audit.as_csv)),
        Route("/audit.jsonl", page(audit.as_lines)),
    ]


class Secured:
    """Gives each answer the security headers, and each request the nonce of its page."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(18)
        scope["stanchion.nonce"] = nonce

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY.items():
                    headers.setdefault(name, value)
                headers["Content-Security-Policy"] = policy(nonce)
            await send(message)

        await self._inner(scope, receive, secured)
