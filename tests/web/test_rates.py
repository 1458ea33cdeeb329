"""Declared rates on the page of semaphores, and in the JSON API."""

import re

from stanchion import Stanchion
from stanchion.context.declarations.rates import set_rate
from stanchion.stores.rules.capacity.declared_rates import KIND
from tests.web.api.conftest import Client
from tests.web.conftest import Browser, site_of

HOSTILE = "<b>psp</b>"


def rated() -> Stanchion:
    """Return an app with declared rates: one as in its code, one that an operator has set, and an unreadable one."""
    app = Stanchion("memory://")
    app.rate(HOSTILE, "20/s")
    app.task(name="pay", rate="36/h")(lambda: None)
    app.queue("mail").push(1)
    set_rate(app.store, "task:pay", 5.0)
    assert app.store.compare_and_set(KIND, "key:odd", "fast", 0)
    return app


def test_the_page_lists_them() -> None:
    text = Browser(site_of(rated())).get("/semaphores").text
    assert "key:&lt;b&gt;psp&lt;/b&gt;" in text
    assert HOSTILE not in text
    cells = re.findall(r'<td class="num">([^<]*)</td>', text)
    assert cells == ["20/s", "20/s", "unreadable", "–", "5/s", "36/h"]


def test_the_api_lists_them() -> None:
    client = Client(site_of(rated()))
    first = client.asks("listRates", "rates", params={"limit": 2})
    assert first["items"] == [
        {"name": f"key:{HOSTILE}", "per_second": 20.0, "declared": 20.0},
        {"name": "key:odd", "per_second": None, "declared": None},
    ]
    (last,) = client.asks("listRates", "rates", params={"after": first["next"]})["items"]
    assert last == {"name": "task:pay", "per_second": 5.0, "declared": 0.01}
