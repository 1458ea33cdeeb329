"""The markup of each page is valid HTML, by the validator html-validate."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from stanchion import Stanchion
from stanchion.ops.web.site import Site
from tests.servers.node import node_modules
from tests.web.conftest import OPERATE, Browser
from tests.web.test_pages import pages_of

VALIDATOR = ("html-validate@10.0.0",)
RULES = {"root": True, "extends": ["html-validate:standard"]}


def problems(folder: Path) -> list[str]:
    """Return what is wrong with the pages in a folder."""
    program = node_modules(VALIDATOR) / "html-validate" / "bin" / "html-validate.mjs"
    rules = folder / "rules.json"
    rules.write_text(json.dumps(RULES))
    pages = sorted(map(str, folder.glob("*.html")))
    command = ["node", str(program), "--config", str(rules), "--formatter", "json", *pages]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode in (0, 1), ended.stderr
    return [
        f"{Path(page['filePath']).stem}:{one['line']} {one['ruleId']}: {one['message']}"
        for page in json.loads(ended.stdout)
        for one in page["messages"]
    ]


def test_each_page_is_valid(app: Stanchion, browser: Browser, tmp_path: Path) -> None:
    for number, path in enumerate(pages_of(app)):
        answer = browser.get(path)
        assert answer.status_code == 200, path
        (tmp_path / f"{number:02d}.html").write_text(answer.text, "utf-8")
    assert problems(tmp_path) == []


def test_the_login_is_valid_and_a_fault_is_found(guarded: Site, tmp_path: Path) -> None:
    browser = Browser(guarded)
    (tmp_path / "login.html").write_text(browser.get("/login").text, "utf-8")
    browser.log_in(OPERATE)
    (tmp_path / "missing.html").write_text(browser.get("/queues/nowhere").text, "utf-8")
    assert problems(tmp_path) == []
    (tmp_path / "wrong.html").write_text("<!doctype html>\n<p><div></p>\n", "utf-8")
    assert problems(tmp_path) != []
