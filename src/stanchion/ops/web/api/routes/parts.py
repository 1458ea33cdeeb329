"""Parts of the system: workers, managers, semaphores and schedules."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from stanchion.context import context_of
from stanchion.context.declarations.rates import stored_rates
from stanchion.core.checks import checked_name
from stanchion.core.names.partition_names import logical_name
from stanchion.core.times import iso
from stanchion.cron.schedule import Schedule
from stanchion.jobs.handle import JobHandle
from stanchion.ops.reads.schedules import item_of
from stanchion.ops.reads.semaphores import read_line
from stanchion.ops.reads.wings.managers import ManagerFigures, manager_figures
from stanchion.ops.reads.workers import is_late
from stanchion.ops.web.api.operation import Answer, Call, Operation, time_text
from stanchion.ops.web.api.paging import named_page
from stanchion.ops.web.api.problems import Problem
from stanchion.ops.web.api.schemas.filters import DRY_RUN, PAGING
from stanchion.ops.web.api.shapes import summary_shape
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.records.workers import WorkerRow


def workers(call: Call) -> Answer:
    """Answer with a page of workers, consumers and holders."""
    now = call.visit.now

    def shape(worker: WorkerRow) -> dict[str, object]:
        same = ("id", "host", "pid", "state", "threads", "running", "heartbeat")
        return {
            **{name: getattr(worker, name) for name in same},
            "late": is_late(worker, now),
            "queues": sorted({logical_name(queue) for queue in worker.queues}),
            "lanes": [one._asdict() for one in worker.lanes],
            "started_at": time_text(worker.started_at),
            "last_seen_at": time_text(worker.last_seen_at),
        }

    return named_page(call, "workers", call.visit.store.workers(holders=True), lambda one: one.id, shape)


def managers(call: Call) -> Answer:
    """Answer with the managers; none if the store is used without."""
    sample = call.visit.site.sampler.latest()
    found = manager_figures(call.visit.store, sample.seen.managers, call.visit.now, sample.limits.manager)
    places = {id(one): f"{one.address} {place:06d}" for place, one in enumerate(found)}
    return named_page(call, "managers", found, lambda one: places[id(one)], _manager_shape)


def _manager_shape(one: ManagerFigures) -> dict[str, object]:
    status = one.status
    return {
        "address": one.address,
        "state": one.state,
        "lag": one.lag,
        "until": time_text(one.until),
        "queues": [
            {"queue": owned.queue, "slices": owned.slices, "figures": owned.figures and owned.figures._asdict()}
            for owned in one.queues
        ],
        "pushes": None if status is None else status.pushes,
        "outcomes": None if status is None else status.outcomes,
        "receivers": [] if status is None else [each._asdict() for each in status.receivers],
    }


def semaphores(call: Call) -> Answer:
    """Answer with a page of semaphores."""
    return named_page(
        call, "semaphores", call.visit.store.semaphores(), lambda one: one.name, lambda one: one._asdict()
    )


def semaphore(call: Call) -> Answer:
    """Answer with a semaphore, its holders and its line."""
    row = _semaphore(call)
    line = read_line(context_of(call.visit.site.app), call.visit.store, row.name, call.visit.now)
    shown = {name: [summary_shape(job) for job in jobs] for name, jobs in line._asdict().items()}
    return Answer({"semaphore": row._asdict(), **shown, "as_of": call.as_of})


def resize(call: Call) -> Answer:
    """Change the capacity of a semaphore."""
    row, capacity = _semaphore(call), int(call.body["capacity"])
    if not call.dry_run:
        call.visit.audit("resize semaphore", row.name, 0, f"{row.capacity} → {capacity} {call.body.get('note', '')}")
        call.visit.site.app.semaphore(row.name).resize(capacity)
        row = _semaphore(call)
    return Answer(row._asdict())


def _semaphore(call: Call) -> SemaphoreRow:
    name = checked_name(call.path("name"), "the name of a semaphore")
    for row in call.visit.store.semaphores([name]):
        return row
    raise Problem("not-found", f"there is no semaphore {name!r}; declare it in code with a capacity")


def rates(call: Call) -> Answer:
    """Answer with a page of declared rates."""
    return named_page(call, "rates", stored_rates(call.visit.store), lambda one: one.name, lambda one: one._asdict())


def schedules(call: Call) -> Answer:
    """Answer with a page of schedules."""
    return named_page(call, "schedules", call.visit.site.app.schedules(), lambda one: one.name, _schedule_shape)


def _acts_on_schedule(act: str, run: Callable[[Schedule], JobHandle | None]) -> Callable[[Call], Answer]:
    def operation(call: Call) -> Answer:
        name = checked_name(call.path("name"), "the name of a schedule")
        known = {one.name: one for one in call.visit.site.app.schedules()}
        if name not in known:
            raise Problem("not-found", f"there is no schedule {name!r}; the code of a worker declares it")
        made = None
        if not call.dry_run:
            note = (call.body or {}).get("note", "").strip()
            call.visit.audit(f"{act} schedule", name, 1 if act == "run" else 0, note)
            made = run(known[name])
        job = made.id if act == "run" and made is not None else None
        return Answer({"schedule": _schedule_shape(known[name]), "dry_run": call.dry_run, "job": job})

    return operation


def _schedule_shape(one: Schedule) -> dict[str, object]:
    same = ("name", "expression", "tz", "missed", "task", "queue", "paused", "declared")
    return {
        **{name: getattr(one, name) for name in same},
        "last": _utc(one.last),
        "next": _utc(item_of(one).next),
    }


def _utc(at: datetime | None) -> str | None:
    return None if at is None else iso(at.astimezone(UTC))


def _list(path: str, act: str, summary: str, result: str, run: Callable[[Call], Answer]) -> Operation:
    return Operation("GET", path, act, "parts", summary, result, run, query=PAGING, problems=("foreign-cursor",))


def _of_schedule(act: str, summary: str, run: Callable[[Schedule], JobHandle | None]) -> Operation:
    return Operation("POST", f"/schedules/{{name:path}}/{act}", f"{act}Schedule", "parts", summary, "ScheduleEffect",
                     _acts_on_schedule(act, run), query=DRY_RUN, body="NoteBody", optional_body=True)  # fmt: skip


OPERATIONS = [
    _list("/workers", "listWorkers", "List workers, consumers and holders of leases.", "WorkerPage", workers),
    _list("/managers", "listManagers", "List managers.", "ManagerPage", managers),
    _list("/rates", "listRates", "List declared rates.", "RatePage", rates),
    _list("/semaphores", "listSemaphores", "List semaphores.", "SemaphorePage", semaphores),
    Operation("GET", "/semaphores/{name:path}", "getSemaphore", "parts", "Show who holds a semaphore, and who waits.",
              "SemaphoreDetail", semaphore),
    Operation("PATCH", "/semaphores/{name:path}", "resizeSemaphore", "parts", "Change the capacity of a semaphore.",
              "Semaphore", resize, query=DRY_RUN, body="CapacityBody"),
    _list("/schedules", "listSchedules", "List schedules.", "SchedulePage", schedules),
    _of_schedule("pause", "Skip the ticks of a schedule from now on.", Schedule.pause),
    _of_schedule("resume", "Fire the ticks of a schedule again.", Schedule.resume),
    _of_schedule("run", "Enqueue the job of a schedule now.", Schedule.trigger),
]  # fmt: skip
