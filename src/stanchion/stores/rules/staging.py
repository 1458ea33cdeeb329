"""What all stores agree on about the publication of staged jobs."""

from __future__ import annotations

import secrets

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.values import Note, NoteChange

OWN_NOTES = "write"
"""The kind of the notes that tell which writes were published, where the publisher has no note of its own."""

KEPT_STAGED = 86_400 * SECOND
"""What nobody has published or added to for so long is forgotten."""

WRITES_KEPT = 30 * 86_400 * SECOND
"""For so long it is known that a write was published."""


def own_note(write: str, now: int) -> NoteChange:
    """Return the note of a write: when it was published, and what tells its publisher from any other."""
    return NoteChange(OWN_NOTES, write, f"{now} {secrets.token_hex(8)}", 0)


def published_at(note: Note) -> int:
    """Return when the write of this note was published."""
    return int(note.text.partition(" ")[0])
