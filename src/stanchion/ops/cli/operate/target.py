"""The targets of `push`: bare payloads for a queue, or calls of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, cast

from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.jobs.handle import JobHandle
from stanchion.jobs.job import Job
from stanchion.jobs.options import EnqueueOptions, Push, PushOptions
from stanchion.queues.queue import Queue
from stanchion.tasks.enqueuer import Enqueuer
from stanchion.tasks.work import TaskWork


class Target(Protocol):
    """Takes jobs in batches. `place`: their queue; `task`: name of the task, empty for bare payloads."""

    place: str
    task: str

    def item(self, value: object) -> object:
        """Return the item to push for a JSON value. Raises InvalidInput for a wrong value."""

    def push(self, items: Sequence[object]) -> Sequence[Job | JobHandle]:
        """Store a batch, all or nothing."""


class Payloads:
    """Bare payloads for a queue."""

    def __init__(self, queue: Queue, options: PushOptions) -> None:
        self._queue, self._options = queue, options
        self.place, self.task = queue.name, ""

    @classmethod
    def of(cls, app: Stanchion, queue: str | None, options: PushOptions) -> Self:
        """Return the target that the arguments name."""
        if queue is None:
            raise InvalidInput("no target: name a queue, or a task with --task")
        return cls(app.queue(queue), options)

    def item(self, value: object) -> Push:
        """Return the payload with its options."""
        return Push(value, **self._options)

    def push(self, items: Sequence[object]) -> Sequence[Job]:
        """Store a batch."""
        return self._queue.push_many(items)


class Calls:
    """Calls of a task; checked against its function if the app is given."""

    def __init__(self, enqueuer: Enqueuer[...], task: str, work: TaskWork | None, place: str) -> None:
        self._enqueuer, self._work = enqueuer, work
        self.place, self.task = place, task

    @classmethod
    def of(cls, app: Stanchion, name: str, queue: str | None, options: PushOptions) -> Self:
        """Return the target that the arguments name."""
        work = cast("TaskWork", context_of(app).registry.task_named(name)) if app.tasks else None
        place = queue or (None if work is None else work.queue)
        if place is None:
            raise InvalidInput("which queue? name it, or give --app module:app, whose task has one")
        return cls(app.using(name, **cast(EnqueueOptions, {**options, "queue": place})), name, work, place)

    def item(self, value: object) -> tuple[object, ...] | dict[str, object]:
        """Return an array as positional arguments, an object as keyword arguments."""
        if isinstance(value, list):
            self.check(value, {})
            return tuple(value)
        if isinstance(value, dict):
            self.check([], value)
            return value
        raise InvalidInput("a call is an array of arguments or an object of keyword arguments")

    def push(self, items: Sequence[Any]) -> Sequence[JobHandle]:
        """Store a batch."""
        return self._enqueuer.enqueue_many(items)

    def push_call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> JobHandle:
        """Store one call."""
        return self._enqueuer.enqueue(*args, **kwargs)

    def check(self, args: list[object], kwargs: Mapping[str, object]) -> None:
        """Raise InvalidInput for arguments that the function does not take."""
        if self._work is not None:
            self._work.shape.check(args, kwargs)
