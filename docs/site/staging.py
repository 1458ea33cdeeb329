"""The source of the site: the pages of docs/, with links that lead out of docs/ made absolute."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from docs.site.navigation import Section, sections

from stanchion.core.project import FILES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def stage(folder: Path, generated: Mapping[str, str]) -> None:
    """Write the source of the site. `generated`: text of further pages, by path below docs/."""
    shutil.rmtree(folder, ignore_errors=True)
    for file in sorted(DOCS.rglob("*")):
        if file.is_file() and "site" not in file.relative_to(DOCS).parts:
            target = folder / file.relative_to(DOCS)
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix == ".md":
                target.write_text(with_absolute_links(file.read_text("utf-8"), file), "utf-8")
            else:
                shutil.copyfile(file, target)
    for name, text in generated.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    _navigate(folder, sections(DOCS / "index.md"), list(generated))


def with_absolute_links(text: str, page: Path) -> str:
    """Return a page's text; links to files outside docs/, and to files that are no pages, lead to the repository."""

    def linked(found: re.Match[str]) -> str:
        target = found["target"]
        if not target or re.match(r"[a-z][a-z0-9+.-]*:", target):
            return found[0]
        path = (page.parent / target).resolve()
        if path.is_relative_to(DOCS) and path.suffix in {".md", ".png", ".svg"}:
            return found[0]
        return f"{found['before']}{FILES}/{path.relative_to(ROOT)}{found['anchor'] or ''})"

    parts = _FENCED.split(text)
    return "".join(part if place % 2 else _LINK.sub(linked, part) for place, part in enumerate(parts))


def _navigate(folder: Path, found: list[Section], generated: list[str]) -> None:
    index = folder / "index.md"
    index.write_text(f"{index.read_text('utf-8')}\n{_toctree([one.name for one in found])}", "utf-8")
    for section in found:
        pages = [*section.pages, *(generated if section.title == "Reference" else [])]
        listed = "".join(f"- [](/{name})\n" for name in generated) if section.title == "Reference" else ""
        text = with_absolute_links(section.text, DOCS / "index.md")
        parts = [f"# {section.title}", text.strip(), listed, _toctree(pages)]
        (folder / f"{section.name}.md").write_text("\n\n".join(filter(None, parts)), "utf-8")


def _toctree(pages: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", "", *(page.removesuffix(".md") for page in pages), "```", ""])
