"""Notes in memory."""

from __future__ import annotations

from stanchion.stores.memory.jobs import Rows
from stanchion.stores.records.values import Note


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
            return self._set_note(kind, name, text, version)

    def _version_of(self, kind: str, name: str) -> int:
        known = self._notes.get((kind, name))
        return known.version if known else 0

    def _set_note(self, kind: str, name: str, text: str | None, version: int) -> bool:
        if self._version_of(kind, name) != version:
            return False
        if text is not None:
            self._notes[kind, name] = Note(name, text, version + 1)
        else:
            self._notes.pop((kind, name), None)
        return True
