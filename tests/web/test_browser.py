"""The pages in Chromium: no message, no report, accessible, in each theme and width; and with the script off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from stanchion.stores.registry import open_store
from tests.web.conftest import OPERATE, READ, Served
from tests.web.seed import shop
from tests.web.test_pages import pages_of

PLACES = tuple(range(len(pages_of(shop(open_store("memory://"))))))
"""The pages by their number, as their addresses hold the ids of jobs."""

REPORT = "document.addEventListener('securitypolicyviolation', e => console.error('CSP', e.violatedDirective))"

PATIENCE = 120_000
"""Milliseconds after which what must come on a page counts as missing."""

TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

WIDTHS = {1280: 900, 390: 844}


@contextmanager
def opened(
    chromium: Browser, width: int = 1280, scheme: Any = "light", **options: Any
) -> Iterator[tuple[Page, list[str]]]:
    """Open a tab; what the browser complains about is collected."""
    context = chromium.new_context(viewport={"width": width, "height": WIDTHS[width]}, color_scheme=scheme, **options)
    context.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    page, said = context.new_page(), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(f"dialog {dialog.message}"))
    page.add_init_script(REPORT)
    yield page, said
    context.close()


LOOKS = [(1280, "light"), (390, "dark"), (1280, "dark"), (390, "light")]


@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_each_page_is_quiet_and_fits(chromium: Browser, served: Served, half: int) -> None:
    """On a wide screen in light colours, then narrowed, in dark ones; every other page by day."""
    with opened(chromium) as (page, said):
        for path in pages_of(served.app)[half::2]:
            page.set_viewport_size({"width": 1280, "height": WIDTHS[1280]})
            page.emulate_media(color_scheme="light")
            _open(page, served.url + path)
            wide = page.evaluate(TOO_WIDE)
            page.set_viewport_size({"width": 390, "height": WIDTHS[390]})
            page.emulate_media(color_scheme="dark")
            assert (said, wide, page.evaluate(TOO_WIDE)) == ([], 0, 0), path


@pytest.mark.nightly
@pytest.mark.parametrize("look", LOOKS)
def test_each_page_is_quiet_and_fits_from_the_start(chromium: Browser, served: Served, look: tuple[int, str]) -> None:
    with opened(chromium, *look) as (page, said):
        for path in pages_of(served.app):
            _open(page, served.url + path)
            assert (said, page.evaluate(TOO_WIDE)) == ([], 0), path


def _open(page: Page, url: str) -> None:
    answer = page.goto(url)
    assert answer is not None
    assert answer.status == 200, url
    assert page.title() != "pwned"


@pytest.mark.one_in_each("look", "place")
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("place", PLACES)
def test_each_page_is_accessible(chromium: Browser, served: Served, place: int, look: tuple[int, str]) -> None:
    path = pages_of(served.app)[place]
    with opened(chromium, *look) as (page, _):
        page.goto(served.url + path)
        found = Axe().run(page)
        assert [(one["id"], one["nodes"][0]["html"]) for one in found.response["violations"]] == [], path


@pytest.mark.nightly
def test_nothing_of_a_job_runs_even_without_the_policy(chromium: Browser, served: Served) -> None:
    with opened(chromium, bypass_csp=True) as (page, said):
        for path in pages_of(served.app):
            page.goto(served.url + path, wait_until="domcontentloaded")
            assert page.evaluate("document.title") != "pwned", path
            assert page.evaluate("document.querySelectorAll('[onerror], [onload], main script, main img').length") == 0
        assert said == []


def test_an_injected_element_of_htmx_is_refused(chromium: Browser, served: Served) -> None:
    with opened(chromium) as (page, _):
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(served.url + "/queues")
        page.evaluate(
            """() => {
                const bad = document.createElement("div");
                bad.setAttribute("hx-get", "/audit?injected");
                bad.setAttribute("hx-trigger", "load");
                document.getElementById("main").append(bad);
                htmx.process(bad);
            }"""
        )
        page.goto(served.url + "/workers")
        assert [url for url in asked if "injected" in url] == []


def test_a_page_is_fetched_again_in_place(chromium: Browser, served: Served) -> None:
    with opened(chromium) as (page, said):
        page.goto(served.url + "/queues")
        row = page.locator("tr", has_text="webhooks")
        before = int(row.locator("td.num").nth(4).inner_text())
        page.locator("tbody a").nth(1).focus()
        page.evaluate("document.querySelector('tbody').kept = true")
        served.app.queue("webhooks").push({"more": 1}, delay=3600)
        page.evaluate("document.getElementById('main').dispatchEvent(new Event('stale'))")
        expect(row.locator("td.num").nth(4)).to_have_text(str(before + 1))  # with the next reading
        assert page.evaluate("document.querySelector('tbody').kept")
        assert page.evaluate("document.activeElement.matches('tbody a')")
        assert said == []


def test_every_act_works_without_scripts(chromium: Browser, served: Served) -> None:
    queue = served.app.queue("by-hand")
    queue.push_many([{"n": number} for number in range(60)])
    with opened(chromium, java_script_enabled=False) as (page, _):
        page.goto(f"{served.url}/queues/by-hand")
        page.get_by_role("link", name="Pause…").click()
        page.get_by_label("Why, and until when?").fill("a test")
        page.get_by_role("button", name="Pause by-hand").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("is paused")
        page.get_by_role("link", name="Resume…").click()
        page.get_by_role("button", name="Resume by-hand").click()
        expect(page.get_by_role("link", name="Pause…")).to_be_visible()
        page.goto(f"{served.url}/jobs?queue=by-hand")
        page.locator(".pick").first.check()
        page.get_by_role("button", name="Cancel the ticked…").click()
        page.get_by_role("button", name="Cancel 1 job").click()
        page.goto(f"{served.url}/jobs?queue=by-hand&state=ready")
        page.get_by_role("link", name="Cancel all that match…").click()
        page.get_by_role("button", name="Cancel 5").click()
        _until_empty(page, f"{served.url}/jobs?queue=by-hand&state=ready")
        page.get_by_label("Theme").click()
        expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert queue.size().total == 0


def _until_empty(page: Page, address: str) -> None:
    for _ in range(600):
        page.goto(address)
        if "No ready job" in page.get_by_role("heading", level=1).inner_text():
            return
        page.wait_for_timeout(100)
    raise AssertionError("the bulk work does not end")


def test_who_reads_sees_no_act(chromium: Browser, served_guarded: Served) -> None:
    with opened(chromium) as (page, said):
        page.goto(served_guarded.url + "/queues/orders")
        page.get_by_label("Token").fill(READ)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("orders")
        expect(page.get_by_role("link", name="Pause…")).to_have_count(0)
        page.goto(served_guarded.url + "/jobs?state=dead")
        expect(page.locator(".pick")).to_have_count(0)
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        page.get_by_label("Token").fill(OPERATE)
        page.get_by_role("button", name="Log in").click()
        page.goto(served_guarded.url + "/queues/orders")
        expect(page.get_by_role("link", name="Pause…")).to_have_count(1)
        assert said == []


@pytest.mark.nightly
def test_a_form_of_another_site_changes_nothing(chromium: Browser, served: Served) -> None:
    served.app.queue("victim").push({})
    with opened(chromium) as (page, _):
        page.goto(served.url + "/queues/victim")
        csrf = page.locator('input[name="csrf"]').first.get_attribute("value")
        other = served.url.replace("127.0.0.1", "localhost")
        page.goto(other + "/more")
        submit = """([url, csrf]) => {
                const form = document.createElement("form");
                form.method = "post"; form.action = url;
                for (const [name, value] of [["csrf", csrf], ["note", "evil"]]) {
                    const field = document.createElement("input");
                    field.name = name; field.value = value; form.append(field);
                }
                document.body.append(form); form.submit();
            }"""
        with page.expect_navigation():
            page.evaluate(submit, [served.url + "/pause/victim", csrf])
        page.goto(served.url + "/queues/victim")
    assert not served.app.queue("victim").settings.paused


def test_keys_lead_to_pages(chromium: Browser, served: Served) -> None:
    with opened(chromium) as (page, _):
        page.goto(served.url + "/queues")
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.matches('tbody th a')")
        page.keyboard.press("/")
        page.keyboard.type("gw")
        expect(page.get_by_role("searchbox", name="Search jobs")).to_have_value("gw")
        page.locator("h1").click()
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("g")
        page.keyboard.press("w")
        expect(page).to_have_url(f"{served.url}/workers")


def test_keys_tick_rows_and_are_explained_and_turned_off(chromium: Browser, served: Served) -> None:
    with opened(chromium) as (page, said):
        page.goto(served.url + "/jobs?queue=mail&state=ready")
        page.keyboard.press("?")
        expect(page.get_by_role("heading", name="Keys")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("heading", name="Keys")).to_be_hidden()
        for key in ("j", "x", "j", "j", "Shift+X"):
            page.keyboard.press(key)
        expect(page.locator(".pick:checked")).to_have_count(3)
        page.keyboard.press("c")
        expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 3 jobs?")
        page.goto(served.url + "/more")
        page.get_by_role("button", name="Turn keys off").click()
        expect(page.get_by_role("button", name="Turn keys on")).to_be_visible()
        page.wait_for_load_state()
        page.keyboard.press("?")
        page.keyboard.press("g")
        page.keyboard.press("w")
        expect(page).to_have_url(f"{served.url}/more")
        page.get_by_role("button", name="Turn keys on").click()
        expect(page.get_by_role("button", name="Turn keys off")).to_be_visible()
        page.wait_for_load_state()
        page.keyboard.press("g")
        page.keyboard.press("m")
        expect(page).to_have_url(f"{served.url}/managers")
        assert said == []


def test_odd_names_have_pages(chromium: Browser, served: Served) -> None:
    name = "a/b c?d#e%f"
    served.app.queue(name).push({})
    with opened(chromium) as (page, said):
        page.goto(served.url + "/queues")
        page.get_by_role("link", name=name).click()
        expect(page).to_have_url(f"{served.url}/queues/{quote(name, safe='')}")
        expect(page.get_by_role("heading", level=1)).to_contain_text(name)
        assert said == []


def test_the_first_page_is_live(chromium: Browser, served: Served) -> None:
    served.site.sampler.take()
    with opened(chromium) as (page, said):
        page.goto(served.url + "/")
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        row = page.locator("tr", has_text="limited")
        before = int(row.locator("td.num").nth(4).inner_text())
        badge = page.locator(".rail [data-need=errors]")
        needs = badge.inner_text()
        assert int(needs.split()[0]) > 0
        badge.evaluate("one => { one.firstChild.data = '0'; one.hidden = true; }")
        served.app.queue("limited").push({"more": 1}, delay=3600)
        served.site.sampler.take()
        expect(row.locator("td.num").nth(4)).to_have_text(str(before + 1))
        expect(badge).to_be_visible()
        expect(badge).to_have_text(needs)
        page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
        served.site.sampler.take()
        expect(page.locator("#live .how")).to_have_text("Held, as of")
        assert said == []


def test_a_page_that_has_not_changed_is_not_sent_again(chromium: Browser, served: Served) -> None:
    with opened(chromium) as (page, said):
        answers: list[int] = []
        page.on("response", lambda one: answers.append(one.status) if one.url.endswith("/queues/calm") else None)
        served.app.queue("calm").push({}, delay=3600)
        page.goto(served.url + "/queues/calm")
        stale = "document.getElementById('main').dispatchEvent(new Event('stale'))"
        while 304 not in answers[-1:] or len(answers) < 3:  # a reading of the store may come in between
            with page.expect_response(lambda one: one.url.endswith("/queues/calm")):
                page.evaluate(stale)
        assert answers[:2] == [200, 200]
        assert said == []


def test_a_tab_that_gets_no_stream_fetches_its_page_itself(
    chromium: Browser, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stanchion.ops.web.events.STREAMS_MAX", 0)
    with opened(chromium) as (page, _):
        page.clock.install()
        with page.expect_response(lambda one: "/events" in one.url) as refused:
            page.goto(served.url + "/queues")
        assert refused.value.status == 503
        expect(page.locator("#live .how")).to_have_text("Not live, as of")
        with page.expect_response(lambda one: one.url.endswith("/queues")):
            page.clock.run_for(15_000)
