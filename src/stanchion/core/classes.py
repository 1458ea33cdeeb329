"""Classes of modules that a program may not have loaded, or installed: those of attrs, paths and UUIDs."""

from __future__ import annotations

import sys
from typing import Any


def is_attrs(kind: Any) -> bool:
    """Return whether this is a class of attrs."""
    return isinstance(kind, type) and hasattr(kind, "__attrs_attrs__")


def attributes(kind: Any) -> tuple[Any, ...]:
    """Return the attributes of a class of attrs: each has a name, an alias, a default, and an init."""
    found: tuple[Any, ...] = kind.__attrs_attrs__
    return found


def is_path(kind: Any) -> bool:
    """Return whether this is a class of paths; a program that has one has loaded its module, with six others."""
    path = getattr(sys.modules.get("pathlib"), "PurePath", None)
    return path is not None and isinstance(kind, type) and issubclass(kind, path)


def is_uuid(kind: Any) -> bool:
    """Return whether this is a class of UUIDs; a program that has one has loaded its module, with two others."""
    uuid = getattr(sys.modules.get("uuid"), "UUID", None)
    return uuid is not None and isinstance(kind, type) and issubclass(kind, uuid)
