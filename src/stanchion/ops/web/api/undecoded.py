"""Paths as they were sent, so that an encoded slash is part of a name: of `x%2Fpause`, and not the act on `x`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send


class Undecoded:
    """Routes requests by the paths that were sent; the values in them stay encoded."""

    def __init__(self, inner: ASGIApp, routes: Sequence[Route]) -> None:
        self._inner, self.routes = inner, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            root = scope.get("root_path", "")
            scope = {**scope, "path": root + _sent(scope["path"].removeprefix(root), scope.get("raw_path"))}
        await self._inner(scope, receive, send)


def _sent(path: str, raw: bytes | None) -> str:
    """Return a path below the root as it was sent; a server that keeps no raw path has decoded it for good."""
    sent = (raw or b"").decode("ascii", "replace").partition("?")[0]
    return next((tail for tail in _tails(sent) if unquote(tail) == path), path.replace("%", "%25"))


def _tails(sent: str) -> Iterator[str]:
    place = sent.find("/")
    while place >= 0:
        yield sent[place:]
        place = sent.find("/", place + 1)
