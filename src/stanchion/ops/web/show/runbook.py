"""The runbook: the rules of docs/alerts.md, which is part of the package, as pages show them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from stanchion.core.project import RUNBOOK

_SHIPPED: Final = Path(__file__).parents[1] / "runbook.md"
_CHECKOUT: Final = Path(__file__).parents[5] / "docs" / "alerts.md"
_INLINE: Final = re.compile(r"`(?P<code>[^`]+)`|\*(?P<em>[^*]+)\*|\[(?P<text>[^\]]+)\]\((?P<link>[^)]+)\)")


class Section(NamedTuple):
    """The section of a rule: paragraphs, each with the list below it."""

    name: str
    parts: tuple[tuple[Markup, tuple[Markup, ...]], ...]


@cache
def sections() -> tuple[Section, ...]:
    """Return a section for each rule; none where the file was not installed."""
    path = next((one for one in (_SHIPPED, _CHECKOUT) if one.is_file()), None)
    if path is None:
        return ()
    rules = path.read_text(encoding="utf-8").partition("\n## The rules\n")[2].partition("\n## ")[0]
    return tuple(_section(text) for text in rules.split("\n### ")[1:])


def link_of(runbook: str) -> str:
    """Return the address of an alert's runbook: on this page, or elsewhere; empty if it is no address."""
    page, _, rule = runbook.partition("#")
    if page == RUNBOOK:
        return f"/runbook#{rule}"
    return runbook if runbook.startswith(("https://", "http://")) else ""


def _section(text: str) -> Section:
    name, _, rest = text.partition("\n")
    parts: list[tuple[Markup, list[Markup]]] = []
    for block in re.split(r"\n\s*\n", rest.strip()):
        items = re.split(r"(?:^|\n)(?:\d+\.|[-*]) ", block)
        if items[0].strip():
            parts.append((_inline(items[0]), []))
        if len(items) > 1:
            if not parts:
                parts.append((Markup(""), []))
            parts[-1][1].extend(_inline(item) for item in items[1:])
    return Section(name.strip(), tuple((text, tuple(listed)) for text, listed in parts))


def _inline(text: str) -> Markup:
    return Markup(_INLINE.sub(_marked, str(escape(" ".join(text.split())))))  # noqa: S704 - escaped before


def _marked(found: re.Match[str]) -> str:
    if found["code"]:
        return f"<code>{found['code']}</code>"
    if found["em"]:
        return f"<em>{found['em']}</em>"
    return f'<a href="{found["link"]}">{found["text"]}</a>' if found["link"].startswith("#") else found["text"]
