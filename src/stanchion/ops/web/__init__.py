"""The page: queues, jobs, workers and activity in a browser; `stanchion web`, or mounted in another ASGI app."""

from __future__ import annotations

from stanchion.errors import MissingExtra

try:
    from stanchion.ops.web.access.callers import Caller, Role, Token, token_of, tokens_in
    from stanchion.ops.web.asgi import app
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in (
        "starlette",
        "jinja2",
        "markupsafe",
        "anyio",
        "jsonschema",
        "referencing",
    ):
        raise
    raise MissingExtra("web", "the page") from None

__all__ = ["Caller", "Role", "Token", "app", "token_of", "tokens_in"]
