"""The page in a project of Django: Django's users read it or act, by their permissions."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Mapping
from typing import Final

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import NoReverseMatch, reverse
from django.utils.crypto import salted_hmac
from django.views.decorators.csrf import csrf_exempt

from stanchion.django import app_of
from stanchion.django.databases.commits import outside_transactions
from stanchion.django.databases.testing import before_drop
from stanchion.django.mounting import Exchange, Loop
from stanchion.ops.web.access.callers import Caller, Role, Tokens
from stanchion.ops.web.access.session import KNOWN, Session
from stanchion.ops.web.asgi import site_app
from stanchion.ops.web.site import Site

VIEW: Final = "stanchion.view_job"
"""The permission to read the page."""

OPERATE: Final = "stanchion.operate_job"
"""The permission to act on it."""

_EVENTS: Final = "events"

_loop = Loop()
_lock = threading.Lock()
_pages: dict[str, tuple[Site, object]] = {}


@outside_transactions
@csrf_exempt  # the page checks CSRF tokens and the origin of its forms
async def page(request: HttpRequest, path: str = "", backend: str = "default") -> HttpResponseBase:
    """Answer for the page of a backend's store. `path`: below the place where the page is mounted.

    Staff with the permission VIEW read it, with OPERATE they act; all others are sent to the login. Under WSGI,
    open tabs poll: a stream of events would occupy a thread for each of them.
    """
    session = await _session(request)
    if session is None:
        return redirect_to_login(request.get_full_path(), _login())
    live = isinstance(request, ASGIRequest)
    if path == _EVENTS and not live:
        return HttpResponse("this server can't stream\n", status=503, headers={"Retry-After": "60"})
    root = request.path.removesuffix(path).rstrip("/")
    app, extra = _page_of(backend), {KNOWN: session}
    if live:
        exchange = Exchange(app, request, root, extra)
        return await (exchange.streamed() if path == _EVENTS else exchange.whole())
    return await _loop.run(_whole(app, request, root, extra))


async def _whole(app: object, request: HttpRequest, root: str, extra: Mapping[str, object]) -> HttpResponse:
    return await Exchange(app, request, root, extra).whole()


async def _session(request: HttpRequest) -> Session | None:
    """Return the user's session of the page; None for a user who may log in. Raises PermissionDenied."""
    user = await request.auser()
    if not (user.is_active and getattr(user, "is_staff", False)):
        return None
    if not await user.ahas_perm(VIEW):
        raise PermissionDenied(f"{user} may not view jobs: this takes the permission {VIEW}")
    role = Role.OPERATE if await user.ahas_perm(OPERATE) else Role.READ
    of_login = user.get_session_auth_hash() if hasattr(user, "get_session_auth_hash") else ""
    csrf = salted_hmac("stanchion.django.page", f"{user.pk}:{of_login}", algorithm="sha256").hexdigest()
    return Session(Caller(user.get_username(), role), "", csrf)


def _login() -> str:
    try:
        return str(reverse("admin:login"))
    except NoReverseMatch:
        return str(settings.LOGIN_URL)


def _page_of(backend: str) -> object:
    with _lock:
        if backend not in _pages:
            site = Site(app_of(backend), Tokens([]))
            _pages[backend] = site, site_app(site)
        return _pages[backend][1]


def close_all() -> None:
    """Stop the readers and streams of all pages of this process; the next request makes a new page."""
    with _lock:
        while _pages:
            _pages.popitem()[1][0].close()


atexit.register(close_all)
before_drop(close_all)
