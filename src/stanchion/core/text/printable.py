"""Untrusted text for terminals and logs."""

from __future__ import annotations


def safe(text: str) -> str:
    """Return untrusted text without control characters that could affect a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)
