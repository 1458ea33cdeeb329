"""Bulk work: begin it, watch it, stop it."""

from __future__ import annotations

from urllib.parse import quote

from stanchion.errors import InvalidInput
from stanchion.ops.reads.lists import COUNTED
from stanchion.ops.web.acts import bulk as acts
from stanchion.ops.web.api.entry import base_of
from stanchion.ops.web.api.operation import Answer, Call, Operation, time_text
from stanchion.ops.web.api.paging import named_page
from stanchion.ops.web.api.problems import Problem
from stanchion.ops.web.api.routes.jobs import filter_of
from stanchion.ops.web.api.schemas.filters import DRY_RUN, PAGING
from stanchion.ops.web.bulk_work.bulk import BulkWork


def listed(call: Call) -> Answer:
    """Answer with a page of works."""
    works = [work for work, _ in call.visit.site.bulk.all()]
    newest = {work.id: place for place, work in enumerate(works)}
    return named_page(call, "bulk", works, lambda work: f"{newest[work.id]:08d}", _shape)


def begin(call: Call) -> Answer:
    """Begin bulk work, or only count its jobs."""
    body = call.body
    if ("ids" in body) == ("where" in body):
        raise InvalidInput("give ids or where, one of the two; an empty object as where means all jobs")
    act, ids, where = body["act"], acts.chosen(call.visit, body.get("ids", ())), ""
    if ids:
        count, kind = len(ids), "exact"
    else:
        wanted = filter_of(body["where"], "/where").for_act(act)
        where, matching = wanted.where, acts.matching(call.visit, wanted)
        count, kind = _counted(matching)
    if call.dry_run:
        return Answer({"dry_run": True, "count": {"value": count, "kind": kind}}, status=200)
    if count == 0 and kind == "exact":
        raise Problem("conflict", "no job matches this filter now, so no work was started")
    total = COUNTED + 1 if count == COUNTED and kind == "at_least" else count
    work = acts.begin(call.visit, act, where, ids, total, int(body.get("rate", 0)))
    return Answer(_shape(work), {"Location": f"{base_of(call.visit.request)}/bulk/{quote(work.id)}"})


def _counted(matching: int | None) -> tuple[int, str]:
    if matching is None:
        return 0, "at_least"
    return min(matching, COUNTED), "at_least" if matching > COUNTED else "exact"


def shown(call: Call) -> Answer:
    """Answer with one work."""
    return Answer(_shape(_work(call)))


def stop(call: Call) -> Answer:
    """Stop a work after its round; it stays to be seen for a day."""
    work = _work(call)
    if call.dry_run or work.state != "running":
        return Answer(_shape(work))
    acts.stop(call.visit, work)
    return Answer(_shape(_work(call)))


def _work(call: Call) -> BulkWork:
    name = call.path("id")
    found = call.visit.site.bulk.find(name) if name.isalnum() and name.isascii() else None
    if found is None:
        raise Problem("not-found", "there is no such bulk work; it is forgotten a day after its end")
    return found[0]


def _shape(work: BulkWork) -> dict[str, object]:
    same = ("id", "act", "where", "who", "state", "total", "done", "left_out", "reasons", "rate")
    return {
        **{name: getattr(work, name) for name in same},
        "at": time_text(work.at),
        "ended_at": time_text(work.ended_at) if work.ended_at else None,
        "error": work.error or None,
    }


OPERATIONS = [
    Operation("GET", "/bulk", "listBulkWork", "bulk", "List bulk work, newest first.", "BulkPage", listed,
              query=PAGING, problems=("foreign-cursor",)),
    Operation("POST", "/bulk", "beginBulkWork", "bulk", "Retry or cancel all jobs that match; Location leads to the "
              "work. With dry_run, only count them.", "BulkWork", begin, query=DRY_RUN, body="BulkBody", status=202,
              dry_result="BulkEffect", problems=("conflict",)),
    Operation("GET", "/bulk/{id}", "getBulkWork", "bulk", "Show how far bulk work is.", "BulkWork", shown),
    Operation("DELETE", "/bulk/{id}", "stopBulkWork", "bulk", "Stop bulk work after its round.", "BulkWork", stop,
              query=DRY_RUN),
]  # fmt: skip
