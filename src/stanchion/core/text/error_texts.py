"""The texts that are stored about an error: bounded, and of characters that every database and protocol carries."""

from __future__ import annotations

from typing import Final

MAX_ERROR: Final = 2_000
"""Maximum characters of an error's message, or of the reason of an end."""

MAX_TYPE: Final = 200
"""Maximum characters of the module and class of an exception."""

MAX_TRACEBACK: Final = 8_000
"""Maximum characters of a traceback; its end says more than its beginning."""


def type_name(error: BaseException) -> str:
    """Return the module and the class of an exception; the class alone if Python itself has it."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return _carried(name[:MAX_TYPE])[:MAX_TYPE]


def bounded(message: str) -> str:
    """Return a message or reason as it is stored."""
    return _carried(message[:MAX_ERROR])[:MAX_ERROR]


def bounded_trace(trace: str | None) -> str | None:
    """Return a traceback as it is stored; None if there is none."""
    return _carried(trace[-MAX_TRACEBACK:])[-MAX_TRACEBACK:] if trace else None


def _carried(text: str) -> str:
    """Return a text with its null characters and lone surrogates written out, which managers refuse."""
    if "\0" in text:
        text = text.replace("\0", "\\x00")
    if text.isascii():
        return text
    return text.encode(errors="backslashreplace").decode()
