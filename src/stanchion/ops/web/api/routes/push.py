"""Pushing jobs: payloads, and calls of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from stanchion.context import context_of
from stanchion.context.context import Context
from stanchion.core.ids import new_ids
from stanchion.errors import InvalidInput, StanchionError, StoreUnavailable
from stanchion.jobs.call import encoded_call
from stanchion.jobs.insert import insert
from stanchion.jobs.options import checked, sharing
from stanchion.manager.server.shared import check_limits
from stanchion.ops.web.api.checking import refuse
from stanchion.ops.web.api.operation import Answer, Call, Operation
from stanchion.ops.web.api.problems import Problem, Wrong
from stanchion.ops.web.api.repeats import Repeats
from stanchion.ops.web.api.routes.queues import queue_name
from stanchion.ops.web.api.schemas.kinds import text
from stanchion.stores.records.jobs import NewJob
from stanchion.tasks.work import TaskWork

IDEMPOTENCY: Final = "Idempotency-Key"

_OWN: Final = frozenset({"payload", "task", "args", "kwargs"})


def push(call: Call) -> Answer:
    """Store jobs, all or none where the store can."""
    context, queue = context_of(call.visit.site.app), queue_name(call)
    key = call.visit.request.headers.get(IDEMPOTENCY)
    program = call.visit.session.caller.program
    rates: Mapping[str, Mapping[str, object]] = {}
    if program is None or program.queues is None:  # a program limited to queues names the rates that it may use
        tasks = {one["task"] for one in call.body["jobs"] if "task" in one} - context.registry.tasks.keys()
        rates = context.rates.of_other_tasks(tasks, context.store)
    jobs = [_new(context, queue, one, f"/jobs/{place}", rates) for place, one in enumerate(call.body["jobs"])]
    if program is not None:
        check_limits(program, "push", {"jobs": jobs})
    if key is None:
        ids = new_ids(len(jobs))
        return Answer({"jobs": _pushed(context, jobs, ids)})
    if not 0 < len(key) <= 255:
        raise Problem("invalid", f"{IDEMPOTENCY} has 1 to 255 characters", [Wrong("its length", parameter=IDEMPOTENCY)])
    repeats = Repeats(call.visit.store)
    who = call.visit.session.caller.name
    push = repeats.begin([who, queue, key], call.body, len(jobs), call.visit.now)
    if push.stored is not None:
        return Answer({"jobs": push.stored}, {"Idempotent-Replayed": "true"})
    try:
        stored = _pushed(context, jobs, push.ids)
    except StoreUnavailable:  # it may have stored them
        raise
    except StanchionError:
        repeats.forget(push)
        raise
    repeats.finish(push, stored)
    return Answer({"jobs": stored})


def _pushed(context: Context, jobs: list[NewJob], ids: list[str]) -> list[dict[str, object]]:
    new = [job._replace(id=job_id) for job, job_id in zip(jobs, ids, strict=True)]
    stored = insert(context, new)
    return [{"id": one.id, "duplicate": one.id != job_id} for one, job_id in zip(stored, ids, strict=True)]


def _new(
    context: Context, queue: str, given: Mapping[str, Any], at: str, rates: Mapping[str, Mapping[str, object]]
) -> NewJob:
    """Return a job of the body. Raises Problem, which names the place. `rates`: of tasks of other processes."""
    options = {name: value for name, value in given.items() if name not in _OWN}
    for name in ("priority", "max_attempts"):
        if isinstance(options.get(name), float):
            options[name] = int(options[name])
    if options.get("run_at") is not None:
        options["run_at"] = _time(options["run_at"], f"{at}/run_at")
    task = given.get("task")
    if (task is None) == ("payload" not in given):
        raise refuse("needs a payload, or a task with args and kwargs", at)
    if task is None and ("args" in given or "kwargs" in given):
        raise refuse("args and kwargs are of a task: name it, or give a payload", at)
    try:
        if task is None:
            return NewJob("", queue, context.codec.encode(given["payload"]),
                          **checked(options, context.codec, queue=queue, declared=context.declared_rate))  # fmt: skip
        return _call(context, queue, task, given, sharing(options, rates.get(task, {})))
    except InvalidInput as error:
        raise refuse(str(error), at) from None


def _call(context: Context, queue: str, task: str, given: Mapping[str, Any], options: Mapping[str, object]) -> NewJob:
    args, kwargs = given.get("args", []), given.get("kwargs", {})
    known = context.registry.tasks.get(task)
    if isinstance(known, TaskWork):
        known.shape.check(args, kwargs)
        usual = {name: value for name, value in known.options.items() if name not in ("queue", "tx")}
        options = {"max_attempts": known.retry.max_attempts, **usual, **options}
    payload = encoded_call(context.codec, tuple(args), kwargs)
    fields = checked(options, context.codec, queue=queue, task=task, declared=context.declared_rate)
    return NewJob("", queue, payload, task, **fields)


def _time(value: str, at: str) -> datetime:
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise refuse(f"is a time in ISO 8601, such as 2026-11-26T03:12:40Z, not {value[:40]!r}", at) from None
    if found.utcoffset() is None:
        raise refuse("needs a time zone, such as Z at its end", at)
    return found


OPERATIONS = [
    Operation("POST", "/queues/{queue:path}/jobs", "pushJobs", "work", "Store jobs in a queue, which is made if it is "
              "missing.", "Pushed", push, body="PushBody", status=201, program="push",
              problems=("duplicate-key", "conflict"),
              headers={IDEMPOTENCY: text("The same key with the same body stores nothing again, for a day.",
                                         minLength=1, maxLength=255)}),
]  # fmt: skip
