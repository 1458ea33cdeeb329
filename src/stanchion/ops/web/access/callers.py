"""Allowed callers of the page, with their roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from stanchion.core import environment
from stanchion.core.checks import checked_name
from stanchion.core.names import tokens
from stanchion.core.names.tokens import token_of
from stanchion.errors import InvalidInput
from stanchion.manager.server.tokens import PATTERNS
from stanchion.manager.server.tokens import Caller as Program
from stanchion.manager.server.tokens import Role as ProgramRole
from stanchion.manager.server.tokens import caller_in as program_in

__all__ = ["LOCAL", "TOKEN_VARIABLE", "Caller", "Role", "Token", "Tokens", "token_of", "tokens_in"]

TOKEN_VARIABLE: Final = environment.WEB_TOKEN
"""The environment variable with a single token, of the role operate."""


class Role(StrEnum):
    """The permissions of a caller."""

    READ = "read"
    """See all pages."""
    OPERATE = "operate"
    """In addition, act: pause, retry, cancel, and see redacted values."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A user of the page: a name for the audit log, and a role.

    `program`: of a token with roles as managers have them, for programs that push jobs or work them off by the API, and
    may do nothing else; None for people.
    """

    name: str
    role: Role = Role.OPERATE
    program: Program | None = None

    @property
    def operates(self) -> bool:
        """Whether it may act."""
        return self.role is Role.OPERATE and self.program is None


LOCAL: Final = Caller("local")
"""The caller of a page without tokens, which only this machine can reach."""

Token = tokens.Token[Caller]
Tokens = tokens.Tokens[Caller]


def tokens_in(path: str | Path) -> list[Token]:
    """Read tokens from a TOML file. Raises InvalidInput, whose text shows no token.

    [[token]]
    name = "ana"
    token = "..."     # or sha256 = "...", its digest in hexadecimal
    role = "operate"  # default: read

    [[token]]
    name = "shop"
    token = "..."
    roles = ["push"]  # or receive, or both, as for a manager, with queues, semaphores and rates
    queues = ["orders", "mail.*"]
    """
    return tokens.tokens_in(path, ("name", "role", "roles", *PATTERNS), _caller_in)


def _caller_in(table: Mapping[str, Any], where: str) -> Caller:
    name, role = checked_name(table.get("name"), f"the name in {where}"), table.get("role", Role.READ)
    if "roles" in table:
        program = program_in(table, where)
        if "role" in table or not program.roles <= {ProgramRole.PUSH, ProgramRole.RECEIVE}:
            raise InvalidInput(
                f'roles in {where} are "push", "receive" or both; people have role = "read" or "operate"'
            )
        return Caller(name, Role.READ, program)
    if named := [field for field in PATTERNS if field in table]:
        raise InvalidInput(f'{named[0]} in {where} goes with roles, such as roles = ["push"]; a role is for all queues')
    if role not in [*Role]:
        raise InvalidInput(f"the role in {where} must be one of {', '.join(Role)}, not {role!r}")
    return Caller(name, Role(role))
