"""Kinds of errors: messages that differ only in what differs from job to job are of one kind.

The patterns mean the same to Python and to Spark, whose `regexp_replace` takes those of Java.
"""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 300
"""Characters of a message that count."""

MASKS = (
    (r"(?<![A-Za-z0-9_])'[^']{25,300}'", "<text>"),
    (r'"[^"]{25,300}"', "<text>"),
    (r"[a-z][a-z0-9+.-]{1,20}://[^ '\"<>]+", "<url>"),
    (r"[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", "<mail>"),
    (r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "<id>"),
    (
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?",
        "<time>",
    ),
    (r"[0-9]{1,3}(\.[0-9]{1,3}){3}(:[0-9]+)?", "<host>"),
    (r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}:[0-9]+", "<host>"),
    (r"(?<![A-Za-z0-9_/<>])/[^ '\":,/]+/[^ '\":,]*", "<path>"),
    (r"0x[0-9a-fA-F]+", "<hex>"),
    (r"(?<![A-Za-z0-9_])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8,}(?![A-Za-z0-9_])", "<hex>"),
    (r"[0-9]+(\.[0-9]+)?", "<n>"),
)
"""What is replaced, in this order. Short quoted words stay: the word after `KeyError` is the cause."""

_MASKS = tuple((re.compile(pattern), mask) for pattern, mask in MASKS)


@lru_cache(maxsize=4096)
def kind_of(error: str) -> str:
    """Return the kind of an error, by the first line of its message."""
    kind = error.partition("\n")[0][:LONGEST]
    for pattern, mask in _MASKS:
        kind = pattern.sub(mask, kind)
    return kind
