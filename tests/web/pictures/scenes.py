"""Which pictures are taken: of each page, and of its main states."""

from __future__ import annotations

from typing import NamedTuple

from stanchion import Stanchion


class Look(NamedTuple):
    """The width of a window, and its colours."""

    width: int
    scheme: str

    def __str__(self) -> str:
        return f"{self.width}-{self.scheme}"


WIDE_LIGHT, WIDE_DARK, PHONE_LIGHT, PHONE_DARK = (
    Look(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")
)
USUAL = (WIDE_LIGHT, PHONE_DARK)
"""Each page in both widths and both colours; what has most colours also the other way around."""

ALL = (*USUAL, WIDE_DARK, PHONE_LIGHT)

ALL_LOOKS = frozenset(("overview", "queue", "job-dead", "pipeline"))


def scenes(app: Stanchion) -> dict[str, str]:
    """Return the address of each picture of the shop, by its name."""
    dead = next(job for job in app.find(state="dead", queue="payments", limit=50) if job.attempts > 1)
    waiting, running = (app.find(state=state, queue="imports", limit=1)[0].id for state in ("waiting", "running"))
    done = app.find(state="done", queue="payments", limit=1)[0].id
    flows = list(dict.fromkeys(job.flow for job in app.find(task="trips.book", limit=200)))
    many, _, failed = flows
    return {
        "overview": "/",
        "errors": "/errors",
        "error": f"/errors/{dead.error_group}",
        "queues": "/queues",
        "queue": "/queues/payments",
        "queue-paused": "/queues/mail",
        "queue-no-worker": "/queues/webhooks",
        "jobs": "/jobs",
        "jobs-dead": "/jobs?state=dead&queue=payments",
        "jobs-none": "/jobs?state=dead&queue=reports",
        "job-dead": f"/jobs/{dead.id}",
        "job-waiting": f"/jobs/{waiting}",
        "job-running": f"/jobs/{running}",
        "job-done": f"/jobs/{done}",
        "ask-retry": "/bulk?act=retry&state=dead&queue=payments",
        "ask-pause": "/pause/payments",
        "ask-setting": "/set/payments?setting=max_rate",
        "push": "/push/webhooks",
        "flows": "/flows",
        "flow-failed": f"/flows/{failed}",
        "flow-many": f"/flows/{many}",
        "pipelines": "/pipelines",
        "pipeline": "/pipelines/flights",
        "streams": "/streams",
        "semaphores": "/semaphores",
        "semaphore": "/semaphores/psp",
        "workers": "/workers",
        "managers": "/managers",
        "schedules": "/schedules",
        "report": "/report",
        "audit": "/audit",
        "audit-none": "/audit?who=nina",
        "runbook": "/runbook",
        "more": "/more",
        "missing-job": "/jobs/019f863a-3900-7000-8000-00000000d9b9",
        "missing-page": "/nothing",
    }


EMPTY = {
    "empty-overview": "/",
    "empty-errors": "/errors",
    "empty-queues": "/queues",
    "empty-flows": "/flows",
    "empty-pipelines": "/pipelines",
    "empty-streams": "/streams",
    "empty-report": "/report",
}
"""Pages of a store that has no job yet."""

LOCKED = {"login": "/login"}
"""Pages that ask for a token."""

SILENT = {"silent-store": "/queues"}
"""Pages of a store that does not answer."""
