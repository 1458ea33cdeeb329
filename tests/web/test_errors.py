"""Errors without what varies."""

from __future__ import annotations

import pytest

from stanchion import Stanchion
from stanchion.ops.web.reads.errors import groups_of, normalised
from stanchion.stores.registry import open_store


@pytest.mark.parametrize(
    ("error", "without"),
    [
        ("GatewayTimeout: no answer from psp-a.example in 5 s", "GatewayTimeout: no answer from ‹host› in ‹n› s"),
        ("KeyError: 'dep_time'", "KeyError: 'dep_time'"),
        ("ConnectionReset: [Errno 104]", "ConnectionReset: [Errno ‹n›]"),
        ("no job 019f863a-9c1b-7d02-8f41-5e1f7f3e1c08", "no job ‹id›"),
        ("commit deadbeef01 failed", "commit ‹hex› failed"),
        ("no user ana@example.com", "no user ‹mail›"),
        ("GET https://api.example.com/v1/orders?id=7 gave 503", "GET ‹url› gave ‹n›"),
        ("no file /srv/shop/orders.csv", "no file ‹path›"),
        ("since 2026-11-26T03:12:40Z", "since ‹time›"),
        ("no text 'a text that is longer than twenty-four characters'", "no text ‹text›"),
        ("ValueError: x\nsecond line", "ValueError: x"),
        ("utf8 is not ascii", "utf8 is not ascii"),
        ("", ""),
    ],
)
def test_what_varies_is_put_aside(error: str, without: str) -> None:
    assert normalised(error) == without


def test_a_long_text_takes_no_time() -> None:
    for text in ("a." * 100_000, "/a" * 100_000, "'" * 100_000, "0" * 100_000, "a-" * 100_000):
        assert len(normalised(text)) <= 400


def test_the_same_error_of_another_task_is_another_group() -> None:
    app = Stanchion(store=open_store("memory://"))

    def fail() -> None:
        raise ValueError("no stock")

    for name in ("ship", "pack", "ship"):
        if name not in app.tasks:
            app.task(name=name, queue="work", max_attempts=1)(fail)
        app.enqueue(name)
    app.drain()
    groups = groups_of(app.find(state="dead"))
    assert [(group.task, group.jobs, group.queues) for group in groups] == [
        ("ship", 2, ("work",)),
        ("pack", 1, ("work",)),
    ]
    assert groups[0].key != groups[1].key
    app.close()
