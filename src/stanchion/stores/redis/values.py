"""Notes in Redis: a hash for each kind, outside of all queues."""

from __future__ import annotations

from stanchion.stores.records.values import Note
from stanchion.stores.redis.client.rows import FIELD
from stanchion.stores.redis.jobs import RedisBase


class Noting(RedisBase):
    """Small texts under a name, changed by compare-and-set."""

    def notes(self, kind: str) -> list[Note]:
        """Return the notes of a kind, by name."""
        found = self.server.command("HGETALL", self.notes_key(kind))
        return sorted(note_in(name, stored) for name, stored in found.items())

    def set_note(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write, or with None delete, a note whose version is still the given one; 0: it is not there."""
        written = "" if text is None else f"{version + 1}{FIELD}{text}"

        def work(again: bool) -> bool:
            key, writes = self.notes_key(kind), int(text is not None)
            done, stands = self.server.run("note", key, name, version, writes, text or "")
            # A repeat after a lost answer: what stands there as it was to be was done by the first try.
            return bool(done) or (again and stands.decode() == written)

        return self.server.call(work)


def note_in(name: bytes, stored: bytes) -> Note:
    """Return a note as it is stored."""
    version, _, text = stored.decode().partition(FIELD)
    return Note(name.decode(), text, int(version))
