"""An alert as pages show it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final, NamedTuple

from stanchion.alerts.groups import Group
from stanchion.alerts.records import Alert
from stanchion.ops.web.show.templating import segment

NEEDS: Final = {
    "/errors": frozenset({"dead-letters", "failed-attempts", "attempts"}),
    "/streams": frozenset({"stream"}),
}
"""The rules whose alerts are counted in the navigation, by page."""


class Shown(NamedTuple):
    """An alert as the page shows it: where it leads, and who owns it since when."""

    alert: Alert
    link: str
    link_text: str
    pause: str
    owner: tuple[str, int] | None


class Together(NamedTuple):
    """Alerts of one rule as one line. `link`: where they are listed; empty if nowhere. `looked_after`: by someone."""

    group: Group
    link: str
    since: datetime | None
    looked_after: int


_LISTS: Final = {
    "semaphore": "/semaphores",
    "schedule": "/schedules",
    "stream": "/streams",
    "pipeline": "/pipelines",
    "manager": "/managers",
}


def together(group: Group, owned: Collection[str]) -> Together:
    """Return alerts of one rule as one line. `owned`: the keys of the alerts that someone looks after."""
    link = f"/queues?alert={group.first.rule}" if group.first.kind == "queue" else _LISTS.get(group.first.kind, "")
    since = min((one.since for one in group.alerts if one.since is not None), default=None)
    return Together(group, link, since, sum(one.key in owned for one in group.alerts))


def with_links(alert: Alert, owner: tuple[str, int] | None) -> Shown:
    """Return an alert with its links. `owner`: its owner, and since when."""
    name = segment(alert.subject)
    links = {
        "queue": (f"/queues/{name}", "See the queue"),
        "semaphore": (f"/semaphores/{name}", "See the semaphore"),
        "schedule": ("/schedules", "See the schedules"),
        "task": (f"/jobs?task={name}", "See its jobs"),
        "stream": ("/streams", "See the streams"),
        "pipeline": (f"/pipelines/{name}", "See the pipeline"),
        "manager": ("/managers", "See the managers"),
    }
    link, text = links.get(alert.kind, ("", ""))
    if alert.kind == "queue" and alert.rule == "dead-letters":
        link, text = f"/jobs?state=dead&queue={name}", "See the dead jobs"
    if alert.error is not None:
        link, text = f"/errors/{alert.error}?queue={name}", "See the error"
    act = "resume" if alert.rule == "paused" else "pause"
    pausing = alert.kind == "queue" and alert.rule != "no-worker"  # where nothing runs, a pause would change nothing
    return Shown(alert, link, text, f"/{act}/{name}" if pausing else "", owner)


def needs_of(alerts: Iterable[Alert]) -> dict[str, int]:
    """Return the number of alerts for each page of the navigation that shows one."""
    rules = [{one.rule, *one.merged} for one in alerts]
    return {page: sum(not known.isdisjoint(one) for one in rules) for page, known in NEEDS.items()}
