"""Reserving jobs, and the outcomes of reservations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from stanchion.context import context_of
from stanchion.core.times import iso
from stanchion.errors import JobNotFound, LeaseLost, StanchionError
from stanchion.jobs import lookup
from stanchion.jobs.job import JobState
from stanchion.jobs.outcome import UNCHANGED
from stanchion.jobs.reservation import Reservation, Settlement
from stanchion.jobs.settling import reservation, settle
from stanchion.ops.job_json import job_json
from stanchion.ops.web.api.operation import Answer, Call, Operation, encoded
from stanchion.ops.web.api.problems import Problem
from stanchion.ops.web.api.routes.queues import queue_name
from stanchion.ops.web.site import Site

WAITING_MAX: Final = 2000
"""Requests of a process that wait for jobs."""

LOOKS: Final = 2.0
"""Seconds between looks whether the server stops."""


async def reserve(call: Call) -> Answer:
    """Reserve jobs; wait for the first on the event loop. A client that hangs up gets none: they return."""
    site, body = call.visit.site, call.body or {}
    queue = site.app.queue(queue_name(call))
    first, last = body.get("first_lane"), body.get("last_lane")
    lanes = None if first is None and last is None else _lanes(first, last)
    holder = body.get("holder", call.visit.session.caller.name[:100])
    if call.shared.waiting >= WAITING_MAX:
        raise Problem("busy", f"{WAITING_MAX:,} requests wait for jobs here", headers={"Retry-After": "5"})
    call.shared.waiting += 1
    try:
        reserving = queue.areserve(
            int(body.get("limit", 1)), body.get("wait", 0), body.get("lease"), lanes, holder=holder
        )
        jobs = await _while_connected(site, call.visit.request, asyncio.ensure_future(reserving))
    finally:
        call.shared.waiting -= 1
    return await run_in_threadpool(_reserved, call, jobs)


def _lanes(first: float | None, last: float | None) -> range:
    begin, end = int(first or 0), int(last if last is not None else 1 << 30)
    if end < begin:
        raise Problem("invalid", "last_lane is at least first_lane")
    return range(begin, end + 1)


async def _while_connected(
    site: Site, request: Request, reserving: asyncio.Future[list[Reservation]]
) -> list[Reservation]:
    """Return the jobs; none once the server stops. A client that hangs up ends the wait, which returns its jobs."""
    hang_up = asyncio.ensure_future(_disconnected(request))
    either: set[asyncio.Future[Any]] = {reserving, hang_up}
    try:
        while not reserving.done() and not hang_up.done() and not site.closed:
            await asyncio.wait(either, timeout=LOOKS, return_when=asyncio.FIRST_COMPLETED)
        if reserving.done():
            jobs = reserving.result()
            if jobs and hang_up.done():
                await run_in_threadpool(_give_back, site, jobs)
                return []
            return jobs
        return []
    finally:
        hang_up.cancel()
        reserving.cancel()  # it returns the jobs that it has reserved


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _give_back(site: Site, jobs: list[Reservation]) -> None:
    settle(context_of(site.app), [job.released() for job in jobs])


def _reserved(call: Call, jobs: list[Reservation]) -> Answer:
    site = call.visit.site
    try:
        shown = [_shape(job) for job in jobs]
        sealed = next((one["unreadable"] for one in shown if one["unreadable"]), None)
        content = encoded({"jobs": shown, "as_of": call.as_of})
    except RecursionError:
        sealed = "a payload is nested too deeply to be JSON here"
    if sealed is not None:
        _give_back(site, jobs)
        raise Problem("conflict", f"{sealed}; the jobs were released")
    return Answer(content)


def _shape(job: Reservation) -> dict[str, object]:
    shape = {**job_json(job, reveal=True), "token": job.token, "lease_until": iso(job.lease_until)}
    return shape if job.items is None else {**shape, **_items_of(job)}


def _items_of(job: Reservation) -> dict[str, object]:
    """Return the items of a chunk, which its consumer works on, or why they can't be read."""
    try:
        return {"payload": list(job.payload)}
    except StanchionError as error:
        return {"payload": None, "unreadable": str(error)}


def _held(call: Call) -> Reservation:
    """Return the reservation of a request. Raises LeaseLost, JobNotFound."""
    context, job_id = context_of(call.visit.site.app), call.path("id")
    try:
        held = reservation(context, job_id, call.body["token"])
    except LeaseLost:
        if lookup.get(context, job_id) is None:
            raise JobNotFound(job_id) from None
        raise
    call.check_reach(held.queue)
    return held


def _ends(
    make: Callable[[Reservation, Call], Settlement], repeated: JobState | None = None
) -> Callable[[Call], Answer]:
    """Return the operation that ends a reservation.

    `repeated`: the state of a job that this very reservation has ended before; a client whose answer was lost
    may repeat then.
    """

    def run(call: Call) -> Answer:
        context = context_of(call.visit.site.app)
        try:
            held = _held(call)
            (state,) = settle(context, [make(held, call)])
        except LeaseLost:
            state = None
        if state is None:
            row = context.store.fetch([call.path("id")]).get(call.path("id"))
            if row is None or repeated is None or (row.state, row.token) != (repeated, call.body["token"]):
                raise LeaseLost(call.path("id"))
            call.check_reach(row.queue)
            state = repeated
        return Answer({"id": call.path("id"), "state": str(state)})

    return run


def _payload(call: Call) -> object:
    return call.body.get("payload", UNCHANGED)


def _commit(held: Reservation, call: Call) -> Settlement:
    return held.committed(call.body.get("result"), payload=_payload(call))


def _rollback(held: Reservation, call: Call) -> Settlement:
    return held.rolled_back(call.body.get("delay"), call.body.get("error"), payload=_payload(call))


def _release(held: Reservation, call: Call) -> Settlement:
    return held.released(call.body.get("delay", 0), payload=_payload(call))


def _move(held: Reservation, call: Call) -> Settlement:
    body = call.body
    call.check_reach(body["queue"])
    keeps = {name: body.get(name, False) for name in ("keep_entry", "keep_arrival")}
    return held.moved(body["queue"], payload=_payload(call), delay=body.get("delay", 0), **keeps)


def _bury(held: Reservation, call: Call) -> Settlement:
    return held.buried(call.body.get("reason", "buried"))


def _abandon(held: Reservation, call: Call) -> Settlement:
    return held.abandoned(call.body.get("reason", ""))


def extend(call: Call) -> Answer:
    """Renew the lease."""
    held = _held(call)
    held.extend(call.body["seconds"])
    return _still(held)


def progress(call: Call) -> Answer:
    """Report progress."""
    held = _held(call)
    held.report_progress(call.body["progress"])
    return _still(held)


def _still(held: Reservation) -> Answer:
    return Answer({"id": held.id, "state": str(held.state), "cancelled": held.cancelled})


def _outcome(act: str, summary: str, body: str, run: Callable[[Call], Answer], result: str = "Settled") -> Operation:
    return Operation("POST", f"/jobs/{{id}}/{act}", f"{act}Job", "work", summary, result, run, body=body,
                     program="receive", problems=("lease-lost", "conflict"))  # fmt: skip


OPERATIONS = [
    Operation("POST", "/queues/{queue:path}/reserve", "reserveJobs", "work", "Reserve due jobs, waiting for the first.",
              "Reserved", wait=reserve, body="ReserveBody", optional_body=True, program="receive",
              problems=("conflict", "busy")),
    _outcome("commit", "The job is done.", "CommitBody", _ends(_commit, JobState.DONE)),
    _outcome("rollback", "The attempt failed: run the job again.", "RollbackBody", _ends(_rollback)),
    _outcome("release", "Give the job back; the attempt does not count.", "ReleaseBody", _ends(_release)),
    _outcome("move", "Commit here, and enqueue in another queue.", "MoveBody", _ends(_move)),
    _outcome("bury", "End the job as dead.", "BuryBody", _ends(_bury, JobState.DEAD)),
    _outcome("abandon", "End the job as cancelled.", "AbandonBody", _ends(_abandon, JobState.CANCELLED)),
    _outcome("extend", "Renew the lease.", "ExtendBody", extend, "Held"),
    _outcome("progress", "Report the share done.", "ProgressBody", progress, "Held"),
]  # fmt: skip
