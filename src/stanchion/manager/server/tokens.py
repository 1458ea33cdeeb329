"""Tokens: who may call the manager, in which roles, for which queues.

A token is known by its SHA-256 digest only, and compared in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from stanchion.core.checks import checked_name, refuse_unknown, several
from stanchion.core.partition_names import logical_name
from stanchion.errors import InvalidInput

SHORTEST = 16
"""Characters of the shortest token: a shorter one could be guessed."""


class Role(StrEnum):
    """What a caller may do. Each role may also read; `admin` may do all."""

    PUSH = "push"
    """Store jobs and flows."""
    RECEIVE = "receive"
    """Reserve and finish jobs, and report as a worker."""
    ADMIN = "admin"
    """Change queues and semaphores; cancel, retry, delete and copy jobs."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: a name for the log, its roles, and patterns of the queues that it is limited to (None: all)."""

    name: str
    roles: frozenset[Role] = frozenset(Role)
    queues: tuple[str, ...] | None = None

    def has(self, role: Role | None) -> bool:
        """Return whether it may do what takes this role; None: any role."""
        return role is None or role in self.roles or Role.ADMIN in self.roles

    def reaches(self, queue: str) -> bool:
        """Return whether it may use this queue, or this partition of one."""
        if self.queues is None:
            return True
        name = logical_name(queue)
        return any(fnmatchcase(name, pattern) for pattern in self.queues)


@dataclass(frozen=True, slots=True)
class Token:
    """A caller, known by the digest of its token."""

    caller: Caller
    digest: bytes = field(repr=False)


class Tokens:
    """The tokens that a manager accepts."""

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        self._tokens = tuple(tokens)

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def caller_of(self, secret: str) -> Caller | None:
        """Return the caller with this token; each known token is compared, whichever fits."""
        given, found = _digest(secret), None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, given):
                found = token.caller
        return found


def token_of(secret: str, caller: Caller) -> Token:
    """Return a token by its text. Raises InvalidInput for one that could be guessed or not be sent."""
    if len(secret) < SHORTEST or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise InvalidInput(
            f"the token of {caller.name} must be at least {SHORTEST} printable ASCII characters without spaces; make "
            f"one by: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    return Token(caller, _digest(secret))


def tokens_in(path: str | Path) -> list[Token]:
    """Read tokens from a TOML file. Raises InvalidInput, whose text shows no token.

    [[token]]
    name = "billing"
    token = "..."                # or sha256 = "...", its digest in hexadecimal
    roles = ["push", "receive"]  # default: all
    queues = ["orders", "mail.*"]  # default: all
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
    tokens = [_token_in(one, f"{path}, token {number}") for number, one in enumerate(tables, 1)]
    if len({token.digest for token in tokens}) < len(tokens):
        raise InvalidInput(f"{path} has the same token twice; give each caller one of its own")
    return tokens


def _token_in(table: Mapping[str, Any], where: str) -> Token:
    refuse_unknown(table, {"name", "token", "sha256", "roles", "queues"}, f"field of {where}")
    caller = Caller(
        checked_name(table.get("name"), f"the name in {where}"),
        _roles(table.get("roles", [*Role]), where),
        _queues(table["queues"], where) if "queues" in table else None,
    )
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


def _roles(given: Any, where: str) -> frozenset[Role]:
    names = list(several(given, f"roles in {where}", '["push"]'))
    refuse_unknown(names, {role.value for role in Role}, f"role in {where}")
    if not names:
        raise InvalidInput(f"roles in {where} must not be empty; leave it out for all")
    return frozenset(map(Role, names))


def _queues(given: Any, where: str) -> tuple[str, ...]:
    names: Sequence[Any] = list(several(given, f"queues in {where}", '["orders", "mail.*"]'))
    if not names:
        raise InvalidInput(f"queues in {where} must not be empty; leave it out for all")
    return tuple(checked_name(name, f"a queue in {where}") for name in names)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
