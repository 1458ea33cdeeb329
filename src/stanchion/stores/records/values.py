"""Versioned values: small texts by kind and name."""

from __future__ import annotations

from typing import Final, NamedTuple

DECLARED: Final = ("hidden", "pipeline", "rate", "task-rate")
"""The kinds of values that code declares for all queues; a copy of queues to another store takes them along."""


class VersionedValue(NamedTuple):
    """A small text under a name; `version` counts its changes."""

    name: str
    text: str
    version: int


class ValueChange(NamedTuple):
    """A value to write if its version is still `version`, as by `compare_and_set`; 0: absent."""

    kind: str
    name: str
    text: str
    version: int
