"""What the documentation shows, works: its Python runs, its commands end as they should and print what it says."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stanchion.stores.registry import open_store
from tests.docs.pages import PAGES, ROOT, blocks
from tests.docs.reader import Reader, forget_modules

SHOWN = "app:secret@db/shop"
"""The user, server and database of every PostgreSQL URL in the documentation."""

MOST_NOT_RUN = 6


@pytest.fixture
def replaced(request: pytest.FixtureRequest, page: Path) -> dict[str, str]:
    """What stands for the real thing on the page: the PostgreSQL server."""
    if not any(SHOWN in block.text and block.reason is None for block in blocks(page)):
        return {}
    url = request.getfixturevalue("pg_url")
    store = open_store(url)
    store.setup()
    store.close()
    return {SHOWN: url.partition("://")[2]}


@pytest.fixture
def reader(tmp_path: Path, replaced: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    reader = Reader(tmp_path, replaced)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("STANCHION_URL", raising=False)
    monkeypatch.setitem(sys.modules, "page", reader.namespace)
    yield reader
    forget_modules(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path, reader: Reader) -> None:
    try:
        reader.read(page)
    finally:
        reader.close()


def test_few_blocks_are_not_run() -> None:
    reasons = [block.reason for page in PAGES for block in blocks(page) if block.reason]
    assert len(reasons) <= MOST_NOT_RUN, reasons


def test_every_block_has_a_language() -> None:
    for page in PAGES:
        fences = re.findall(r"^```.*$", page.read_text(), re.MULTILINE)
        assert all(fence != "```" for fence in fences[::2]), f"{page}: a fence without a language"
        assert all(fence == "```" for fence in fences[1::2]), f"{page}: fences out of step"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    outside = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", outside, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{target} is not there"
        if anchor:
            assert anchor in anchors(linked), f"{target}: no such heading"
