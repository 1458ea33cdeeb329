"""Versioned values: small texts by kind and name."""

from __future__ import annotations

from typing import NamedTuple


class VersionedValue(NamedTuple):
    """A small text under a name; its `version` counts its changes."""

    name: str
    text: str
    version: int


class ValueChange(NamedTuple):
    """A versioned value to be written if its version is still `version`, as `compare_and_set` does; 0: absent."""

    kind: str
    name: str
    text: str
    version: int
