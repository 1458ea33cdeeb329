"""Addresses and their methods: the first address that fits a request decides which methods there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Endpoint = Callable[[Request], Awaitable[Response]]


def address(path: str, endpoints: Mapping[str, Endpoint]) -> Route:
    """Return the route of an address. `endpoints`: by method; GET's answers HEAD too.

    It refuses other methods itself, and lists the existing ones: with a route per method, a later one with a longer
    name, such as `/queues/{name:path}`, would take the act of an earlier one, `/queues/{name:path}/pause`, for a name.
    """
    allowed = ", ".join(sorted({*endpoints, *(["HEAD"] if "GET" in endpoints else [])}))

    async def endpoint(request: Request) -> Response:
        found = endpoints.get("GET" if request.method == "HEAD" else request.method)
        if found is None:
            raise HTTPException(405, headers={"Allow": allowed})
        return await found(request)

    route = Route(path, endpoint)
    route.methods = None  # all of them
    return route
