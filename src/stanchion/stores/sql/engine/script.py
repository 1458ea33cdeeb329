"""The schema as a script: what `setup` would run, taken down and not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event

_CHANGES = ("CREATE", "ALTER")


def steps_as_text(connection: Connection, steps: Sequence[Callable[[Connection], None]]) -> list[str]:
    """Return the statements by which these steps would change the schema that is there, each once."""
    with _taken_down(connection) as statements:
        for step in steps:
            step(connection)
    # A step looks for what the one before it has not made after all, and makes it again.
    return list(dict.fromkeys(statements))


@contextmanager
def _taken_down(connection: Connection) -> Iterator[list[str]]:
    """Take down what would change the schema in the block, and run nothing in its place; what looks at it is run."""
    statements: list[str] = []

    def instead(_on: Any, _cursor: Any, statement: str, given: Any, _context: Any, _many: bool) -> tuple[str, Any]:
        if not statement.lstrip().upper().startswith(_CHANGES):
            return statement, given
        statements.append(statement.strip())
        return "SELECT 1", given

    event.listen(connection, "before_cursor_execute", instead, retval=True)
    try:
        yield statements
    finally:
        event.remove(connection, "before_cursor_execute", instead)
