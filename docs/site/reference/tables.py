"""Markdown of the reference: tables, code, and the text of docstrings and help."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`[^`\n]+`)")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [
        heads,
        ["---"] * len(heads),
        *([cell.replace("|", r"\|").replace("\n", " ") for cell in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: str) -> str:
    """Return text as code, within a line; nothing for an empty text."""
    return f"`{text}`" if text else ""


def block(text: str, language: str = "python") -> str:
    """Return text as a block of code."""
    return f"```{language}\n{text}\n```"


def prose(text: str | None) -> str:
    """Return a docstring or a help text as Markdown: its paragraphs, code in backticks, indented blocks as code."""
    paragraphs = re.split(r"\n\s*\n", (text or "").strip("\n"))
    return "\n\n".join(_paragraph(one) for one in paragraphs if one.strip())


def _paragraph(text: str) -> str:
    if text.startswith("    ") or re.search(r"^ {4,}\S", text, re.MULTILINE) or re.match(r"/\S+  ", text):
        return block(textwrap.dedent(text), "text")
    if text.startswith("stanchion "):
        return block(text, "sh")
    parts = _CODE.split(text)
    return "".join(part if place % 2 else _escaped(part) for place, part in enumerate(parts))


def _escaped(text: str) -> str:
    return re.sub(r"([*<\[\]{}$])", r"\\\1", text)
