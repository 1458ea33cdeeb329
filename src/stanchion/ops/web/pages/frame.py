"""The pages of the frame: the list of all, log out, theme."""

from __future__ import annotations

from starlette.responses import Response

from stanchion.ops.web.access.session import PLAIN_COOKIE, SECURE_COOKIE
from stanchion.ops.web.show.runbook import sections
from stanchion.ops.web.show.shell import KEYS_COOKIE, THEME_COOKIE, THEMES
from stanchion.ops.web.visit import Visit

A_YEAR = 365 * 86_400


def more(visit: Visit) -> Response:
    """List all pages; the last tab of a phone leads here."""
    return visit.page("more.html", "All pages")


def log_out(visit: Visit) -> Response:
    """End the session in this browser."""
    response = visit.to("/login")
    for name in (PLAIN_COOKIE, SECURE_COOKIE):
        response.delete_cookie(name, path="/", secure=name == SECURE_COOKIE, httponly=True, samesite="strict")
    return response


def choose_theme(visit: Visit) -> Response:
    """Keep the colours that a browser wants, light, dark or its own, and go back."""
    response = visit.to(visit.back())
    theme = visit.form.get("theme", "")
    if theme in THEMES:
        secure = visit.request.url.scheme == "https"
        response.set_cookie(THEME_COOKIE, theme, max_age=A_YEAR, secure=secure, httponly=True, samesite="lax")
    return response


def choose_keys(visit: Visit) -> Response:
    """Turn the keys of a browser on or off."""
    response = visit.to("/more")
    secure = visit.request.url.scheme == "https"
    keys = "off" if visit.form.get("keys") == "off" else "on"
    response.set_cookie(KEYS_COOKIE, keys, max_age=A_YEAR, secure=secure, httponly=True, samesite="lax")
    return response


def runbook(visit: Visit) -> Response:
    """Show what each alert means, and what to do."""
    return visit.page("runbook.html", "What each alert means, and what to do", sections=sections())
