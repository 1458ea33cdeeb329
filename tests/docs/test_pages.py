"""What the documentation shows, works: its Python runs, its commands end as they should and print what it says."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stanchion.stores.registry import open_store, shown_url
from tests.docs.pages import PAGES, ROOT, blocks
from tests.docs.reader import Reader, forget_modules

SHOWN = re.compile(r"(?P<scheme>(?P<kind>[a-z]+)[+\w]*)://app:secret@db/\w+")
"""The user, server and database of every URL in the documentation."""

SERVERS = {
    "postgresql": "pg_url",
    "mariadb": "mariadb_url",
    "mysql": "mariadb_url",
    "redis": "redis_url",
    "mongodb": "mongo_url",
}
"""The fixture with the real address, by the kind of URL."""

MOST_NOT_RUN = 18


def run_on(page: Path) -> str:
    """Return all that is run of a page."""
    return "\n".join(block.text for block in blocks(page) if block.reason is None)


@pytest.fixture
def replaced(request: pytest.FixtureRequest, page: Path) -> dict[str, str]:
    """What stands for the servers that the page names: real ones, with their schema."""
    urls = {}
    for shown in SHOWN.finditer(run_on(page)):
        url = request.getfixturevalue(SERVERS[shown["kind"]])
        with closing(open_store(url)) as store:
            store.setup()
        urls[shown[0]] = f"{shown['scheme']}://{url.partition('://')[2]}"
        urls[shown[0].replace(":secret@", ":***@")] = shown_url(urls[shown[0]])
    return urls


@pytest.fixture
def reader(tmp_path: Path, replaced: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    reader = Reader(tmp_path, replaced)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("STANCHION_URL", raising=False)
    monkeypatch.setitem(sys.modules, "page", reader.namespace)
    yield reader
    forget_modules(tmp_path)


WITH_MANY_PROCESSES = (
    *(
        "api",
        "flows",
        "security",
        "upgrades",
        "archive",
        "report",
        "operations",
        "copying",
        "shards",
        "manager",
        "proto",
        "own",
    ),
    *("cron", "feed", "topics", "pipelines", "mariadb", "redis", "mongodb", "workers", "metrics", "alerts", "web"),
    *("django", "flask", "fastapi", "sqlalchemy", "servers", "replay"),
)
"""Pages whose commands start dozens of processes, or Spark again and again. Their commands have tests of their own."""


def case(page: Path) -> Any:
    """Return a page as a case; one that needs a server, Spark or the suite of the stores is slow."""
    if page.stem in WITH_MANY_PROCESSES:
        return pytest.param(page, id=page.stem, marks=[pytest.mark.nightly])
    slow = re.search(rf"{SHOWN.pattern}|spark|pytest", run_on(page))
    return pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("page", [case(page) for page in PAGES])
def test_a_page_does_what_it_says(page: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # as if activated
    written = {Path(block.file).parts[0].removesuffix(".py") for block in blocks(page) if block.file}
    for name in [name for name in sys.modules if name.partition(".")[0] in written]:
        monkeypatch.delitem(sys.modules, name)  # an example of the same name
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


BESIDE = [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
"""Pages that are no part of the site."""


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{target} is not there"
        if anchor:
            assert anchor in anchors(linked), f"{target}: no such heading"
