"""Problems that need a person, and figures: alerts, monitor, samples, errors, audit log."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from stanchion.alerts.records import Alert
from stanchion.context import context_of
from stanchion.core.checks import aware
from stanchion.core.times import iso, micros
from stanchion.ops.audit import CHUNK, KEPT, WALKED, Entry
from stanchion.ops.reads.errors import Group, read_errors
from stanchion.ops.reads.filters import SPANS, AuditFilter
from stanchion.ops.reads.track import HOUR, STEP, Track
from stanchion.ops.web.acts import owners
from stanchion.ops.web.api.operation import Answer, Call, Operation, time_text
from stanchion.ops.web.api.paging import limit_of, named_page, page, scope_of
from stanchion.ops.web.api.problems import Problem, Wrong
from stanchion.ops.web.api.routes.jobs import filter_of, refuse_wrong_times
from stanchion.ops.web.api.schemas.filters import FILTER, PAGING
from stanchion.ops.web.api.schemas.kinds import choice, name, text, whole
from stanchion.ops.web.live.reports import Key
from stanchion.reporting.verdict import verdict_of
from stanchion.stores.records.jobs import SECOND
from stanchion.telemetry.rollups import ALL, Point


def alerts(call: Call) -> Answer:
    """Answer with the alerts, the most urgent first."""
    sample = call.visit.site.sampler.latest()
    firing, known = sample.firing, sample.seen.owners
    places = {alert.key: f"{place:06d}" for place, alert in enumerate(firing)}

    def shape(alert: Alert) -> dict[str, object]:
        who = known.get(alert.key)
        return {
            **alert.as_json(),
            "key": alert.key,
            "since": iso(alert.since),
            "on_it": who and {"who": who[0], "at": time_text(who[1])},
        }

    return named_page(call, "alerts", firing, lambda alert: places[alert.key], shape)


def look_after(call: Call) -> Answer:
    """Write down that the caller looks after an alert."""
    owners.set_owner(call.visit, call.body["key"])
    return Answer({"key": call.body["key"], "who": call.visit.session.caller.name, "at": call.as_of})


def monitor(call: Call) -> Answer:
    """Answer with the figures by band and queue."""
    sample = call.visit.site.sampler.latest()
    found = sample.monitor.as_json()
    del found["alerts"]
    return Answer({**found, "at": iso(sample.monitor.at), "as_of": call.as_of})


def samples(call: Call) -> Answer:
    """Answer with figures of the last two days: figures kept by processes, and samples of this one."""
    visit, query = call.visit, call.query
    sampler = visit.site.sampler
    sampler.latest()
    track: Track | None = sampler.queues.get(query["queue"]) if "queue" in query else sampler.all
    begin, end = _time(query, "from", visit.now - HOUR), _time(query, "to", visit.now)
    step = int(query.get("step", STEP // SECOND)) * SECOND
    seen = [] if track is None else track.points
    kept = visit.site.past.of(query.get("queue", ALL), visit.now) if begin < visit.now - HOUR else []
    found: dict[int, Point] = {}
    for point in sorted({*kept, *seen}):
        if begin <= point.at <= end:
            found[point.at // step] = point  # the last one of each step
    points = [found[place] for place in sorted(found)]
    return named_page(call, "samples", points, lambda point: f"{point.at:020d}",
                      lambda point: {**point._asdict(), "at": time_text(point.at)})  # fmt: skip


def _time(query: Any, key: str, otherwise: int) -> int:
    if key not in query:
        return otherwise
    try:
        found = datetime.fromisoformat(query[key])
    except ValueError:
        found = None
    if found is None or found.utcoffset() is None:
        detail = f"is a time in ISO 8601 with a time zone, such as 2026-11-26T03:12:40Z, not {query[key][:40]!r}"
        raise Problem("invalid", f"{key} {detail}", [Wrong(detail, parameter=key)])
    return micros(aware(found, key))


def errors(call: Call) -> Answer:
    """Answer with the groups of errors, most dead jobs first."""
    visit = call.visit
    found = read_errors(context_of(visit.site.app), visit.store, filter_of(call.query), visit.now)
    places = {group.key: f"{place:06d}" for place, group in enumerate(found.groups)}

    def shape(group: Group) -> dict[str, object]:
        return {
            "key": group.key,
            "error": visit.site.redaction.text(group.error),
            "task": group.task,
            "queues": group.queues,
            "dead": group.dead,
            "failed": group.in_the_hour(visit.now),
            "minutes": group.failures.in_the_hour(visit.now),
            "tallied": found.tallied,
            "first": iso(group.first),
            "last": iso(group.last),
            "ids": group.ids,
        }

    answer = named_page(call, "errors", found.groups, lambda group: places[group.key], shape)
    if not found.whole:
        answer.content["count"]["kind"] = "at_least"
    return answer


def report(call: Call) -> Answer:
    """Answer with the report of a period, as it was counted last."""
    visit, span = call.visit, call.query.get("since", "24h")
    made, counted = visit.site.reports.ask(Key(SPANS[span], call.query.get("queue", "")), visit.now)
    found = None if made is None else made.report
    figures = found.figures if found is not None and found.jobs else None
    verdict, redact = None if figures is None else verdict_of(figures), visit.site.redaction.text
    values = json.loads(found.json()) if figures is not None and found is not None else None
    return Answer({
        "made_at": None if made is None else time_text(made.at),
        "counted": counted,
        "sentence": None if verdict is None else redact(verdict.sentence),
        "facts": [] if verdict is None else [redact(f"{fact.name}: {fact.text}") for fact in verdict.facts],
        "figures": visit.site.redaction.value(values),
        "error": None if made is None or not made.error else redact(made.error),
        "as_of": call.as_of,
    })  # fmt: skip


def audit(call: Call) -> Answer:
    """Answer with who did what, newest first."""
    visit, scope, limit = call.visit, scope_of(call, "audit"), limit_of(call)
    older, after = None, ""
    if cursor := call.query.get("after"):
        older, after = call.shared.cursors.read(scope, cursor)
    found: list[tuple[int, Entry]] = []
    refuse_wrong_times(call.query)
    wanted = AuditFilter.of(call.query).wanted(visit.now)
    while True:
        numbered, older = visit.site.audit.numbered(WALKED if any(wanted) else limit, older)
        found += [one for one in numbered if wanted.fits(one[1])]
        if older is None or len(found) > limit + CHUNK or (numbered and numbered[-1][1].at < wanted.since):
            break
    ids = [entry.id for _, entry in found]
    rest = found[ids.index(after) + 1 :] if after in ids else found
    kept = [one for one in rest if one[1].at > visit.now - KEPT]
    shown = kept[:limit]
    behind = call.shared.cursors.write(scope, [shown[-1][0], shown[-1][1].id]) if len(kept) > limit else None
    content = [{**{key: getattr(one, key) for key in _ENTRY}, "at": time_text(one.at)} for _, one in shown]
    return page(call, content, behind, len(shown), "at_least" if behind or after else "exact")


_ENTRY = ("who", "act", "subject", "number", "note", "address")

_SPAN = {"from": text("A time in ISO 8601; by default an hour ago.", maxLength=40),
         "to": text("A time in ISO 8601; by default now.", maxLength=40)}  # fmt: skip
_OF_DEAD = {key: schema for key, schema in FILTER.items() if key not in ("state", "error")}

OPERATIONS = [
    Operation("GET", "/alerts", "listAlerts", "watch", "List firing alerts.", "AlertPage", alerts, query=PAGING,
              problems=("foreign-cursor",)),
    Operation("POST", "/alerts/on-it", "lookAfterAlert", "watch", "Say that you look after an alert; it lasts 4 h.",
              "Owner", look_after, body="OnItBody"),
    Operation("GET", "/monitor", "getMonitor", "watch", "Show figures by band and queue.", "Monitor", monitor),
    Operation("GET", "/samples", "listSamples", "watch", "List figures of the last two days.", "SamplePage", samples,
              query={"queue": name("Of this queue; by default of all together."), **_SPAN,
                     "step": whole("Seconds between two.", 30, 3600), **PAGING}, problems=("foreign-cursor",)),
    Operation("GET", "/errors", "listErrors", "watch", "Group failures by their error and task.",
              "ErrorPage", errors, query={**_OF_DEAD, **PAGING}, problems=("foreign-cursor",)),
    Operation("GET", "/report", "getReport", "watch", "Show what finished in a period.", "Report", report,
              query={"since": choice(SPANS, "The period before now; by default 24h."),
                     "queue": name("Of this queue.")}),
    Operation("GET", "/audit", "listAudit", "watch", "List who did what.", "AuditPage", audit,
              query={"who": text("Who did it.", maxLength=200),
                     "act": text("The action, such as pause, or set for all settings.", maxLength=100),
                     "since": text("Done from then on: 1h, 24h, 7d, 30d, or a time in ISO 8601.", maxLength=40),
                     "until": text("Done before then.", maxLength=40), **PAGING},
              problems=("foreign-cursor",)),
]  # fmt: skip
