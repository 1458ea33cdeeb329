"""The navigation of the site: the sections and links of docs/index.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

SECTIONS = ("Start", "Guides", "Run it", "Pipelines and Spark", "Integrations", "Reference", "Inside")
"""Headings of docs/index.md whose lists are the navigation; each is a tab of the site."""

_SECTION = re.compile(r"^## (?P<title>[^\n]+)\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"^- \[[^\]]+\]\((?P<page>[\w/-]+\.md)\)", re.MULTILINE)


class Section(NamedTuple):
    """A section of the index: its text, and the pages listed in it, in order."""

    title: str
    text: str
    pages: list[str]

    @property
    def name(self) -> str:
        """Name of the section's own page."""
        return f"section-{self.title.lower().replace(' ', '-')}"


def sections(index: Path) -> list[Section]:
    """Return the sections of the navigation, in the order of the index."""
    found = _SECTION.finditer(index.read_text("utf-8"))
    return [Section(one["title"], one["text"], _LINK.findall(one["text"])) for one in found if one["title"] in SECTIONS]
