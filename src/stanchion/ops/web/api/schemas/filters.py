"""The filter of jobs: as parameters in the URL of a list, and as an object in the body of bulk work."""

from __future__ import annotations

from typing import Final

from stanchion.core.service_levels import BANDS
from stanchion.ops.web.api.operation import Schema
from stanchion.ops.web.api.schemas.kinds import LIMIT_MAX, body, choice, flag, name, several, text, whole
from stanchion.stores.records.jobs import JobState

FILTER: Final[dict[str, Schema]] = {
    "state": several(choice(JobState), "Jobs in one of these states."),
    "queue": name("Jobs of this queue."),
    "task": name("Calls of this task."),
    "tenant": name("Jobs of this tenant."),
    "band": choice((band.name for band in BANDS), "Jobs whose priority is in this band."),
    "since": text("Jobs enqueued from then on: 1h, 24h, 7d, 30d, or a time in ISO 8601.", maxLength=40),
    "until": text("Jobs enqueued before then.", maxLength=40),
    "flow": text("Members of the flow of this id.", maxLength=100),
    "error": text("Jobs that ended by this error: `key` of a group of errors. A page may then have no items, and still "
                  "a `next`.", pattern="^[0-9a-f]{8}$"),
    "text": text("Jobs with this text in their payload or in an error, of the last 24 h unless `since` is given.",
                 maxLength=500, pattern=r"^[^\u0000]*$"),
}  # fmt: skip

PAGING: Final[dict[str, Schema]] = {
    "limit": whole("Items of a page; by default 50.", 1, LIMIT_MAX),
    "after": text("The cursor `next` of the page before.", maxLength=4096),
}

ITEMS: Final[dict[str, Schema]] = {
    "from": whole("The number of the first of up to 50 items; by default the first one there is."),
}

DRY_RUN: Final[dict[str, Schema]] = {"dry_run": flag("Only say what would be done.")}

FILTERS: Final[dict[str, Schema]] = {"JobFilter": body("Which jobs; each field given must hold.", **FILTER)}
