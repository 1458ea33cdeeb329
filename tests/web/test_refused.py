"""Refused acts are in the audit log as refused; what pages show in few lines."""

from __future__ import annotations

import re

from stanchion import Stanchion, group
from stanchion.alerts.alerts import store_limits
from stanchion.context import context_of
from stanchion.ops.web.show.plots import WIDTH, spark
from tests.web.conftest import Browser, site_of


def entries(browser: Browser) -> list[str]:
    return [one["act"] for one in browser.get("/api/v1/audit").json()["items"]]


def test_an_act_that_is_refused_is_told_as_such(browser: Browser, app: Stanchion) -> None:
    done = app.find(state="done", limit=1)[0].id
    assert browser.submit(f"/jobs/{done}/retry").status_code == 400
    assert browser.post(f"/api/v1/jobs/{done}/retry", json={}).status_code >= 400
    assert entries(browser)[:4] == ["retry: refused", "retry"] * 2
    dead = app.find(state="dead", limit=1)[0].id
    assert browser.submit(f"/jobs/{dead}/retry").status_code == 303
    assert entries(browser)[0] == "retry"


def test_from_the_fourth_alert_on_one_line_each() -> None:
    app = Stanchion("memory://")
    app.setup()
    for number in range(6):
        app.queue(f"q{number}").push({})
    store_limits(context_of(app), {"no_worker": 1e-6})
    with Browser(site_of(app)) as browser:
        text = browser.get("/").text
    assert text.count('<li class="alert"') == 3
    assert text.count('<li class="alert brief"') == 3
    app.close()


def test_a_young_plot_does_not_fill_its_hour() -> None:
    app = Stanchion("memory://")
    app.setup()
    site = site_of(app)
    browser = Browser(site)
    for _ in range(3):
        app.queue("mail").push({})
        app.store.clock_offset += 60
        site.sampler.take()
    drawn = re.findall(r'<polyline class="line[^"]*" points="(\d+)', browser.get("/queues/mail").text)
    assert drawn
    assert min(map(int, drawn)) > 500, drawn
    app.close()


def test_a_small_plot_is_empty_before_its_first_value() -> None:
    values = [(minute * 60, 1.0) for minute in range(45, 61)]
    drawn = re.search(r'<polyline class="line[^"]*" points="(\d+)', spark(values, "ready", 0))
    assert drawn is not None
    assert int(drawn[1]) == WIDTH * 3 // 4


def test_a_young_pipeline_has_a_gap_in_its_table() -> None:
    app = Stanchion("memory://")
    app.setup()
    app.pipeline("etl").station("load")(print)
    site = site_of(app)
    for _ in range(3):
        app.queue("etl.load").push({})
        app.store.clock_offset += 60
        site.sampler.take()
    found = re.search(r'class="spark".*?points="(\d+)', Browser(site).get("/pipelines/etl").text, re.DOTALL)
    assert found is not None
    assert int(found[1]) > WIDTH * 3 // 4
    app.close()


def test_many_equal_members_of_a_group_are_one_box() -> None:
    app = Stanchion("memory://")
    app.setup()
    book = app.task(name="book", queue="trips")(lambda number: number)
    flows = {count: group(*(book.s(number) for number in range(count))).enqueue().id for count in (8, 9)}
    with Browser(site_of(app)) as browser:
        few, many = (browser.get(f"/flows/{flows[count]}").text for count in (8, 9))
    assert "book ×9" in many
    assert "drawn as one" in many
    assert "drawn as one" not in few
    app.close()


def test_empty_panels_are_left_out() -> None:
    app = Stanchion("memory://")
    app.setup()
    app.queue("mail").push({})
    with Browser(site_of(app)) as browser:
        assert ">Lanes</h2>" not in browser.get("/queues/mail").text
        assert "Operator actions" not in browser.get("/").text
        browser.submit("/pause/mail", note="why")
        assert "Operator actions" in browser.get("/").text
    app.close()
