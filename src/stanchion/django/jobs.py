"""Jobs for the admin: a page of a list, the story of one, and the acts on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.core.ids import new_ids
from stanchion.core.text.redaction import JobRedaction
from stanchion.jobs.job import Job, JobState
from stanchion.jobs.search import query_of
from stanchion.ops.audit import AuditLog, Entry
from stanchion.ops.job_json import job_json, last_error
from stanchion.ops.naming import job_names
from stanchion.ops.reads.filters import ACTS, Act
from stanchion.ops.reads.lists import page_of
from stanchion.ops.redriving import Verdict, cancelled, copied, retried
from stanchion.ops.web.show.present import Step, sentence
from stanchion.ops.web.show.story import steps
from stanchion.queues.waiting import past_waits, waits_for

FILTERS: Final = ("queue", "state", "task", "text")
"""The filters of a list, as its address names them."""


_IN_THE_STORY: Final = frozenset({"errors", "trail", "entry_payload"})

_EMPTY: Final[Sequence[object]] = (None, "", [], {}, False)


class Line(NamedTuple):
    """A job in a list."""

    job: Job
    name: str
    error: str


class Listed(NamedTuple):
    """A page of a list. `next`: the cursor of the jobs after it."""

    lines: list[Line]
    next: str | None


class Story(NamedTuple):
    """One job with its story, newest step first; `acts`: what may be done with it."""

    job: Job
    name: str
    sentence: str
    fields: dict[str, object]
    steps: list[Step]
    acts: list[Act]


def listed(app: Stanchion, given: Mapping[str, str]) -> Listed:
    """Return the jobs that match the filters, newest first. Raises InvalidInput for a wrong filter."""
    context = context_of(app)
    store, now = context.fresh_store, context.store.now()
    search = {name: given[name] for name in FILTERS if given.get(name)}
    found = page_of(context, store, query_of(search), now, given.get("after") or None)
    names = job_names(context, store, found.jobs, now)
    return Listed([Line(job, names[job.id], last_error(job)) for job in found.jobs], found.next)


def story_of(app: Stanchion, job_id: str) -> Story | None:
    """Return the story of a job, without hidden values; None if no such job is live or in history."""
    context = context_of(app)
    job = app.get(job_id)
    if job is None:
        return None
    store = context.fresh_store
    hidden = context.hidden.of(store, [job.task]).get(job.task or "")
    fields = job_json(job, hidden)
    waits = waits_for(context, job.id) if job.state is JobState.WAITING else None
    told = steps(job, JobRedaction(hidden, fields["payload"]), waits, past_waits(context, job))
    name = job_names(context, store, [job], store.now())[job.id]
    acts = [act for act, states in ACTS.items() if job.state in states]
    shown = {key: value for key, value in fields.items() if value not in _EMPTY and key not in _IN_THE_STORY}
    return Story(job, name, sentence(job, waits), shown, told, acts)


def act(app: Stanchion, name: str, ids: Sequence[str], who: str) -> list[Verdict]:
    """Retry, cancel or replay jobs; return the result for each. The audit log of the store names the user."""
    store = context_of(app).fresh_store
    log, at = AuditLog(lambda: store), store.now()
    for job_id in ids:
        log.add(Entry(at, who, name, job_id, note="admin"))
    return _ACTS[name](app, ids)


def _replay(app: Stanchion, ids: Sequence[str]) -> list[Verdict]:
    return copied(context_of(app).fresh_store, ids, new_ids(len(ids)))


_ACTS: Final[dict[str, Callable[[Stanchion, Sequence[str]], list[Verdict]]]] = {
    "retry": lambda app, ids: retried(context_of(app).fresh_store, ids),
    "cancel": lambda app, ids: cancelled(context_of(app).fresh_store, ids),
    "replay": _replay,
}
