"""Sessions of browsers: a signed cookie, and the CSRF token that belongs to it. The server stores no session.

    name.issued.nonce.signature     the first three signed with the digest of the caller's token

A session ends when it is too old, and when its token is removed from the file. The nonce gives each session a separate
CSRF token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from stanchion.ops.web.access.callers import LOCAL, Caller, Token, Tokens

LASTS: Final = 12 * 3600
"""Seconds that a login is valid."""

PLAIN_COOKIE: Final = "stanchion"
SECURE_COOKIE: Final = "__Host-stanchion"
"""A browser takes a cookie of this name only by TLS, for this host alone; no other site can set it."""


@dataclass(frozen=True, slots=True)
class Session:
    """A caller, and the CSRF token of its forms. `cookie`: its text; empty if the page gives the browser none."""

    caller: Caller
    cookie: str
    csrf: str


KNOWN: Final = "stanchion.session"
"""The key of a request's scope with the session of a user whom the surrounding framework has logged in."""


def known_session(request: Request) -> Session | None:
    """Return the session that the surrounding framework has put into the scope, which no client can write."""
    found = request.scope.get(KNOWN)
    return found if isinstance(found, Session) else None


class Sessions:
    """Makes and checks sessions; times are seconds since 1970."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._own_key = secrets.token_bytes(32)

    def begin(self, token: Token, now: float) -> Session:
        """Return a new session of the caller with this token."""
        return self._signed(token.caller, token.digest, int(now))

    def begin_local(self, now: float) -> Session:
        """Return a new session without a token, for this machine; it ends with the process."""
        return self._signed(LOCAL, self._own_key, int(now))

    def of(self, cookie: str, now: float) -> Session | None:
        """Return the session of a cookie; None if it is forged, too old, or its token is gone."""
        name, _, rest = cookie.partition(".")
        issued, _, rest = rest.partition(".")
        nonce, _, signature = rest.partition(".")
        if not issued.isdecimal() or len(issued) > 12 or not 0 <= now - int(issued) < LASTS:
            return None
        for caller, key in self._keys(_unpacked(name)):
            if hmac.compare_digest(_mac(key, "session", name, issued, nonce), signature):
                return Session(caller, cookie, _mac(key, "csrf", nonce))
        return None

    def _keys(self, name: str) -> list[tuple[Caller, bytes]]:
        if not self._tokens:
            return [(LOCAL, self._own_key)] if name == LOCAL.name else []
        return [(token.caller, token.digest) for token in self._tokens.named(name)]

    def _signed(self, caller: Caller, key: bytes, issued: int) -> Session:
        name, nonce = _packed(caller.name), secrets.token_urlsafe(18)
        signature = _mac(key, "session", name, str(issued), nonce)
        return Session(caller, f"{name}.{issued}.{nonce}.{signature}", _mac(key, "csrf", nonce))


def _mac(key: bytes, *parts: str) -> str:
    text = "\0".join(("stanchion web", *parts)).encode("utf-8", "surrogateescape")
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def _packed(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _unpacked(name: str) -> str:
    try:
        return base64.urlsafe_b64decode(name.encode() + b"=" * (-len(name) % 4)).decode()
    except ValueError:  # also what can't be encoded or decoded
        return ""
