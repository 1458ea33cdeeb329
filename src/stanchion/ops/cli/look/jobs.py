"""stanchion jobs, show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from stanchion.context import context_of
from stanchion.core.text.printable import safe
from stanchion.core.times import moment
from stanchion.errors import InvalidInput, JobNotFound
from stanchion.jobs.facts import has_older_waits
from stanchion.jobs.job import Job, JobState, PastWait
from stanchion.jobs.search import query_of
from stanchion.ops.cli.console.drawing import GraphFormat, checked_format
from stanchion.ops.cli.console.given import job_ids
from stanchion.ops.cli.console.human import age, duration, one_line, until
from stanchion.ops.cli.console.output import Cell, Column, state_cell
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.selection import (
    Contains,
    ErrorGroup,
    FinishedSince,
    FinishedUntil,
    Flow,
    Headers,
    Payload,
    Queue,
    Since,
    States,
    TaskName,
    Tenant,
    Until,
    pages,
    search,
    search_inside,
)
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.cli.look.flows import show_flow
from stanchion.ops.expiry import EXPIRES, expires_at, has_expired
from stanchion.ops.job_json import SHOWN, job_json, last_error, moment_of, past_waits_json, readable, run_time
from stanchion.ops.naming import job_name, job_names
from stanchion.ops.reads.chunk import hiding, with_items
from stanchion.ops.reads.lists import page_of
from stanchion.ops.words import waited
from stanchion.pipelines.route import FORKED, ROUTE, Stop, route_of
from stanchion.queues.waiting import past_waits, waits_for
from stanchion.stores.fields.jobs import SPANS, Kind

_FIRST = ("queue", "partition", "task", "priority", "tenant", "lane")
_NAMED = (*_FIRST, *(one.shown_as for one in SHOWN if one.kind is Kind.NAME and one.name not in (*_FIRST, "worker")))
"""Attributes of a job whose names and values are shown as they are."""
_TIMES_NAMED = {"enqueued_at": "enqueued", "run_at": "due", "started_at": "started"}
_MICROS = [one.shown_as for one in SHOWN if one.kind is Kind.MICROS]
_TIMES = (*_TIMES_NAMED, *(name for name in _MICROS if name not in _TIMES_NAMED))
_SPANS = tuple(one.shown_as for one in SHOWN if one.name in SPANS and one.name != EXPIRES)

_COLUMNS = [
    Column("ID", short=13),
    Column("QUEUE", shrinks=True, keeps_ends=True),
    Column("TASK", shrinks=True, keeps_end=True, from_width=1),
    Column("STATE"),
    Column("TRIES", right=True, from_width=90),
    Column("AGE", right=True),
    Column("PRIORITY", right=True, from_width=110),
    Column("DUE", right=True, from_width=110),
    Column("PICK-UP", right=True, from_width=130),
    Column("TENANT", shrinks=True, from_width=130),
    Column("ERROR", shrinks=True, keeps=48),
]


@command(cli, "jobs", panel=LOOK)
def jobs(
    session: Session,
    queue: Queue = None,
    state: States = None,
    task: TaskName = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    finished_since: FinishedSince = None,
    finished_until: FinishedUntil = None,
    payload: Payload = None,
    headers: Headers = None,
    text: Contains = None,
    error: ErrorGroup = None,
    flow: Flow = None,
    passed: Annotated[
        str | None,
        typer.Option("--passed", metavar="QUEUE", help="Only jobs in this queue, or that have passed it."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of jobs.")] = 20,
) -> Exit:
    """List jobs, live and finished, newest first."""
    app, out = session.app, session.out
    wanted = {
        **search(session, queue, state, task, tenant, since, until, text, error, flow),
        **search_inside(session, finished_since, finished_until, payload, headers),
        "passed": passed,
    }
    if error is not None:
        found = [job for page in pages(app, wanted, limit) for job in page]
    elif out.as_json or any(wanted[name] for name in ("text", "payload", "headers")):
        found = app.find(**wanted, limit=limit)
    else:  # as the page reads: a table needs no payloads
        query = query_of({**wanted, "limit": limit})
        found = page_of(context_of(app), context_of(app).fresh_store, query, app.store.now(), None, limit).jobs
    if out.as_json:
        hidden = context_of(app).hidden.of(app.store, [job.task for job in found])
        out.json_list(job_json(job, hidden.get(job.task or "")) for job in found)
    elif found:
        stored = app.store.now()
        now, names = moment(stored), job_names(context_of(app), context_of(app).fresh_store, found, stored)
        out.table(_columns(wanted["state"], queue), [_row(job, names[job.id], now) for job in found])
        if len(found) == limit:
            out.say(f"the newest {limit}; --limit shows more")
    else:
        out.say("no jobs match")
    return Exit.OK if found else Exit.FAILED


@command(cli, "show", panel=LOOK)
def show(
    session: Session,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a job, or of a flow.")],
    form: GraphFormat = "text",
    reveal: Annotated[bool, typer.Option("--reveal", help="Show hidden values, too; it is audited.")] = False,
) -> None:
    """Show a job in detail: times, attempts, errors, payload, result; or draw a flow."""
    asked = checked_format(form, as_json=session.out.as_json)
    wanted = job_ids([job_id])[0]
    job = session.app.get(wanted)
    if job is None:
        if show_flow(session, wanted, asked):
            return
        raise JobNotFound(wanted)
    if asked != "text":
        raise InvalidInput(f"--format is for flows, but {wanted} is a job; its flow: {job.flow or 'none'}")
    app = session.app
    if reveal:
        session.audit("show hidden", job.id, 1)
    hidden = context_of(app).hidden.of(app.store, [job.task]).get(job.task or "")
    values = with_items(job_json(job, hidden, reveal=reveal), job, hiding(job, hidden, reveal=reveal))
    awaited = waits_for(context_of(app), job.id)
    over = past_waits(context_of(app), job)
    if session.out.as_json:
        session.out.json({**values, "waits_for": awaited, **past_waits_json(job, over)})
    else:
        session.out.show(story(job, job_name(context_of(app), job), moment(app.store.now()), awaited, values, over))


def story(
    job: Job, name: str, now: datetime, awaited: str | None, values: Mapping[str, Any], over: Sequence[PastWait] = ()
) -> Text:
    """Format a job as text. `awaited`: its blockers; `over`: its past waits; `values`: the displayed values as JSON."""
    text = Text()

    def line(label: str, value: str | Text | None) -> None:
        if value:
            text.append(f"{label:<13}", "bright_black").append(value).append("\n")

    def when(at: datetime | None) -> str | None:
        return None if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC  ({until((at - now).total_seconds())})"

    line("job", Text.assemble((job.id, "bold"), "" if job.task or job.key else f"  {safe(name)}"))
    line("state", _state(job))
    line("waits for", safe(awaited or ""))
    for name in _NAMED:
        value = getattr(job, name)
        line(name.replace("_", " "), None if value is None else safe(str(value)))
    line("limits", safe(", ".join(job.limits)))
    for name in _TIMES:
        line(_TIMES_NAMED.get(name, name.removesuffix("_at").replace("_", " ")), when(getattr(job, name)))
        if name == "started_at":
            line("picked up", _after("after", job.pickup_delay))
    line("took", duration(run_time(job)))
    line("died in", safe(job.dead_from or ""))
    failed = "" if job.died_in not in (None, job.queue) else f", {job.failures} failed"  # dead letters restart at 0
    line("attempts", f"{job.attempts} of {job.max_attempts}{failed}")
    line(EXPIRES, when(expires_at(job)))
    for name in _SPANS:
        line(name.replace("_", " "), duration(getattr(job, name)))
    line("items", "" if job.items is None else f"{job.items:,}")
    line("worker", safe(job.worker or ""))
    route = route_of(job.headers)
    line("forked from" if route else "replay of", job.origin)
    line("route", safe(" → ".join(_stops(job, route))))
    for number, told in enumerate(_trail(job)):
        line("" if number else "trail", told)
    for number, wait in enumerate(_waits(job, over, when)):
        line("" if number else "waits", wait)
    line("flow", job.flow)
    for name in ("payload", *(("checkpoint",) if job.task else ()), "headers", "result"):
        value, trouble = values[name], readable(job, name)[1]
        if route and name == "headers":
            value = {header: one for header, one in value.items() if header not in (ROUTE, FORKED)}
        if trouble:
            line(name, Text(trouble, "yellow"))
        elif value not in (None, {}):
            text.append(f"{name}\n", "bright_black").append(_indented(_pretty(value)))
    errors = job.errors[:-1] if has_expired(job) else job.errors
    for error, said in zip(errors, values["errors"], strict=False):
        at = moment_of(error)
        what = f"attempt {error.get('attempt')} failed "
        if "times" in error:
            what = f"put off {_times(error['times'])} since {moment_of(error, 'since'):%Y-%m-%d %H:%M:%S} UTC, last "
        text.append(what, "red").append(f"{when(at)}\n", "bright_black")
        text.append(_indented(said["traceback"] or said["error"] or "no message"))
    text.rstrip()
    return text


def _waits(job: Job, over: Sequence[PastWait], when: Callable[[datetime], str | None]) -> Iterator[Text]:
    """Yield the waits of a job that are over, each with its start."""
    for wait in over:
        told = waited(wait.kind, wait.name, (wait.until - wait.since).total_seconds())
        yield Text.assemble(safe(told), (f"  {when(wait.since)}", "bright_black"))
    if has_older_waits(job):
        yield Text("it has waited before; only the last ten waits are kept")


def _stops(job: Job, route: list[Stop]) -> list[str]:
    """Return the stations of an item, with the number of attempts where there was more than one."""
    here = [job.dead_from or "", job.queue]
    left = [stop.station if stop.attempts == 1 else f"{stop.station} ({stop.attempts} attempts)" for stop in route]
    return [*left, *(queue.rpartition(".")[2] for queue in here if queue)] if route else []


def _trail(job: Job) -> list[str]:
    """Return the queues on the way of a job, and when it came there; empty for one that has not moved."""
    stops = job.trail if len(job.trail) > 1 else []
    width = max((len(safe(stop.queue)) for stop in stops), default=0)
    tried = ["" if stop.attempts in (None, 1) else f"  {stop.attempts} attempts" for stop in stops]
    return [
        f"{safe(stop.queue):<{width}}  {stop.entered_at:%Y-%m-%d %H:%M:%S} UTC{times}"
        for stop, times in zip(stops, tried, strict=True)
    ]


def _columns(states: list[str] | None, queue: str | None) -> list[Column]:
    """Return the columns of a list; the state and the queue that all its jobs have give way to their errors."""
    same = {"STATE"} if states is not None and len(states) == 1 else set()
    same |= {"QUEUE"} if queue is not None else set()
    return [replace(one, from_width=100) if one.title in same else one for one in _COLUMNS]


def _row(job: Job, name: str, now: datetime) -> list[Cell]:
    due = (job.run_at - now).total_seconds()
    return [
        job.id,
        job.queue,
        name,
        state_cell(job.state),
        f"{job.attempts}",
        age((now - job.enqueued_at).total_seconds()),
        str(job.priority),
        until(due) if job.state is JobState.SCHEDULED else "",
        duration(job.pickup_delay),
        job.tenant or "",
        Text(one_line(last_error(job)), "red"),
    ]


def _state(job: Job) -> Text:
    state = state_cell(job.state)
    if job.state is JobState.RUNNING and job.progress:
        state.append(f"  {job.progress:.0%}", "default")
    if job.state is JobState.RUNNING and job.cancelled:
        state.append("  asked to stop", "red")
    if has_expired(job):
        state.append("  expired", "default")
    return state


def _times(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def _after(word: str, seconds: float | None) -> str | None:
    return None if seconds is None else f"{word} {duration(seconds)}"


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in safe(text).splitlines())
