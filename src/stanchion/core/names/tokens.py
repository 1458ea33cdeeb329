"""Tokens: texts that prove who calls. Each is known by its SHA-256 digest only, and compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from stanchion.core.checks import refuse_unknown
from stanchion.errors import InvalidInput

SHORTEST = 16
"""Characters of the shortest token: a shorter one could be guessed."""


class Named(Protocol):
    """A caller; its name is for the log."""

    @property
    def name(self) -> str: ...


C = TypeVar("C", bound=Named)


@dataclass(frozen=True, slots=True)
class Token(Generic[C]):
    """A caller, known by the digest of its token."""

    caller: C
    digest: bytes = field(repr=False)


class Tokens(Generic[C]):
    """The tokens that a server accepts."""

    def __init__(self, tokens: Iterable[Token[C]] = ()) -> None:
        self._tokens = tuple(tokens)

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def token_of(self, secret: str) -> Token[C] | None:
        """Return the token with this text; each known token is compared, whichever fits."""
        given, found = _digest(secret), None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, given):
                found = token
        return found

    def caller_of(self, secret: str) -> C | None:
        """Return the caller with this token."""
        token = self.token_of(secret)
        return None if token is None else token.caller

    def named(self, name: str) -> list[Token[C]]:
        """Return the tokens of the callers of this name."""
        return [token for token in self._tokens if token.caller.name == name]


def token_of(secret: str, caller: C) -> Token[C]:
    """Return a token by its text. Raises InvalidInput for one that could be guessed or not be sent."""
    if len(secret) < SHORTEST or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise InvalidInput(
            f"the token of {caller.name} must be at least {SHORTEST} printable ASCII characters without spaces; make "
            f"one by: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    return Token(caller, _digest(secret))


def tokens_in(
    path: str | Path, fields: Collection[str], caller_in: Callable[[Mapping[str, Any], str], C]
) -> list[Token[C]]:
    """Read the tables [[token]] of a TOML file. Raises InvalidInput, whose text shows no token.

    Each has either `token` or `sha256`, its digest in hexadecimal, and the fields from which `caller_in` makes a
    caller; it gets the table and where it stands, for its errors.
    """
    try:
        found = tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise InvalidInput(f"can't read the tokens in {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):  # its text may quote a token
        raise InvalidInput(f"{path} is not TOML; write a [[token]] with name and token for each caller") from None
    refuse_unknown(found, {"token"}, f"table of {path}")
    tables = found.get("token", [])
    if not isinstance(tables, list) or not tables or not all(isinstance(one, dict) for one in tables):
        raise InvalidInput(f"{path} has no token; write a [[token]] with name and token for each caller")
    tokens = []
    for number, table in enumerate(tables, 1):
        where = f"{path}, token {number}"
        refuse_unknown(table, {"token", "sha256", *fields}, f"field of {where}")
        tokens.append(_token_in(table, caller_in(table, where), where))
    if len({token.digest for token in tokens}) < len(tokens):
        raise InvalidInput(f"{path} has the same token twice; give each caller a different one")
    return tokens


def _token_in(table: Mapping[str, object], caller: C, where: str) -> Token[C]:
    if ("token" in table) == ("sha256" in table):
        raise InvalidInput(f"{where} must have either token or sha256")
    if "token" in table:
        return token_of(str(table["token"]), caller)
    try:
        digest = bytes.fromhex(str(table["sha256"]))
    except ValueError:
        digest = b""
    if len(digest) != hashlib.sha256().digest_size:
        raise InvalidInput(f"sha256 in {where} must be a digest of 64 hexadecimal digits")
    return Token(caller, digest)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
