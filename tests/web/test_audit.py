"""The audit log: filters, files, and the acts of the shell beside those of the page."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from stanchion import Stanchion
from stanchion.core.times import iso, moment
from stanchion.ops import audit
from stanchion.ops.audit import KEPT, Entry, Wanted
from stanchion.ops.cli import cli
from stanchion.ops.web.site import Site
from stanchion.stores.records.jobs import SECOND
from tests.web.conftest import Browser, site_of

PEOPLE = ("ana", "ben")


@pytest.fixture
def filled(site: Site) -> Site:
    """A page with 150 entries, by two persons, of three kinds, and one that is too old."""
    now = site.store.now()
    site.audit.add(Entry(now - KEPT - SECOND, "ana", "pause", "old"))
    for number in range(150):
        act = ("pause", "set max_rate", "retry: finished")[number % 3]
        site.audit.add(Entry(now - 1000 + number, PEOPLE[number % 2], act, f"q{number}", number, '=1+2, "x"'))
    return site


@pytest.mark.parametrize(
    ("wanted", "count"),
    [(Wanted(), 150), (Wanted("ana"), 75), (Wanted("", "set"), 50), (Wanted("ben", "pause"), 25), (Wanted("eve"), 0)],
)
def test_a_walk_gives_each_entry_once_newest_first(
    filled: Site, monkeypatch: pytest.MonkeyPatch, wanted: Wanted, count: int
) -> None:
    monkeypatch.setattr(audit, "WALKED", 50)
    found = [entry.number for entry in filled.audit.walk(filled.store.now(), wanted)]
    assert len(found) == len(set(found)) == count
    assert found == sorted(found, reverse=True)


def test_an_act_is_found_by_its_first_words() -> None:
    entry = Entry(0, "ana", "set max_rate", "mail")
    assert Wanted(act="set").fits(entry)
    assert Wanted(act="set max_rate").fits(entry)
    assert not Wanted(act="se").fits(entry)


def test_the_page_filters(filled: Site) -> None:
    text = Browser(filled).get("/audit?who=ana&act=pause").text
    assert "25 acts of the 150 newest ones" in text.replace("151", "150")
    assert ">q0<" in text
    assert ">q1<" not in text
    assert 'href="/audit.csv?who=ana&amp;act=pause"' in text
    assert "No act fits." in Browser(filled).get("/audit?who=eve").text


def test_entries_are_found_by_time(filled: Site) -> None:
    browser = Browser(filled)
    middle = next(entry.at for entry in filled.audit.walk(filled.store.now(), Wanted()) if entry.number == 100)
    at = quote(str(iso(moment(middle))))
    assert "50 acts of the" in browser.get(f"/audit?since={at}").text
    assert "100 acts of the" in browser.get(f"/audit?until={at}").text
    (newest,) = browser.get(f"/api/v1/audit?who=ana&limit=1&until={at}").json()["items"]
    assert newest["subject"] == "q98"
    late = browser.get(f"/api/v1/audit?limit=100&since={at}").json()
    assert (len(late["items"]), late["next"]) == (50, None)
    assert browser.get("/audit?since=never").status_code == 400
    assert browser.get("/api/v1/audit?until=never").json()["errors"][0]["parameter"] == "until"


def test_it_is_a_table_without_formulas(filled: Site) -> None:
    answer = Browser(filled).get("/audit.csv?act=set")
    assert answer.headers["content-disposition"] == 'attachment; filename="audit.csv"'
    head, *rows = csv.reader(answer.text.splitlines())
    assert head == ["at", "who", "act", "subject", "number", "note", "address"]
    assert len(rows) == 50
    assert {row[5] for row in rows} == {'\'=1+2, "x"'}


def test_it_is_lines_of_json(filled: Site) -> None:
    lines = [json.loads(line) for line in Browser(filled).get("/audit.jsonl").text.splitlines()]
    assert [line["number"] for line in lines] == [*range(149, -1, -1)]
    assert lines[0]["note"] == '=1+2, "x"'


def test_the_files_need_a_session(guarded: Site) -> None:
    assert [Browser(guarded).get(path).status_code for path in ("/audit.csv", "/audit.jsonl")] == [303, 303]


def test_the_api_filters_and_goes_on(filled: Site) -> None:
    browser, found, path = Browser(filled), [], "/api/v1/audit?who=ana&act=pause&limit=10"
    after = ""
    while True:
        page = browser.get(f"{path}{after}").json()
        found += [one["subject"] for one in page["items"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert len(found) == len(set(found)) == 25


def test_the_page_shows_the_acts_of_the_shell(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db?synchronous=off"
    app = Stanchion(url)
    app.queue("mail").push(1)
    CliRunner().invoke(cli, ["pause", "mail", "--note", "a test", "--url", url])
    site = site_of(app)
    text = Browser(site).get("/audit?act=pause").text
    assert "shell" in text
    assert "a test" in text
    site.close()
    app.close()
