"""Versioned values: small texts by kind and name."""

from __future__ import annotations

from typing import NamedTuple


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
