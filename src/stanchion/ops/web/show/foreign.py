"""Text of jobs: it comes from anywhere, and is shown as text, with every character that could mislead made visible."""

from __future__ import annotations

import json
import secrets
import unicodedata
from typing import Final

from markupsafe import Markup, escape


class Hidden:
    """Stands for a value that a page does not show."""

    def __repr__(self) -> str:
        return "hidden"


HIDDEN: Final = Hidden()

SHOWN: Final = 64 * 1024
"""Characters of a payload, result or traceback that a page shows."""

_KEPT: Final = frozenset("\n\t")
_BLANK: Final = 0x2400
_MASK: Final = Markup('<span class="masked">hidden</span>')


def visible(text: str) -> str:
    """Return a text whose control characters, bidirectional ones included, show as marks."""
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(char: str) -> str:
    if char.isprintable() or char in _KEPT:
        return char
    code = ord(char)
    if code < 0x20:
        return chr(_BLANK + code)
    if unicodedata.category(char) in ("Zs", "Zl", "Zp"):
        return " "
    return f"‹U+{code:04X}›"


def cut(text: str, most: int = SHOWN) -> str:
    """Return a text of bounded length that names the omitted parts."""
    return text if len(text) <= most else f"{text[:most]}\n… {len(text) - most:,} more characters"


def one_line(value: object, most: int = 200) -> str:
    """Return a redacted value as JSON in one line of bounded length."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "(nested too deeply to be shown)"
    return visible(text if len(text) <= most else f"{text[:most]}…")


def strong(text: str) -> Markup:
    """Return a text in bold."""
    return Markup("<b>{}</b>").format(visible(text))


def pretty(value: object, indent: int | None = 2) -> Markup:
    """Return a redacted value as JSON, ready for a page: text, and marks in place of hidden values."""
    place = secrets.token_hex(8)  # a name that no payload can know
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=False, default=lambda one: _place(one, place))
    except RecursionError:
        return escape("(nested too deeply to be shown)")
    return Markup(str(escape(visible(cut(text)))).replace(f"&#34;{place}&#34;", str(_MASK)))  # noqa: S704 - escaped


def _place(value: object, place: str) -> str:
    return place if isinstance(value, Hidden) else str(value)
