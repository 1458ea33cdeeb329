"""Versioned values: small texts by kind and name."""

from __future__ import annotations

from typing import NamedTuple


class NoteChange(NamedTuple):
    """A note to be written by compare-and-set, as `set_note` does."""

    kind: str
    name: str
    text: str
    version: int


class Note(NamedTuple):
    """A small text under a name; its `version` counts its changes."""

    name: str
    text: str
    version: int
