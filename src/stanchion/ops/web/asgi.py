"""The ASGI app of the page: its routes, and what wraps all of them."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stanchion.app import Stanchion
from stanchion.ops.web.access.callers import Token, Tokens
from stanchion.ops.web.access.headers import SECURITY, policy
from stanchion.ops.web.api.asgi import api, missing
from stanchion.ops.web.endpoints import Endpoints
from stanchion.ops.web.events import Events
from stanchion.ops.web.methods import Endpoint, address
from stanchion.ops.web.mounted import Mounted
from stanchion.ops.web.pages import audit, frame, managers, overview, pipelines, report, schedules, streams, workers
from stanchion.ops.web.pages.jobs import bulk, errors, flows, job, job_list
from stanchion.ops.web.pages.queues import queue, queue_list, semaphores, settings
from stanchion.ops.web.probes import Probes
from stanchion.ops.web.site import Site

_log = logging.getLogger("stanchion.web")

STATIC: Final = Path(__file__).with_name("static")


def app(stanchion: Stanchion, tokens: Iterable[Token] = ()) -> ASGIApp:
    """Return the page of an app, to be served alone or mounted below a path of another ASGI app.

    `tokens`: allowed callers, see `access.callers.tokens_in`. Without any, it answers this machine only, by the names
    `localhost`, `127.0.0.1` and `[::1]`, and every request that reaches it so may operate.
    """
    return site_app(Site(stanchion, Tokens(tokens)))


def site_app(site: Site, root_path: str = "") -> ASGIApp:
    """Return the ASGI app of a site. `root_path`: the path below which a proxy serves it, such as /jobs."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        site.close()

    endpoints = Endpoints(site)
    events = Events(endpoints)
    routes = [
        *(address(path, methods) for path, methods in _endpoints(endpoints).items()),
        Route("/events", events.stream),
        *Probes(endpoints, lambda: events.open).routes(),
        Mount("/api", api(site)),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]

    def lost(request: Request, error: Exception) -> Response:
        base = str(request.scope.get("root_path", "")).rstrip("/")
        if str(request.scope["path"]).removeprefix(base).startswith("/api/"):  # such as with a line feed in its path
            return missing(request, error, f"{base}/api/v1")
        return endpoints.missing(request, error)

    starlette = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: lost, 405: lost})
    return Secured(Mounted(starlette, root_path, routes) if root_path else starlette)


def _endpoints(endpoints: Endpoints) -> dict[str, dict[str, Endpoint]]:
    """Return what answers at each address, by path and method."""
    page = endpoints.page
    return {
        "/": {"GET": page(overview.show, "verdict")},
        "/on-it": {"POST": page(overview.set_owner)},
        "/login": {"GET": endpoints.login, "POST": endpoints.login},
        "/logout": {"POST": page(frame.log_out, open_to_all=True)},
        "/theme": {"POST": page(frame.choose_theme, open_to_all=True)},
        "/more": {"GET": page(frame.more)},
        "/keys": {"POST": page(frame.choose_keys, open_to_all=True)},
        "/runbook": {"GET": page(frame.runbook)},
        "/queues": {"GET": page(queue_list.every, "queues")},
        "/pause/{name:path}": {"GET": page(queue.ask_pause), "POST": page(queue.pause)},
        "/resume/{name:path}": {"GET": page(queue.ask_resume), "POST": page(queue.resume)},
        "/queues/{name:path}": {"GET": page(queue.show, "queue:{name}")},
        "/set/{name:path}": {"GET": page(settings.ask), "POST": page(settings.save)},
        "/push/{name:path}": {"GET": page(settings.ask_push), "POST": page(settings.push)},
        "/errors": {"GET": page(errors.every, "errors")},
        "/errors/{name}": {"GET": page(errors.show)},
        "/jobs": {"GET": page(job_list.every)},
        "/jobs/{name}": {"GET": page(job.show)},
        "/jobs/{name}/reveal": {"POST": page(job.reveal)},
        "/jobs/{name}/{act}": {"GET": page(job.ask), "POST": page(job.act)},
        "/bulk": {"GET": page(bulk.ask), "POST": page(bulk.begin)},
        "/bulk/{name}/stop": {"POST": page(bulk.stop)},
        "/flows": {"GET": page(flows.every)},
        "/flows/{name}": {"GET": page(flows.show)},
        "/managers": {"GET": page(managers.every, "managers")},
        "/pipelines": {"GET": page(pipelines.every, "queues", "streams")},
        "/{act}-pipeline/{name:path}": {"GET": page(pipelines.ask), "POST": page(pipelines.act)},
        "/pipelines/{name:path}": {"GET": page(pipelines.show, "queues", "streams")},
        "/streams": {"GET": page(streams.every, "streams")},
        "/streams/release/{name:path}": {"GET": page(streams.ask_release), "POST": page(streams.release)},
        "/workers": {"GET": page(workers.every, "workers")},
        "/schedules": {"GET": page(schedules.every)},
        "/schedules/{act}/{name:path}": {"GET": page(schedules.ask), "POST": page(schedules.act)},
        "/semaphores": {"GET": page(semaphores.every)},
        "/semaphores/{name:path}": {"GET": page(semaphores.show), "POST": page(semaphores.resize)},
        "/report": {"GET": page(report.show)},
        "/audit": {"GET": page(audit.log)},
        "/audit.csv": {"GET": page(audit.as_csv)},
        "/audit.jsonl": {"GET": page(audit.as_lines)},
    }


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

        try:
            await self._inner(scope, receive, secured)
        except ClientDisconnect:  # in the middle of its form
            _log.info("a client has gone before the end of its request")
