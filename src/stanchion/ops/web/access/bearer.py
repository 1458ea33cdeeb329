"""Tokens that programs send in the header Authorization."""

from __future__ import annotations

import logging

from starlette.requests import Request

from stanchion.ops.web.access.attempts import Attempts
from stanchion.ops.web.access.callers import Caller, Tokens

_log = logging.getLogger("stanchion.web")


class UnknownToken(Exception):
    """A token that is not known. `wait`: seconds until another one is looked at; 0: now."""

    def __init__(self, wait: float = 0.0) -> None:
        super().__init__("this token is not known")
        self.wait = wait


class Bearers:
    """Callers with a token. Unknown tokens are limited by address, as failed logins are."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens, self._unknown = tokens, Attempts()

    def caller_of(self, request: Request, now: float) -> Caller | None:
        """Return who sent a request by its token; None for one without. Raises UnknownToken."""
        given = request.headers.get("authorization")
        if given is None:
            return None
        scheme, _, secret = given.partition(" ")
        token = self._tokens.token_of(secret.strip()) if scheme.lower() == "bearer" else None
        if token is not None:
            return token.caller
        address = request.client.host if request.client else ""
        if (wait := self._unknown.wait(address, now)) > 0:
            raise UnknownToken(wait)
        self._unknown.failed(address, now)
        _log.warning("a request from %s had an unknown token", address)
        raise UnknownToken
