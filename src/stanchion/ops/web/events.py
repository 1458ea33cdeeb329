"""Server-sent events: a tab hears which of its topics are stale, and fetches its page again.

    retry: 3000
    event: hello       data: {"v": 811}
    event: stale       data: {"topics": ["verdict"], "v": 812}      id: 5f0c2a91-812

An event says no more than that, so a slow tab has nothing to catch up with: of unread news, only the topics are kept.
After a cut the browser names the last id, and hears immediately if it has missed something.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from stanchion.ops.web.endpoints import Endpoints
from stanchion.ops.web.live.topics import Tab

STREAMS_MAX: Final = 500
"""Streams of a process; beyond, a tab fetches its page every 15 s."""

TOPICS_MAX: Final = 20
"""Topics of a stream."""

LEAST: Final = 1.0
"""Seconds between two events of a stream at least."""

QUIET: Final = 15.0
"""Seconds without news after which a comment keeps the connection, and the session is checked."""

STALLED: Final = 30.0
"""Seconds after which a stream ends that is not read."""

_log = logging.getLogger("stanchion.web")


class Events:
    """The streams of one site."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self.open = 0
        """Streams open now."""

    async def stream(self, request: Request) -> Response:
        """Answer with a stream of events, while the session of the request holds."""
        refusal = self._endpoints.refusal(request)
        if refusal is not None:
            return PlainTextResponse(f"{refusal}\n", 403)
        topics = request.query_params.getlist("topics")
        if not 0 < len(topics) <= TOPICS_MAX:
            return PlainTextResponse(f"name 1 to {TOPICS_MAX} topics, such as ?topics=verdict\n", 400)
        if self.open >= STREAMS_MAX:
            return PlainTextResponse("too many streams\n", 503, {"Retry-After": "60"})
        self.open += 1
        tab, board = Tab(topics), self._endpoints.site.board
        board.join(tab, request.headers.get("last-event-id") or request.query_params.get("since", ""))

        def ended() -> None:
            self.open -= 1
            board.leave(tab)

        return _Stream(self._events(request, tab), ended)

    async def _events(self, request: Request, tab: Tab) -> AsyncIterator[str]:
        site = self._endpoints.site
        site.sampler.ask()
        yield f"retry: 3000\nevent: hello\ndata: {_data(v=site.board.version_of(tab.topics))}\n\n"
        while not site.closed and self._endpoints.refusal(request) is None:
            news = await tab.news(QUIET)
            site.sampler.ask()
            if news is None:
                yield ": still here\n\n"
                continue
            place = site.board.place(news.version)
            yield f"id: {place}\nevent: stale\ndata: {_data(topics=news.topics, v=news.version)}\n\n"
            await asyncio.sleep(LEAST)


class _Stream(StreamingResponse):
    """A stream that ends when it is not read; `ended` is called at its end, however it comes."""

    def __init__(self, events: AsyncIterator[str], ended: Callable[[], None]) -> None:
        super().__init__(events, headers={"X-Accel-Buffering": "no"}, media_type="text/event-stream")
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def hurried(message: Message) -> None:
            async with asyncio.timeout(STALLED):
                await send(message)

        try:
            await super().__call__(scope, receive, hurried)
        except (TimeoutError, ClientDisconnect):
            _log.info("a tab has gone, or has not read its events for %g s: its stream ends", STALLED)
        finally:
            self._ended()


def _data(**values: object) -> str:
    return json.dumps(values, separators=(",", ":"))
