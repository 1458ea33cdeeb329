"""Assertions of tests about what was enqueued."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from inspect import Signature
from typing import Any

from stanchion.context.context import Context
from stanchion.core.checks import checked_name, whole
from stanchion.jobs.call import called_with, encoded_call
from stanchion.jobs.job import Job
from stanchion.jobs.lookup import find
from stanchion.stores.ports import FollowsTransactions
from stanchion.tasks.task import Task
from stanchion.tasks.work import TaskWork

_MOST = 1000
"""The newest jobs among which an assertion looks."""

_LISTED = 20
"""The different calls that a message lists."""


def asserted(
    context: Context,
    task: Task[..., Any] | str,
    args: Sequence[object] | None,
    kwargs: Mapping[str, object] | None,
    times: int | None,
) -> list[Job]:
    """Return the jobs of a call, oldest first. Raises AssertionError unless there are as many as there should be."""
    name = task.name if isinstance(task, Task) else checked_name(task, "task name")
    if times is not None:
        whole(times, "times", 0, _MOST)
    found = find(context, task=name, limit=_MOST)[::-1]
    if args is not None or kwargs is not None:
        wanted = _wanted(context, name, tuple(args or ()), dict(kwargs or {}))
        found = [job for job in found if _called(context, name, job.payload) == wanted]
    if found if times is None else len(found) == times:
        return found
    usual = {None: "at least one job that calls", 0: "no job that calls", 1: "1 job that calls"}
    asked = usual.get(times, f"{times} jobs that call")
    given = "" if args is None and kwargs is None else _shown(tuple(args or ()), dict(kwargs or {}))
    raise AssertionError(f"expected {asked} {name}{given}, found {len(found) or 'none'}. {_enqueued(context, name)}")


def _wanted(context: Context, name: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
    """Return the arguments of a call as they are stored, by the names of their parameters if these are known."""
    known = context.registry.tasks.get(name)
    encoded = known.calls().payload if isinstance(known, TaskWork) else partial(encoded_call, context.codec)
    return _called(context, name, context.codec.decode(encoded(args, kwargs)))


def _called(context: Context, name: str, payload: object) -> object:
    """Return the arguments in a payload, so that `f(1)` and `f(a=1)` are equal."""
    try:
        args, kwargs = called_with(payload)
    except ValueError:
        return payload
    known = context.registry.tasks.get(name)
    if isinstance(known, TaskWork):
        left = [one for one in known.signature.parameters.values() if one.name not in known.injected]
        try:
            return dict(Signature(left).bind(*args, **kwargs).arguments)
        except (TypeError, ValueError):  # another release has enqueued it
            pass
    return args, kwargs


def _enqueued(context: Context, name: str) -> str:
    """Return a list of what was enqueued, the calls of this task first."""
    jobs = find(context, limit=_MOST)[::-1]
    calls = Counter((job.task != name, _shown_call(job), job.state.value) for job in jobs)
    lines = [f"  {count} times {call}, {state}" for (_, call, state), count in sorted(calls.items())]
    more = [f"  and {len(lines) - _LISTED} other calls"] if len(lines) > _LISTED else []
    listed = "\n".join(["Enqueued were:", *lines[:_LISTED], *more]) if lines else "Nothing was enqueued."
    follows = context.store.extension(FollowsTransactions)
    if follows is not None and (waiting := follows.uncommitted):
        calls_wait = (
            "1 call waits for the commit of its" if waiting == 1 else f"{waiting} calls wait for the commit of a"
        )
        listed += f"\n{calls_wait} transaction, which is still open."
    return listed


def _shown_call(job: Job) -> str:
    if job.task is None:
        return f"a payload in queue {job.queue!r}"
    try:
        args, kwargs = called_with(job.payload)
    except ValueError:
        return job.task
    return f"{job.task}{_shown(tuple(args), kwargs)}"


def _shown(args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
    text = ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])
    return f"({text if len(text) <= 200 else text[:200] + '…'})"
