"""Cursors that have more to give."""

from dataclasses import dataclass

from tests.servers.documentdb.errors import CommandError

CURSOR_NOT_FOUND = 43


@dataclass(frozen=True)
class Continuation:
    """Where the extension goes on; any session will do."""

    database: str
    state: bytes


class Cursors:
    """The open cursors of all connections."""

    def __init__(self) -> None:
        self._open: dict[int, Continuation] = {}

    def keep(self, number: int, continuation: Continuation) -> None:
        """Keep a cursor until the next page is asked for."""
        self._open[number] = continuation

    def take(self, number: int) -> Continuation:
        """Return a cursor, which is then no longer open."""
        continuation = self._open.pop(number, None)
        if continuation is None:
            raise CommandError(CURSOR_NOT_FOUND, f"cursor id {number} not found")
        return continuation

    def kill(self, number: int) -> bool:
        """Close a cursor; False when it isn't known."""
        return self._open.pop(number, None) is not None
