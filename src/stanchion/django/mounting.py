"""An ASGI app within a view of Django, under ASGI and under WSGI."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping, MutableMapping
from http.cookies import SimpleCookie
from typing import Any, Final, TypeVar
from urllib.parse import quote

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

T = TypeVar("T")

Message = MutableMapping[str, Any]

QUEUED: Final = 16
"""Messages of a stream that wait for a slow client."""


class Exchange:
    """One request passed to an ASGI app, and its answer."""

    def __init__(self, app: Any, request: HttpRequest, root: str, extra: Mapping[str, object]) -> None:
        self._app, self._body, self._scope = app, request.body, {**_scope(request, root), **extra}
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue(QUEUED)
        self._gone = asyncio.Event()
        self._sent = False

    async def whole(self) -> HttpResponse:
        """Return the answer once it is complete."""
        run = asyncio.create_task(self._run())
        start, parts = None, []
        while (message := await self._messages.get()) is not None:
            if message["type"] == "http.response.start":
                start = message
            else:
                parts.append(message.get("body", b""))
        await run
        assert start is not None  # noqa: S101 - an app that ends without an answer has raised
        return _headed(HttpResponse(b"".join(parts), status=start["status"]), start)

    async def streamed(self) -> HttpResponseBase:
        """Return the answer as soon as it begins; the app runs until its stream ends or the client is gone."""
        run = asyncio.create_task(self._run())
        start = await self._messages.get()
        if start is None:
            await run
            raise RuntimeError("the app ended without an answer")
        return _headed(StreamingHttpResponse(self._parts(run), status=start["status"]), start)

    async def _parts(self, run: asyncio.Task[None]) -> AsyncIterator[bytes]:
        try:
            while (message := await self._messages.get()) is not None:
                yield message.get("body", b"")
            await run
        finally:
            self._gone.set()
            run.cancel()

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._messages.put)
        finally:
            await self._messages.put(None)

    async def _receive(self) -> Message:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}


class Loop:
    """An event loop in a separate thread, for servers without one. Each process makes one at its first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[int, asyncio.AbstractEventLoop] | None = None

    async def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine there; return its result."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop()))

    def _loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():  # a fork copies the loop, not its thread
                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="stanchion-page", daemon=True).start()
                self._made = os.getpid(), loop
            return self._made[1]


def _scope(request: HttpRequest, root: str) -> dict[str, object]:
    """Return the scope of a request, as Django sees it: its settings about proxies hold."""
    host, _, port = request.get_host().rpartition(":") if ":" in request.get_host() else (request.get_host(), "", "")
    address = str(request.META.get("REMOTE_ADDR") or "")
    raw = request.scope.get("raw_path") if isinstance(request, ASGIRequest) else None
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": raw or quote(request.path).encode(),
        "root_path": root,
        "query_string": str(request.META.get("QUERY_STRING", "")).encode("latin-1"),
        "headers": [
            (name.lower().encode("latin-1"), str(value).encode("latin-1", "replace"))
            for name, value in request.headers.items()
        ],
        "client": (address, 0) if address else None,
        "server": (host, int(port) if port.isdecimal() else None),
        "state": {},
    }


def _headed(response: HttpResponseBase, start: Message) -> HttpResponseBase | object:
    del response.headers["Content-Type"]
    for raw_name, raw_value in start.get("headers", ()):
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if name.lower() == "set-cookie":
            response.cookies.update(SimpleCookie(value))
        else:
            response.headers[name] = value
    return response
