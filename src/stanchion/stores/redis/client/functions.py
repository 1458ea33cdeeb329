"""The library of functions on the server: `stanchion_push`, for programs without the package."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

from redis.exceptions import ResponseError

from stanchion.errors import StoreUnavailable
from stanchion.stores.redis.client.layout import BODY
from stanchion.stores.redis.client.scripts import script, script_texts
from stanchion.stores.redis.client.server import Server
from stanchion.stores.rules.plain_push import UNPRINTABLE, filled


def load(server: Server) -> None:
    """Load the library on every master. Servers before Redis 7 have no functions; a user may lack the right."""
    with suppress(ResponseError, StoreUnavailable):
        server.call(lambda _again: server.client.function_load(library(), replace=True))


@cache
def library() -> str:
    """Return the text of the library."""
    unprintable = ", ".join(str(code) for codes in UNPRINTABLE for code in codes)
    body = ", ".join(f"'{name}'" for name in BODY)
    store = f"local function store(KEYS, ARGV)\n{script('push').text}\nend\n"
    return f"#!lua name=stanchion\n{store}{filled(script_texts()['plain_push'], unprintable=unprintable, body=body)}"
