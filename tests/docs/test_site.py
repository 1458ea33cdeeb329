"""The site of the documentation: each page in the navigation, the reference from the code, searches that find."""

import ast
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from docs.site import build
from docs.site.navigation import SECTIONS, sections
from docs.site.reference import api, commands, environment, metrics, settings
from docs.site.staging import with_absolute_links
from playwright.sync_api import Page

import stanchion
from stanchion.context.queues.settings import checked_settings
from stanchion.core.project import FILES
from stanchion.errors import InvalidInput
from stanchion.jobs.options import ENQUEUE_OPTIONS
from tests.docs.pages import ROOT
from tests.web import serve

DOCS = ROOT / "docs"

SEARCHES = {
    "visibility timeout": "glossary",
    "dead letter queue": "glossary",
    "ack": "glossary",
    "backpressure": "glossary",
    "chord": "glossary",
    "visibility": "glossary",
    "at least once": "glossary",
    "job doesn't run": "not-running",
    "job stuck": "not-running",
    "retry exponential": "retries",
    "cron timezone": "cron",
    "rate limit per tenant": "limits",
    "graceful shutdown": "workers",
    "kubernetes": "deploy",
    "grafana dashboard": "metrics",
    "encryption keys": "encryption",
    "backup restore": "backup",
    "pgbouncer": "postgresql",
    "redis cluster": "scaling",
    "delta table archive": "archive",
    "cancel running job": "jobs",
    "job priority": "queues",
    "debounce": "which-limit",
    "ack late": "glossary",
    "exactly once": "glossary",
    "outbox pattern": "glossary",
    "test without worker": "testing",
    "retry with exponential backoff": "retries",
    "spark checkpoint": "streams",
    "upgrade schema": "upgrades",
    "how long are jobs kept": "faq",
    "progress bar": "faq",
    "at most once": "glossary",
    "web dashboard": "web",
    "periodic task": "cron",
    "result backend": "glossary",
    "move to another database": "copying",
    "STANCHION_CALL_SECONDS": "environment",
}
"""Searches of a reader, and the page that must be among the first results."""

FIRST_RESULTS = 3


def test_each_page_is_once_in_the_navigation() -> None:
    listed = Counter(page for section in sections(DOCS / "index.md") for page in section.pages)
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"index.md"}
    assert set(listed) == pages, "list each page of docs/ in a section of docs/index.md"
    assert [page for page, times in listed.items() if times > 1] == []


def test_no_page_has_the_file_of_a_page_of_sphinx() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    made = {f"{section.name}.md" for section in sections(DOCS / "index.md")} | set(build.reference())
    assert pages & {"search.md", "genindex.md", "py-modindex.md", *made} == set(), "the site has one file for both"


def test_the_navigation_has_all_sections_in_order() -> None:
    assert tuple(section.title for section in sections(DOCS / "index.md")) == SECTIONS


def test_links_out_of_the_docs_lead_to_the_repository() -> None:
    page = DOCS / "stores" / "own.md"
    text = "[a](../../README.md#x) [b](index.md#y) [c](https://e.org)\n```sh\n[d](../../README.md)\n```\n"
    assert with_absolute_links(text, page) == text.replace("../../README.md#x", f"{FILES}/README.md#x")


@pytest.mark.nightly
def test_the_reference_has_every_exported_name() -> None:
    text = "\n".join([*api.pages().values(), build.reference()["reference/errors.md"]])
    headings = set(re.findall(r"^## (\w+)$", text, re.MULTILINE))
    assert {name for name in stanchion.__all__ if not name.startswith("_")} <= headings


@pytest.mark.nightly
def test_the_reference_has_the_methods_of_bases() -> None:
    text = "\n".join(api.pages().values())
    for name in ("Stanchion.task", "Stanchion.queue", "Queue.push", "Queue.reserve", "Reservation.commit"):
        assert re.search(rf"^### {re.escape(name)}$", text, re.MULTILINE), name


def test_the_reference_has_every_command() -> None:
    text = commands.page()
    for command in ("worker", "queues set", "deploy kubernetes", "shards move", "pipeline backfill"):
        assert f"### stanchion {command}\n" in text


@pytest.mark.nightly
def test_the_reference_has_every_setting_and_option() -> None:
    shown = set(re.findall(r"^\| `(\w+)`", settings.page(), re.MULTILINE))
    with pytest.raises(InvalidInput) as refused:
        checked_settings({"no_such_setting": 1})
    known = set(re.findall(r"\b[a-z_]+\b", str(refused.value))) & shown
    assert {"paused", "max_rate", "history_ttl", "partitions"} <= known
    assert shown >= ENQUEUE_OPTIONS
    assert re.findall(r"^\| `(\w+)`.*\|  \|$", settings.page(), re.MULTILINE) == [], "options without a meaning"


def test_the_page_on_metrics_names_metrics_with_their_labels() -> None:
    page = (DOCS / "metrics.md").read_text("utf-8")
    labels = {one.name: set(one.labels) for found in metrics.by_source().values() for one in found}
    rows = re.findall(r"^\|[^|]*\|([^|]*stanchion_[^|]*)\|([^|]*)\|$", page, re.MULTILINE)
    shown = {name: set(re.findall(r"`(\w+)`", row[1])) for row in rows for name in re.findall(r"stanchion_\w+", row[0])}
    assert len(shown) > 8
    assert shown == {name: labels.get(name) for name in shown}


def literals(file: Path) -> Iterator[str]:
    """Yield the strings of a module that are whole names of variables."""
    text = file.read_text("utf-8")
    for node in ast.walk(ast.parse(text)) if "STANCHION_" in text else ():
        if isinstance(node, ast.Constant) and re.fullmatch(r"STANCHION_[A-Z_]+", str(node.value)):
            yield str(node.value)


def test_environment_variables_are_named_in_one_place() -> None:
    sources = (ROOT / "src").rglob("*.py")
    used = {(name, file.name) for file in sources for name in literals(file)}
    assert {file for _, file in used} == {"environment.py"}
    assert {name for name, _ in used} == set(re.findall(r"^\| `(\w+)`", environment.page(), re.MULTILINE))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    assert build.build(folder) == 0
    return folder


@pytest.mark.nightly
def test_the_site_is_built_without_warnings(site: Path) -> None:
    assert (site / build.VERSION / "index.html").exists()
    assert f"url={build.VERSION}/index.html" in (site / "index.html").read_text("utf-8")
    assert build.VERSION in (site / "versions.json").read_text("utf-8")
    page = (site / build.VERSION / "faq.html").read_text("utf-8")
    tabs = re.findall(r"nav-link nav-internal[^>]*>\s*([^<]+?)\s*<", page)
    assert tuple(dict.fromkeys(tabs))[: len(SECTIONS)] == SECTIONS


@pytest.mark.nightly
def test_a_second_version_is_listed_beside_the_first(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (site / "versions.json").read_text("utf-8")
    monkeypatch.setattr(build, "VERSION", "99.1")
    try:
        build._list_version(site)
        listed = (site / "versions.json").read_text("utf-8")
        assert listed.index("99.1") < listed.index(f'"{stanchion.__version__.rpartition(".")[0]}"')
    finally:
        (site / "versions.json").write_text(before, "utf-8")


@pytest.mark.nightly
def test_a_search_finds_the_page(site: Path) -> None:
    missed = {}
    with served(site) as address, serve.chromium() as browser:
        page = browser.new_page()
        for text, wanted in SEARCHES.items():
            found = results(page, f"{address}/{build.VERSION}/search.html?q={text.replace(' ', '+')}")
            if not any(re.search(rf"(^|/){wanted}\.html", one) for one in found):
                missed[text] = found
    assert missed == {}


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve files on a free port; the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def results(page: Page, address: str) -> list[str]:
    """Return the first results of a search."""
    page.goto(address)
    page.wait_for_selector(".search-summary:text-matches('finished|did not match')", timeout=60_000)
    links = page.locator("#search-results li > a").all()
    return [str(link.get_attribute("href")) for link in links[:FIRST_RESULTS]]
