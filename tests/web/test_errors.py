"""Errors in groups."""

from __future__ import annotations

from stanchion import Stanchion
from stanchion.ops.web.reads.errors import groups_of
from stanchion.stores.registry import open_store


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
