"""Jobs: lists, one job, retry, cancel, replay, and hidden values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stanchion.context import context_of
from stanchion.core.checks import checked_id
from stanchion.errors import InvalidInput, JobNotFound
from stanchion.jobs import lookup
from stanchion.jobs.job import Job, JobState
from stanchion.ops.job_json import job_json, past_waits_json
from stanchion.ops.reads.chunk import MORE, as_json, chunk_of, hiding, items_of, with_items
from stanchion.ops.reads.filters import CANCELLED, RETRIED, JobFilter
from stanchion.ops.reads.lists import COUNTED, SEARCH_SECONDS, count, page_of, page_of_error
from stanchion.ops.web.api.operation import Answer, Call, Operation
from stanchion.ops.web.api.paging import limit_of, page, scope_of
from stanchion.ops.web.api.problems import Problem, Wrong
from stanchion.ops.web.api.schemas.filters import DRY_RUN, FILTER, ITEMS, PAGING
from stanchion.ops.web.api.shapes import summary_shape
from stanchion.queues.waiting import past_waits, waits_for
from stanchion.stores.protocol import Store
from stanchion.stores.records.query import Query


def filter_of(given: Mapping[str, Any], at: str | None = None) -> JobFilter:
    """Return the filter of a request. `at`: where it is in the body; None: in the URL. Raises Problem, InvalidInput."""
    refuse_wrong_times(given, at)
    names = {name: value for name, value in given.items() if name in FILTER and name != "state"}
    return JobFilter.of(names, given.get("state", ()))


def refuse_wrong_times(given: Mapping[str, Any], at: str | None = None) -> None:
    """Raise Problem where `since` or `until` is no time. `at`: where they are in the body; None: in the URL."""
    for name in ("since", "until"):
        try:
            JobFilter.of({name: given.get(name, "")})
        except InvalidInput as error:
            place = {"parameter": name} if at is None else {"pointer": f"{at}/{name}"}
            raise Problem("invalid", f"{name}: {error}", [Wrong(str(error), **place)]) from None


def listed(call: Call) -> Answer:
    """Answer with a page of jobs. All pages of a walk mean the jobs that were enqueued before its first page."""
    visit, wanted, cursors = call.visit, filter_of(call.query), call.shared.cursors
    scope = scope_of(call, "jobs")
    after, began, counted, kind = None, visit.now, 0, ""
    if cursor := call.query.get("after"):
        after, began, counted, kind = cursors.read(scope, cursor)
    query, context, limit = wanted.query(began), context_of(visit.site.app), limit_of(call)
    if wanted.text:
        visit.site.deadlines.allow(SEARCH_SECONDS)
    if wanted.error:
        found = page_of_error(context, visit.store, query, visit.now, after, wanted.error)
    else:
        found = page_of(context, visit.store, query, visit.now, after, limit)
    if not kind:
        counted, kind = _counted(visit.store, query, wanted, len(found.jobs), whole=found.next is None)
    behind = None if found.next is None else cursors.write(scope, [found.next, began, counted, kind])
    shown = [summary_shape(job) for job in found.jobs]
    answer = page(call, shown, behind, counted, kind)
    return answer._replace(content={**answer.content, "skipped_chunks": found.skipped_chunks})


def _counted(store: Store, query: Query, wanted: JobFilter, found: int, *, whole: bool) -> tuple[int, str]:
    if whole:
        return found, "exact"
    matching = None if wanted.error else count(store, query)
    if matching is None:
        return found, "at_least"
    return min(matching, COUNTED), "at_least" if matching > COUNTED else "exact"


def shown(call: Call) -> Answer:
    """Answer with a job."""
    return Answer(_detail(call, job_of(call), hidden=True))


def items(call: Call) -> Answer:
    """Answer with some items of a chunk."""
    job = job_of(call)
    chunk = chunk_of(job)
    if chunk is None:
        raise Problem("conflict", f"job {job.id} carries no chunk whose items could be shown: get the job itself")
    hide = hiding(job, call.visit.site.hidden_of(job), reveal=False)
    return Answer(as_json(items_of(chunk, hide, call.query.get("from"), MORE)))


def revealed(call: Call) -> Answer:
    """Answer with a job, hidden values too."""
    job = job_of(call)
    call.visit.audit("show hidden", job.id)
    return Answer(_detail(call, job, hidden=False))


def _detail(call: Call, job: Job, *, hidden: bool) -> dict[str, object]:
    site = call.visit.site
    context = context_of(site.app)
    awaited = waits_for(context, job.id) if job.state is JobState.WAITING else None
    rule = site.hidden_of(job)
    shape = with_items(job_json(job, rule, reveal=not hidden), job, hiding(job, rule, reveal=not hidden))
    return {**shape, "waits_for": awaited, **past_waits_json(job, past_waits(context, job))}


def job_of(call: Call) -> Job:
    """Return the job in the path. Raises JobNotFound."""
    job_id = checked_id(call.path("id"))
    job = lookup.get(context_of(call.visit.site.app), job_id)
    if job is None:
        raise JobNotFound(job_id)
    return job


def retry(call: Call) -> Answer:
    """Make a dead, cancelled or scheduled job ready."""
    job = job_of(call)
    if call.dry_run:
        return _effect(job, job.state, job.state in RETRIED, dry_run=True)
    call.visit.audit("retry", job.id)
    return _effect(job, lookup.retry(context_of(call.visit.site.app), job.id).state, changed=True)


def cancel(call: Call) -> Answer:
    """Cancel a job, or ask it to stop."""
    job = job_of(call)
    if call.dry_run:
        return _effect(job, job.state, job.state in CANCELLED, dry_run=True)
    if job.state.final:
        raise Problem("conflict", f"job {job.id} is {job.state}: it has ended, so that there is nothing to cancel")
    call.visit.audit("cancel", job.id)
    state = lookup.cancel(context_of(call.visit.site.app), job.id)
    return _effect(job, state, state in (JobState.CANCELLED, JobState.RUNNING))


def _effect(job: Job, state: JobState | None, changed: bool, *, dry_run: bool = False) -> Answer:
    content = {"id": job.id, "state": state and str(state), "dry_run": dry_run, "jobs": int(changed)}
    return Answer(content)


def replay(call: Call) -> Answer:
    """Enqueue a copy of a finished job."""
    job = job_of(call)
    if not job.state.final:
        raise Problem("conflict", f"job {job.id} is {job.state}: a job can be replayed once it has ended")
    if call.dry_run:
        return Answer({"id": None, "origin": job.id, "dry_run": True, "jobs": 1}, status=200)
    call.visit.audit("replay", job.id)
    copies = lookup.replay(context_of(call.visit.site.app), [job.id])
    if not copies:
        raise Problem("conflict", f"job {job.id} is no longer in history, or was retried meanwhile")
    return Answer({"id": copies[0].id, "origin": job.id, "dry_run": False, "jobs": 1})


OPERATIONS = [
    Operation("GET", "/jobs", "listJobs", "jobs", "List jobs by a filter, newest first.", "JobPage", listed,
              query={**FILTER, **PAGING}, problems=("foreign-cursor",)),
    Operation("GET", "/jobs/{id}", "getJob", "jobs", "Show a job.", "JobDetail", shown),
    Operation("GET", "/jobs/{id}/items", "getItems", "jobs", "Show items of a chunk, by their numbers.", "ChunkItems",
              items, query=ITEMS, problems=("conflict",)),
    Operation("POST", "/jobs/{id}/reveal", "revealJob", "jobs", "Show a job with its hidden values; audited.",
              "JobDetail", revealed),
    Operation("POST", "/jobs/{id}/retry", "retryJob", "jobs", "Make a dead, cancelled or scheduled job ready now.",
              "Effect", retry, query=DRY_RUN, problems=("duplicate-key", "conflict")),
    Operation("POST", "/jobs/{id}/cancel", "cancelJob", "jobs", "Cancel a job, or ask it to stop if it runs.",
              "Effect", cancel, query=DRY_RUN, problems=("conflict",)),
    Operation("POST", "/jobs/{id}/replay", "replayJob", "jobs", "Enqueue a copy of a finished job.", "Replayed",
              replay, query=DRY_RUN, problems=("conflict",)),
]  # fmt: skip
