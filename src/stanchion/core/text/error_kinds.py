"""Kinds of errors: messages that differ only in what differs from job to job are of one kind.

Errors of one kind in one task are a group. Its key names it on pages, in commands and in URLs. The worker computes it
at the failure; it is stored with the error. The patterns mean the same to Python and to Spark, whose `regexp_replace`
takes Java's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

LONGEST: Final = 300
"""Characters of a message that count."""

KEY: Final = re.compile("[0-9a-f]{8}")
"""The form of a group's key."""

FINGERPRINT_MAX: Final = 200
"""Characters of a fingerprint that count."""

MASKS: Final = (
    (r"\r[^\n]*", ""),
    (r"(?<![A-Za-z0-9_])'[^']{25,300}'", "‹text›"),
    (r'"[^"]{25,300}"', "‹text›"),
    (r"[a-z][a-z0-9+.-]{1,20}://[^ '\"<>)\]},]+", "‹url›"),
    (r"[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", "‹mail›"),
    (r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "‹id›"),
    (
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?",
        "‹time›",
    ),
    (r"[0-9]{1,3}(\.[0-9]{1,3}){3}(:[0-9]+)?", "‹host›"),
    (r"(?<![A-Za-z0-9-])[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}:[0-9]+", "‹host›"),
    (
        r"(?<![A-Za-z0-9_.-])([A-Za-z0-9-]{1,63}\.){1,8}(com|net|org|io|dev|example|local|internal|svc)"
        r"(?![A-Za-z0-9_-]|\.[A-Za-z0-9])",
        "‹host›",
    ),
    (r"(?<![A-Za-z0-9_/<>‹›])/[^ '\":,/]+/[^ '\":,]*", "‹path›"),
    (r"(?<![A-Za-z0-9_])[A-Za-z]:\\[^ '\":,]+", "‹path›"),
    (r"0x[0-9a-fA-F]+", "‹hex›"),
    (r"(?<![A-Za-z0-9_])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8,}(?![A-Za-z0-9_])", "‹hex›"),
    (r"(?<![A-Za-z0-9_])(?=[0-9]*[A-F])(?=[A-F]*[0-9])[0-9A-F]{8,}(?![A-Za-z0-9_])", "‹hex›"),
    (r"(?<![A-Za-z0-9_)›])[+-](?=[0-9])", ""),
    (r"[0-9]+(,[0-9]{3})*(\.[0-9]+)?", "‹n›"),
)
"""Replacements, in this order. Short quoted words stay: the word after `KeyError` is the cause."""

_NEEDED: Final = ("\r", "'", '"', "://", "@", "-", "-", ".", ":", ".", "/", ":\\", "0x", "", "", "", "")
"""A text that must be there for each mask to match: most messages lack most of them, and looking for it is quick."""

_MASKS: Final = tuple(
    (needed, re.compile(pattern), mask) for needed, (pattern, mask) in zip(_NEEDED, MASKS, strict=True)
)


@lru_cache(maxsize=4096)
def kind_of(error: str) -> str:
    """Return the kind of an error, by the first line of its message: `no answer from ‹host› in ‹n› s`."""
    kind = error.partition("\n")[0][:LONGEST]
    for needed, pattern, mask in _MASKS:
        if needed in kind:
            kind = pattern.sub(mask, kind)
    return kind


def type_of(kind: str) -> str:
    """Return the type of a kind of error: the text before its message; empty if it is none."""
    name = kind.partition(":")[0]
    return name if name.replace(".", "").isidentifier() else ""


def group_of(error: str, task: str | None, fingerprint: str | None = None) -> str:
    """Return the key of the group of an error in a task, 8 hexadecimal digits.

    `fingerprint`: the error's identity as named by the task, instead of its type and message.
    """
    kind = kind_of(error) if fingerprint is None else f"\n{fingerprint[:FINGERPRINT_MAX]}"
    return hashlib.sha256(f"{kind}\0{task or ''}".encode("utf-8", "surrogatepass")).hexdigest()[:8]


def group_in(entry: Mapping[str, Any], task: str | None) -> str:
    """Return the group key of a stored error; earlier releases store errors without one."""
    return entry.get("group") or group_of(str(entry.get("error", "")), task)
