"""The package as it is built: its page on PyPI, and its files."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hatch_build import absolute
from readme_renderer import markdown

from stanchion.core.project import FILES, HOME, PICTURES
from tests.docs.pages import ROOT
from tests.docs.test_pages import anchors


class Links(HTMLParser):
    """Collect the addresses of links and pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag
        given = dict(attrs)
        if not (given.get("href") or "").startswith("#user-content-"):  # the address of a heading itself
            self.found += [value for name in ("href", "src") if (value := given.get(name)) is not None]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (built,) = folder.glob("stanchion-*.whl")
    with zipfile.ZipFile(built) as opened:
        yield opened


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_the_readme_on_pypi_has_no_relative_link(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    shown = markdown.render(str(metadata.get_payload()))
    assert shown is not None, "PyPI would refuse the README"
    links = Links()
    links.feed(shown)
    ours = [link for link in links.found if link.startswith(HOME)]
    assert len(ours) > 3
    for link in links.found:
        assert link.startswith("https://"), f"{link} leads nowhere on PyPI"
    for link in ours:
        path, _, anchor = re.sub(f"^({re.escape(FILES)}|{re.escape(PICTURES)})/", "", link).partition("#")
        assert (ROOT / path).exists(), link
        assert not anchor or anchor in anchors(ROOT / path), link


def test_pypi_links_to_the_project(metadata: Message) -> None:
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert all(url.startswith(HOME) for url in urls.values())
    pages = [url.removeprefix(f"{FILES}/") for url in urls.values() if url.startswith(FILES)]
    assert all((ROOT / page).is_file() for page in pages)


def test_the_wheel_has_the_files_that_are_no_modules(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "src" / "stanchion"
    files = [path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    names = {str(Path("stanchion") / path.relative_to(source)) for path in files}
    assert len([name for name in names if "deployment/files" in name]) > 10
    assert names - set(wheel.namelist()) == set()
    assert "stanchion/ops/web/runbook.md" in wheel.namelist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](docs/a.md#b)", "[a](F/docs/a.md#b)"),
        ("[![p](docs/web.png)](docs/web.md)", "[![p](P/docs/web.png)](F/docs/web.md)"),
        ("[here](#top) [out](https://x.y/z)", "[here](F/README.md#top) [out](https://x.y/z)"),
        ("[mail](mailto:a@b.c)", "[mail](mailto:a@b.c)"),
        ('<img src="./a.svg"> <a href="b.md">', '<img src="P/a.svg"> <a href="F/b.md">'),
        ("[a]: docs/a.md", "[a]: F/docs/a.md"),
        ("`x[0](y)`\n```python\nx[0](y)\n```\n[a](b.md)", "`x[0](y)`\n```python\nx[0](y)\n```\n[a](F/b.md)"),
    ],
)  # fmt: skip
def test_relative_addresses_become_absolute(text: str, expected: str) -> None:
    assert absolute(text, "F", "P") == expected
