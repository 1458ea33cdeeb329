"""Notes in memory."""

from __future__ import annotations

from stanchion.stores.memory.rows import Rows
from stanchion.stores.records import Note


class Noting(Rows):
    """Small texts under a name, changed by compare-and-set."""

    def __init__(self, *, frozen: bool = False) -> None:
        super().__init__(frozen=frozen)
        self._notes: dict[tuple[str, str], Note] = {}

    def notes(self, kind: str) -> list[Note]:
        """Return the notes of a kind, by name."""
        with self._lock:
            return sorted(note for (its_kind, _), note in self._notes.items() if its_kind == kind)

    def set_note(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write, or with None delete, a note whose version is still the given one; 0: it is not there."""
        with self._lock:
            known = self._notes.get((kind, name))
            if (known.version if known else 0) != version:
                return False
            if text is not None:
                self._notes[kind, name] = Note(name, text, version + 1)
            elif known is not None:
                del self._notes[kind, name]
            return True
