"""Filters that select jobs, and their options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from stanchion.app import Stanchion
from stanchion.core.text.error_kinds import KEY
from stanchion.core.times import moment
from stanchion.errors import InvalidInput
from stanchion.jobs.job import Job, JobState
from stanchion.ops.cli.console.given import loose_value, names, pairs, past
from stanchion.ops.cli.console.session import Session

Queue = Annotated[str | None, typer.Option("--queue", "-q", help="Only jobs of this queue.")]
Rows = Annotated[
    int, typer.Option("--limit", "-n", min=1, help="Maximum number of rows of a table; --json has no limit.")
]
ROWS = 100
"""Rows of a table by default."""

States = Annotated[
    list[str] | None,
    typer.Option("--state", "-s", metavar="STATE", help=f"Only jobs in this state: {', '.join(JobState)}. Repeatable."),
]
TaskName = Annotated[str | None, typer.Option("--task", "-t", help="Only calls of this task.")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Only jobs of this tenant.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="WHEN", help="Enqueued since: 2h (ago) or an ISO 8601 time, in UTC.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Enqueued before then.")]
Contains = Annotated[str | None, typer.Option("--text", help="Only jobs with this text in the payload or an error.")]
ErrorGroup = Annotated[
    str | None,
    typer.Option(
        "--error", metavar="KEY", help="Only jobs whose last error is of this group, such as 9f2c41d0; see a report."
    ),
]

Flow = Annotated[str | None, typer.Option("--flow", metavar="ID", help="Only members of the flow of this id.")]

FinishedSince = Annotated[
    str | None, typer.Option("--finished-since", metavar="WHEN", help="Finished since: 1h (ago) or an ISO 8601 time.")
]
FinishedUntil = Annotated[str | None, typer.Option("--finished-until", metavar="WHEN", help="Finished before then.")]
Payload = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH=VALUE", help='Only jobs with this value in the payload: user.id=4, user.name="4". Repeatable.'
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME=VALUE", help="Only jobs with this value of a header. Repeatable."),
]

PAGE = 500


def tell_unknown(session: Session, queues: Iterable[str], otherwise: str = "") -> None:
    """Say which of these queues are not there. `otherwise`: what else is to be known of such a queue."""
    known = {settings.name for settings in session.app.store.queues(sorted(queues))}
    for name in sorted(set(queues) - known):
        session.out.say(f"there is no queue {name!r}{otherwise}; `stanchion queues` lists them")


def search(
    session: Session,
    queue: str | None,
    state: list[str] | None,
    task: str | None,
    tenant: str | None,
    since: str | None,
    until: str | None,
    text: str | None,
    error: str | None = None,
    flow: str | None = None,
) -> dict[str, Any]:
    """Return the arguments of `pages` for the options; without `error`, also valid for `app.find`."""
    now = moment(session.app.store.now())
    tell_unknown(session, () if queue is None else (queue,))
    found = {} if error is None else {"error": _group(error)}
    return found | {
        "queue": queue,
        "state": [one.lower() for one in names(state) or ()] or None,
        "task": task,
        "tenant": tenant,
        "since": past(since, now, "--since"),
        "until": past(until, now, "--until"),
        "text": text,
        "flow": flow,
    }


def search_inside(
    session: Session,
    finished_since: str | None,
    finished_until: str | None,
    payload: list[str] | None,
    headers: list[str] | None,
) -> dict[str, object]:
    """Return the arguments of `app.find` for the options about the end and the contents of jobs."""
    now = moment(session.app.store.now())
    return {
        "finished_since": past(finished_since, now, "--finished-since"),
        "finished_until": past(finished_until, now, "--finished-until"),
        "payload": {path: loose_value(value) for path, value in pairs(payload or (), "--payload").items()} or None,
        "headers": {name: loose_value(value) for name, value in pairs(headers or (), "--header").items()} or None,
    }


def _group(error: str) -> str:
    if not KEY.fullmatch(error):
        raise InvalidInput(f"--error takes the key of a group, 8 hexadecimal digits, not {error!r}")
    return error


def pages(app: Stanchion, wanted: dict[str, Any], limit: int | None) -> Iterator[list[Job]]:
    """Search page by page, newest first, in bounded memory."""
    left, after = limit, None
    search = {name: value for name, value in wanted.items() if name != "error"}
    while left is None or left > 0:
        size = PAGE if left is None or "error" in wanted else min(PAGE, left)
        page = app.find(**search, limit=size, after=after)
        found = [job for job in page if "error" not in wanted or job.error_group == wanted["error"]][:left]
        if found:
            yield found
        if len(page) < size:
            return
        after = page[-1].id
        left = None if left is None else left - len(found)
