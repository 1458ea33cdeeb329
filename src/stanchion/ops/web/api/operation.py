"""Operations: one method of a path each, for routing and for the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

from stanchion.core.times import iso, moment
from stanchion.errors import NotPermitted
from stanchion.ops.web.api.cursors import Cursors
from stanchion.ops.web.visit import Visit

Schema = Mapping[str, object]


@dataclass
class Shared:
    """What all requests of a process share. `waiting`: requests that wait for jobs now."""

    cursors: Cursors
    waiting: int = 0


@dataclass
class Call:
    """A request that passed the checks. `query`, `body`: their values, valid by the schemas of the operation."""

    visit: Visit
    shared: Shared
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None

    def path(self, name: str) -> str:
        """Return a value in the path."""
        return unquote(str(self.visit.request.path_params[name]))

    def check_reach(self, queue: str) -> None:
        """Raise NotPermitted if the caller is a program that may not use this queue."""
        program = self.visit.session.caller.program
        if program is not None and not program.reaches(queue):
            raise NotPermitted(f"the token of {program.name} may not use queue {queue!r}, as it is limited to others")

    @property
    def dry_run(self) -> bool:
        """Whether the caller only asks what would be done."""
        return bool(self.query.get("dry_run", False))

    @property
    def as_of(self) -> str | None:
        """The time of the answer by the store's clock."""
        return time_text(self.visit.now)


class Answer(NamedTuple):
    """What an operation answers: its content, as JSON values or as JSON, and headers.

    `status`: None for the usual one.
    """

    content: Any
    headers: Mapping[str, str] = {}
    status: int | None = None


@dataclass(frozen=True)
class Operation:
    """A method of a path.

    `path`: with names in braces; a name `{queue:path}` may contain slashes. `run`: the work, in a thread;
    `wait`: the work on the event loop, one of the two. `query`: the schema of each parameter. `body`: the name of
    the schema of the body; it may be left out if `optional_body`. `result`: the name of the schema of the answer,
    which has the status `status`. `problems`: codes of its specific problems.
    `program`: the role of programs that may use it; None: it is for people.
    `dry_result`: the schema of the answer to a dry run, if different, with the status 200. `open`: it needs
    no token.
    """

    method: str
    path: str
    id: str
    tag: str
    summary: str
    result: str
    run: Callable[[Call], Answer] | None = None
    wait: Callable[[Call], Awaitable[Answer]] | None = None
    query: Mapping[str, Schema] = field(default_factory=dict)
    headers: Mapping[str, Schema] = field(default_factory=dict)
    body: str | None = None
    optional_body: bool = False
    status: int = 200
    problems: tuple[str, ...] = ()
    dry_result: str | None = None
    open: bool = False
    program: str | None = None

    @property
    def reads(self) -> bool:
        """Whether it changes nothing, so that the role read is enough."""
        return self.method == "GET"

    @property
    def shown_path(self) -> str:
        """The path as the document shows it."""
        return self.path.replace(":path}", "}")


def time_text(stored: int | None) -> str | None:
    """Return a stored time as ISO 8601 in UTC."""
    return iso(moment(stored))


def encoded(content: object) -> bytes:
    """Return JSON values as JSON. Raises RecursionError for too deeply nested ones."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
