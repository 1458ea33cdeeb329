"""The page below a path of a proxy, which may strip the path or pass it on."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send


class Mounted:
    """Gives each request the path below which the page is mounted.

    For a page below `/shop/jobs`, a proxy that strips the path asks for `/queues`, another one for `/shop/jobs/queues`.
    The routes show which of the two it is, so no setting is needed. A root such as `/queues` makes a few paths
    ambiguous: the root itself is taken for the page of this name, all others for paths that were passed on.
    """

    def __init__(self, inner: ASGIApp, root: str, routes: Sequence[BaseRoute]) -> None:
        self._inner, self._root, self._routes = inner, root, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            scope = {**scope, "root_path": self._root, "path": self._root + path if self._stripped(path) else path}
        await self._inner(scope, receive, send)

    def _stripped(self, path: str) -> bool:
        """Return whether the root is missing from the path of a request."""
        if path != self._root and not path.startswith(f"{self._root}/"):
            return True
        return self._routed(path) and not self._routed(path.removeprefix(self._root))

    def _routed(self, path: str) -> bool:
        """Return whether a page has this path, or is one slash away."""
        plain = path if path in ("", "/") else path.removesuffix("/")
        scope = {"type": "http", "method": "GET", "path": plain, "root_path": ""}
        return any(route.matches(scope)[0] is not Match.NONE for route in self._routes)
