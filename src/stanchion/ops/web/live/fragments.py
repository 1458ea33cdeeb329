"""Pages that tabs fetch again: each is rendered once for all tabs that ask for the same, and kept.

What differs between sessions is not part of it: a form's CSRF token and the name of the caller are put in at the end.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from typing import Final, NamedTuple

from markupsafe import escape
from starlette.responses import Response

from stanchion.ops.web.access.callers import Caller
from stanchion.ops.web.access.session import Session

MOST: Final = 200
"""Pages that are kept, those asked for last."""

MOST_BYTES: Final = 16 * 1024 * 1024

Render = Callable[[Session], Awaitable[Response]]


class Key(NamedTuple):
    """Identity of a page: its address, its user, and its version."""

    path: str
    query: str
    base: str
    look: tuple[str, ...]
    role: str
    version: Hashable


class _Rendered(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


class Fragments:
    """The pages of one site."""

    def __init__(self) -> None:
        self._csrf, self._name = secrets.token_hex(16), secrets.token_hex(16)
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, _Rendered] = OrderedDict()
        self._bytes = 0
        self._rendering: dict[Key, Future[_Rendered]] = {}
        self.renders = 0
        """Pages rendered so far."""

    async def answer(self, key: Key, session: Session, epoch: str, known: str, render: Render) -> Response:
        """Return the page for a session; 304 if `known`, its If-None-Match, names it. `epoch`: of the versions."""
        tag = _tag(key, epoch, session)
        if tag in known:
            return Response(status_code=304, headers={"ETag": tag})
        found = await self._of(key, session, render)
        body = found.body.replace(self._csrf.encode(), session.csrf.encode())
        body = body.replace(self._name.encode(), str(escape(session.caller.name)).encode())
        headers = {**found.headers, "ETag": tag} if found.status == 200 else found.headers
        return Response(body, found.status, headers)

    async def _of(self, key: Key, session: Session, render: Render) -> _Rendered:
        with self._lock:
            if (kept := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return kept
            under_way = self._rendering.get(key)
            if under_way is None:
                mine = self._rendering[key] = Future[_Rendered]()
                self.renders += 1
        if under_way is not None:
            return await asyncio.shield(asyncio.wrap_future(under_way))
        try:
            found = _rendered(await render(Session(Caller(self._name, session.caller.role), "", self._csrf)))
        except BaseException as error:
            with self._lock:
                del self._rendering[key]
            mine.set_exception(error)
            raise
        with self._lock:
            del self._rendering[key]
            if found.status == 200:
                self._keep(key, found)
        mine.set_result(found)
        return found

    def _keep(self, key: Key, found: _Rendered) -> None:
        """Keep a page in place of its older versions."""
        for old in [one for one in self._kept if one[:-1] == key[:-1]]:
            self._bytes -= len(self._kept.pop(old).body)
        self._kept[key] = found
        self._bytes += len(found.body)
        while len(self._kept) > MOST or self._bytes > MOST_BYTES:
            self._bytes -= len(self._kept.popitem(last=False)[1].body)


def _rendered(response: Response) -> _Rendered:
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return _Rendered(response.status_code, bytes(response.body), headers)


def _tag(key: Key, epoch: str, session: Session) -> str:
    """Return the ETag of a page, as this session sees it."""
    whole = repr((key, epoch, session.caller.name, session.csrf)).encode("utf-8", "surrogatepass")
    return f'"{hashlib.sha256(whole).hexdigest()[:24]}"'
