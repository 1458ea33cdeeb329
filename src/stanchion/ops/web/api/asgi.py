"""The ASGI app of the API, mounted at /api of the page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from stanchion import __version__
from stanchion.ops.web.api.checking import Checks
from stanchion.ops.web.api.cursors import Cursors
from stanchion.ops.web.api.document import document
from stanchion.ops.web.api.entry import Entry, base_of
from stanchion.ops.web.api.operation import Answer, Call, Operation, Shared
from stanchion.ops.web.api.problems import Problem, answer_of
from stanchion.ops.web.api.routes import about, bulk, graphs, jobs, outcomes, parts, push, queues, watch
from stanchion.ops.web.api.schemas.answers import ANSWERS
from stanchion.ops.web.api.schemas.filters import FILTERS
from stanchion.ops.web.api.schemas.requests import BODIES
from stanchion.ops.web.api.undecoded import Undecoded
from stanchion.ops.web.methods import address
from stanchion.ops.web.site import Site

COMPONENTS: Final = {**BODIES, **ANSWERS, **FILTERS}
"""All schemas, by name."""


def described(call: Call) -> Answer:
    """Answer with the document."""
    return Answer(document(OPERATIONS, COMPONENTS, __version__, base_of(call.visit.request)))


OPERATIONS: Final[Sequence[Operation]] = (
    *push.OPERATIONS,
    *outcomes.OPERATIONS,
    *jobs.OPERATIONS,
    *queues.OPERATIONS,
    *bulk.OPERATIONS,
    *watch.OPERATIONS,
    *parts.OPERATIONS,
    *graphs.OPERATIONS,
    *about.OPERATIONS,
    Operation("GET", "/openapi.json", "getDocument", "about", "This document.", "Document", described),
)
"""All operations. Of two paths that fit, an act on a name comes before a name with slashes."""


def api(site: Site) -> Undecoded:
    """Return the API of a site."""
    entry = Entry(site, _checks(), Shared(Cursors(lambda: site.store)))
    by_path: dict[str, dict[str, Operation]] = {}
    for one in OPERATIONS:
        by_path.setdefault(one.path, {})[one.method] = one
    routes = [
        address(f"/v1{path}", {method: entry.endpoint(one) for method, one in of.items()})
        for path, of in sorted(by_path.items(), key=lambda one: one[0].endswith(":path}"))  # names with slashes last
    ]
    starlette = Starlette(routes=routes, exception_handlers={HTTPException: _missing})
    starlette.router.redirect_slashes = False
    return Undecoded(starlette, routes)


@cache
def _checks() -> Checks:
    """Return the checks, which are the same for all sites of a process."""
    return Checks(OPERATIONS, COMPONENTS)


def _missing(request: Request, error: Exception) -> Response:
    return missing(request, error, base_of(request))


def missing(request: Request, error: Exception, base: str) -> Response:
    """Answer a request below /api that no operation is for. `base`: the path of the API."""
    assert isinstance(error, HTTPException)  # noqa: S101 - the only kind that this is for
    if error.status_code == 405:
        problem = Problem("method-not-allowed", headers=error.headers)
    else:
        problem = Problem("not-found", "there is no such address; openapi.json lists all addresses")
    return answer_of(problem, base, request.url.path)
