"""The list of jobs: filters in the URL, a cursor, bulk work under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from starlette.responses import Response

from stanchion.context import context_of
from stanchion.core.checks import checked_name, named_item
from stanchion.core.service_levels import BANDS
from stanchion.jobs.job import Job, JobState
from stanchion.ops.job_json import last_error
from stanchion.ops.naming import NAMELESS, job_name, job_names
from stanchion.ops.reads.filters import ACTS, SPANS, Act, JobFilter
from stanchion.ops.reads.lists import COUNTED, SEARCH_SECONDS, SHOWN, count, jobs_of, page_of, page_of_error
from stanchion.ops.redriving import left_out
from stanchion.ops.web.bulk_work.bulk import BulkWork
from stanchion.ops.web.show.templating import query
from stanchion.ops.web.visit import Missing, Visit
from stanchion.ops.words import SPAN_NAMES, number, plural

_TIMES: Final = {state: "Ended" if state.final else "Due" for state in JobState} | {JobState.RUNNING: "Started"}


class Item(NamedTuple):
    """A job in the list. `error`: the first line of its last one, redacted; `time`: by its state, see `_TIMES`."""

    job: Job
    name: str
    error: str
    time: object


def every(visit: Visit) -> Response:
    """List the jobs that a filter finds, newest first."""
    if work := visit.asked("work"):
        return _of_work(visit, work)
    text = visit.asked("text").strip()
    if _is_id(text) and visit.store.fetch([text]):
        return visit.to(f"/jobs/{text}")
    if (item := named_item(text)) is not None and visit.store.fetch([item[0]]):
        return visit.to(f"/jobs/{item[0]}?items={item[1]}")
    wanted = JobFilter.of(visit.request.query_params, visit.request.query_params.getlist("state"))
    wanted_jobs, store = wanted.query(visit.now), visit.store
    context, after = context_of(visit.site.app), visit.asked("after") or None
    if wanted.text:
        visit.site.deadlines.allow(SEARCH_SECONDS)
    if wanted.error:
        found = page_of_error(context, store, wanted_jobs, visit.now, after, wanted.error)
        matching = None if found.next or after else len(found.jobs)
    else:
        found = page_of(context, store, wanted_jobs, visit.now, after)
        more = found.next or after
        matching = visit.part("matching", lambda: count(store, wanted_jobs)) if more else len(found.jobs)
    if wanted.text:  # it has read their payloads
        names = {job.id: job_name(context, job) for job in found.jobs}
    else:
        names = visit.part("names", lambda: job_names(context, store, found.jobs, visit.now)) or {}
    return visit.page(
        "jobs.html",
        headline(wanted, matching, len(found.jobs)),
        items=[_item(job, names.get(job.id, NAMELESS)) for job in found.jobs],
        tenants=not wanted.tenant and any(job.tenant for job in found.jobs),
        wanted=wanted,
        matching=matching,
        matching_text=counted(matching, len(found.jobs)),
        next=found.next,
        looked_at=found.looked_at if found.next else None,
        skipped_chunks=found.skipped_chunks,
        after=visit.asked("after"),
        states=[*JobState],
        bands=[band.name for band in BANDS],
        spans=[(name, SPAN_NAMES[name]) for name in SPANS],
        acts=[act for act in ACTS if _fits(wanted, act)] if visit.session.caller.operates else [],
        works=visit.part("bulk work", lambda: visit.site.bulk.listed(visit.now)) or [],
        progress_of=progress_of,
        see=lambda work: see(visit, work),
        time_of=_time_of(wanted.states),
    )


def headline(wanted: JobFilter, matching: int | None, shown: int) -> str:
    """Return the filter as a sentence: `1,246 dead jobs of payments.capture in payments`."""
    states = " or ".join(wanted.states)
    kind = f"{states} job" if states else "job"
    many = counted(matching, shown)
    text = f"{many} {kind}" if many == "1" else f"{many} {kind}s"
    if matching == 0:
        text = f"No {kind}"
    text += f" of {wanted.task}" if wanted.task else ""
    text += f" in {wanted.queue}" if wanted.queue else ""
    text += f" for {wanted.tenant}" if wanted.tenant else ""
    return text[0].upper() + text[1:]


def counted(matching: int | None, shown: int) -> str:
    """Return a number of matching jobs in words, as far as it is known."""
    if matching is None:
        return f"{shown} or more" if shown else "0"
    return f"more than {number(COUNTED)}" if matching > COUNTED else number(matching)


def progress_of(work: BulkWork) -> str:
    """Return how far bulk work is, as a sentence."""
    verb = {"retry": "retried", "cancel": "cancelled", "replay": "copied"}[work.act]
    parts = [f"{plural(work.done, 'job')} {verb}{f', {why}' if (why := left_out(work.reasons)) else ''}"]
    if work.state == "running":
        parts.append(f"{number(work.to_go)} to go" if 0 < work.total <= COUNTED else "more to go")
    if work.error:
        parts.append(work.error)
    return " · ".join(parts)


def see(visit: Visit, work: BulkWork) -> str:
    """Return where the jobs are that a work has changed: these, or those like them in their new state; empty: none."""
    if not work.done:
        return ""
    if work.listed:
        return f"/jobs{query(work=work.id)}"
    sample, wanted = visit.site.sampler.glance(), JobFilter.of_text(work.where)
    letters = () if sample is None else sample.seen.letters.places
    new = JobState.CANCELLED if work.act == "cancel" else JobState.READY
    gone_home = work.act == "retry" and wanted.queue in letters  # a dead letter goes back to where it died
    return f"/jobs?{replace(wanted, states=(new,), error='', queue='' if gone_home else wanted.queue).where}"


def _of_work(visit: Visit, work_id: str) -> Response:
    """List the jobs that bulk work has changed, by pages."""
    found = visit.site.bulk.find(checked_name(work_id, "work"))
    if found is None:
        raise Missing("this work is forgotten, a day after its end")
    work, asked = found[0], visit.asked("after")
    first = int(asked) if asked.isdecimal() and asked.isascii() and len(asked) < 6 else 0
    behind = first + SHOWN
    jobs = jobs_of(context_of(visit.site.app), visit.store, work.changed[first:behind], visit.now)
    following = f"/jobs{query(work=work.id, after=behind)}" if behind < len(work.changed) else ""
    items = [_item(job, job_name(context_of(visit.site.app), job)) for job in jobs]
    return visit.page(
        "changed.html", progress_of(work), work=work, items=items, total=len(work.changed), next=following
    )


def _fits(wanted: JobFilter, act: Act) -> bool:
    return bool(set(wanted.states) & set(ACTS[act])) if wanted.states else act == "cancel"


def _item(job: Job, name: str) -> Item:
    times = {"Ended": job.finished_at, "Started": job.started_at, "Due": job.run_at}
    return Item(job, name, last_error(job), times[_TIMES[job.state]])


def _time_of(states: Sequence[JobState]) -> str:
    """Return the meaning of a list's times."""
    named = {_TIMES[state] for state in states or JobState}
    return named.pop() if len(named) == 1 else "Due, started, ended"


def _is_id(text: str) -> bool:
    try:
        return len(text) == 36 and str(UUID(text)) == text
    except ValueError:
        return False
