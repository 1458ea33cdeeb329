"""Bulk work: ask with the number of jobs, begin, stop."""

from __future__ import annotations

from starlette.responses import Response

from stanchion.core.checks import checked_id, chosen, refuse_unknown
from stanchion.errors import InvalidInput
from stanchion.ops.reads.filters import ACTS, Act, JobFilter
from stanchion.ops.reads.lists import COUNTED
from stanchion.ops.web.acts import bulk as acts
from stanchion.ops.web.pages.jobs.job_list import counted, progress_of, see
from stanchion.ops.web.visit import Missing, Visit
from stanchion.ops.words import number

TYPED = 1000
"""Jobs above which their number must be typed."""

_EFFECTS = {
    "retry": "They become ready at once, with their attempts from 0. Jobs in another state by then are left out.",
    "cancel": "They end now; running ones are asked to stop. Jobs that have ended by then are left out. A cancelled "
    "job can be retried.",
    "replay": "A copy of each becomes ready at once, with a new id and the payload that it was enqueued with; the jobs "
    "themselves stay in history.",
}


def ask(visit: Visit) -> Response:
    """Ask before bulk work, with the number of jobs that match now."""
    act = _act(visit.asked("act"))
    ids = visit.request.query_params.getlist("id")
    found: int | None = 0
    if ids:
        total, where = len(acts.chosen(visit, ids)), ""
    else:
        wanted = JobFilter.of(visit.request.query_params, visit.request.query_params.getlist("state")).for_act(act)
        where, found = wanted.where, acts.matching(visit, wanted)
        total = 0 if found is None else found
    back = visit.back_asked(f"/jobs?{where}")
    if total == 0 and found is not None:
        raise InvalidInput("no job was ticked, and none matches")
    many = counted(total, total) if total else "all matching"
    return visit.confirm(
        f"{act.capitalize()} {many} {'job' if total == 1 else 'jobs'}?",
        f"{act.capitalize()} {many} {'job' if total == 1 else 'jobs'}",
        "/bulk",
        back,
        effects=[
            _EFFECTS[act],
            f"Which jobs: {JobFilter.of_text(where).words}." if where else "The jobs that were ticked.",
        ],
        fields=[("act", act), ("where", where), ("total", str(total)), ("back", back), *(("id", one) for one in ids)],
        rate="20" if act != "cancel" and not 0 < total <= TYPED else "0",
        number=number(total) if TYPED < total <= COUNTED else str(COUNTED) if total > COUNTED else "",
    )


def begin(visit: Visit) -> Response:
    """Store bulk work; this process begins with it."""
    act, ids = _act(visit.form.get("act", "")), acts.chosen(visit, visit.ids)
    where = "" if ids else JobFilter.of_text(visit.form.get("where", "")).for_act(act).where
    total = _number(visit.form.get("total", "0"), COUNTED + 1)
    if total > TYPED and _number(visit.form.get("number", ""), 10**9) != min(total, COUNTED):
        raise InvalidInput(f"this is for {counted(total, total)} jobs: type that number to confirm")
    rate = _number(visit.form.get("rate", "0") or "0", acts.RATE_MAX)
    work = acts.begin(visit, act, where, ids, total, rate)
    work = visit.site.runner.soon(work.id) or work
    back = visit.back()
    if work.state == "running":
        return visit.done(back, f"{act.capitalize()} is under way: {progress_of(work)}", "/jobs", "see how far it is")
    return visit.done(back, progress_of(work), see(visit, work), "see them")


def stop(visit: Visit) -> Response:
    """Stop bulk work after its round."""
    found = visit.site.bulk.find(checked_id(visit.name))
    if found is None:
        raise Missing("this work has ended long ago")
    stopped = acts.stop(visit, found[0])
    work = (visit.site.bulk.find(found[0].id) or found)[0]
    said = f"{work.act.capitalize()} {'stops' if stopped else 'had ended'}: {progress_of(work)}"
    return visit.done("/jobs", said, see(visit, work), "see them")


def _act(text: str) -> Act:
    refuse_unknown([text], ACTS, "act")
    known = chosen(text, ACTS)
    assert known is not None  # noqa: S101 - others are refused
    return known


def _number(text: str, most: int) -> int:
    digits = text.replace(",", "").strip()
    if not digits.isdecimal() or not digits.isascii() or len(digits) > 12 or int(digits) > most:
        raise InvalidInput(f"a whole number up to {most:,} is needed, not {text[:20]!r}")
    return int(digits)
