"""Server-sent events: a tab hears that there is something new, and fetches its page again.

An event says no more than that, so a slow tab has nothing to catch up with.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from stanchion.ops.web.door import Door

STREAMS_MAX: Final = 500
"""Streams of a process; beyond, a tab fetches its page every 15 s."""

LOOKS: Final = 1.0
"""Seconds between looks for a new sample."""

QUIET: Final = 15
"""Looks without news after which a comment keeps the connection."""


class Events:
    """The streams of one site."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.open = 0
        """Streams open now."""

    async def stream(self, request: Request) -> Response:
        """Answer with a stream of events, while the session of the request holds."""
        refusal = self._door.refusal(request)
        if refusal is not None:
            return PlainTextResponse(f"{refusal}\n", 403)
        if self.open >= STREAMS_MAX:
            return PlainTextResponse("too many streams\n", 503, {"Retry-After": "60"})
        return StreamingResponse(self._events(request), media_type="text/event-stream")

    async def _events(self, request: Request) -> AsyncIterator[str]:
        sampler, known, quiet = self._door.site.sampler, self._door.site.sampler.ask(), 0
        self.open += 1
        try:
            yield f"retry: 3000\nevent: hello\ndata: {known}\n\n"
            while not self._door.site.closed and self._door.refusal(request) is None:
                await asyncio.sleep(LOOKS)
                newest = sampler.ask()
                quiet += 1
                if newest != known:
                    known, quiet = newest, 0
                    yield f"event: stale\ndata: {known}\n\n"
                elif quiet >= QUIET:
                    quiet = 0
                    yield ": still here\n\n"
        finally:
            self.open -= 1
