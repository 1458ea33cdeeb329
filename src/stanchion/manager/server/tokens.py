"""Tokens: allowed callers of the manager, with roles and queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from stanchion.core.checks import checked_name, refuse_unknown, several
from stanchion.core.names import tokens
from stanchion.core.names.partition_names import logical_name
from stanchion.core.names.tokens import token_of
from stanchion.errors import InvalidInput

__all__ = ["PATTERNS", "Caller", "Role", "Token", "Tokens", "caller_in", "token_of", "tokens_in"]


class Role(StrEnum):
    """Roles of callers. Each role may also read; `admin` may do everything."""

    READ = "read"
    """Nothing but read."""
    PUSH = "push"
    """Store jobs and flows."""
    RECEIVE = "receive"
    """Reserve and finish jobs, and report as a worker."""
    ADMIN = "admin"
    """Change queues and semaphores; cancel, retry, delete and copy jobs."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: a name for the log, its roles, and patterns of the queues that it is limited to (None: all).

    `semaphores`, `rates`: patterns of names that its jobs may use; None: all, or with `queues` none, except for the
    rates of these queues.
    """

    name: str
    roles: frozenset[Role] = frozenset(Role)
    queues: tuple[str, ...] | None = None
    semaphores: tuple[str, ...] | None = None
    rates: tuple[str, ...] | None = None

    def has(self, role: Role | None) -> bool:
        """Return whether it may do what takes this role; None: any role."""
        return role is None or role in self.roles or Role.ADMIN in self.roles

    def reaches(self, queue: str) -> bool:
        """Return whether it may use this queue, or this partition of one."""
        return self.queues is None or _fits(logical_name(queue), self.queues)

    def uses_semaphore(self, name: str) -> bool:
        """Return whether its jobs may hold this semaphore."""
        return self.queues is None if self.semaphores is None else _fits(name, self.semaphores)

    def names_rate(self, name: str) -> bool:
        """Return whether its jobs may share this rate, whatever queues it is limited to."""
        return self.queues is None if self.rates is None else _fits(name, self.rates)


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


Token = tokens.Token[Caller]
Tokens = tokens.Tokens[Caller]


def tokens_in(path: str | Path) -> list[Token]:
    """Read tokens from a TOML file. Raises InvalidInput, whose text shows no token.

    [[token]]
    name = "billing"
    token = "..."                # or sha256 = "...", its digest in hexadecimal
    roles = ["push", "receive"]  # default: all
    queues = ["orders", "mail.*"]  # default: all
    semaphores = ["smtp"]        # that its jobs may hold; default: all, or none with queues
    rates = ["task:shop.*"]      # that its jobs may share; default: all, or with queues those of its queues
    """
    return tokens.tokens_in(path, ("name", "roles", *PATTERNS), caller_in)


PATTERNS = ("queues", "semaphores", "rates")
"""The fields of a token with names or patterns."""


def caller_in(table: Mapping[str, object], where: str) -> Caller:
    """Return the caller of a table of such a file; `where` it stands, for errors."""
    return Caller(
        checked_name(table.get("name"), f"the name in {where}"),
        _roles(table.get("roles", [*Role]), where),
        *(_patterns(table[field], field, where) if field in table else None for field in PATTERNS),
    )


def _roles(given: object, where: str) -> frozenset[Role]:
    names = list(several(given, f"roles in {where}", '["push"]'))
    refuse_unknown(names, {role.value for role in Role}, f"role in {where}")
    if not names:
        raise InvalidInput(f"roles in {where} must not be empty; leave it out for all")
    return frozenset(map(Role, names))


def _patterns(given: object, field: str, where: str) -> tuple[str, ...]:
    names: Sequence[object] = list(several(given, f"{field} in {where}", '["orders", "mail.*"]'))
    if not names and field == "queues":
        raise InvalidInput(f"queues in {where} must not be empty; leave it out for all")
    return tuple(checked_name(name, f"a name of {field} in {where}") for name in names)
