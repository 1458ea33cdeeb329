"""Enqueuers: a task with fixed options for its jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, ParamSpec

from stanchion.context.context import Context
from stanchion.core.aio import off_loop
from stanchion.core.checks import refuse_unknown, several
from stanchion.core.ids import new_id, new_ids
from stanchion.core.partition_names import checked_queue
from stanchion.errors import InvalidInput
from stanchion.flows.parts import Signature
from stanchion.jobs.batches import batches, store_batches
from stanchion.jobs.call import Call, call_of, encoded_call
from stanchion.jobs.handle import JobHandle
from stanchion.jobs.insert import insert
from stanchion.jobs.options import ENQUEUE_OPTIONS, EnqueueOptions, checked, member
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.rules.limits import Rate, limits_in
from stanchion.tasks.arguments import TaskModels

P = ParamSpec("P")


class Enqueuer(Generic[P]):
    """Enqueues calls of one task under fixed options. Made by `task.using(...)`."""

    def __init__(self, context: Context, task: str, options: EnqueueOptions, models: TaskModels | None = None) -> None:
        """`models`: what the code of the task says of its arguments, if it is known here."""
        self.context, self.task_name, self._models = context, task, models
        refuse_unknown(options, ENQUEUE_OPTIONS)
        rest = dict(options)
        self._queue = checked_queue(rest.pop("queue", "default"))
        self._tx = rest.pop("tx", None)
        self._fields = checked(rest, context.codec, queue=self._queue, task=task, declared=context.declared_rate)

    @property
    def rate(self) -> Rate | None:
        """The rate of its jobs."""
        return limits_in(self._fields.get("limits")).rate

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Store one call. For a duplicate `key`, return the handle of the live job that has it."""
        job = NewJob(new_id(), self._queue, self.payload(args, kwargs), self.task_name, **self._fields)
        (pushed,) = insert(self.context, [job], self._tx)
        return JobHandle(self.context, pushed.id, duplicate=pushed.duplicate)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Await `enqueue`, run off the event loop."""
        return await off_loop(self.enqueue)(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[JobHandle]:
        """Store many calls, one round trip per 2000: tuples of arguments, or mappings of keyword arguments."""
        return self._store(batches(call_of(call) for call in several(calls, "calls", "[(1,), (2,)]")))

    aenqueue_many = off_loop(enqueue_many)

    def s(self, /, *args: Any, **kwargs: Any) -> Signature:
        """Return a call for use in a flow. Leave out the argument that the previous part's value fills."""
        if self._tx is not None:
            raise InvalidInput("tx applies to the whole flow: pass it to enqueue(tx=...), not to using()")
        return Signature(self, args, kwargs)

    def member(self, job_id: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, gets_value: bool) -> NewJob:
        """Return the job of a call in a flow. A duplicate key is an error there, as the member would be missing."""
        payload = self.payload(args, kwargs, skip=int(gets_value))
        return member(NewJob(job_id, self._queue, payload, self.task_name, **self._fields))

    def payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, skip: int = 0) -> str:
        """Return the payload of a call as it is stored. Raises ArgumentMisfit if an argument does not fit its model.

        `skip`: how many arguments come before these, when the job runs.
        """
        if self._models is not None:
            args, kwargs = self._models.stored(args, kwargs, skip=skip)
        return encoded_call(self.context.codec, args, kwargs)

    def _store(self, batches_of_calls: Iterable[list[Call]]) -> list[JobHandle]:
        stored = store_batches(self.context, (self._new(calls) for calls in batches_of_calls), self._tx)
        return [JobHandle(self.context, one.id, duplicate=one.duplicate) for _, pushed in stored for one in pushed]

    def _new(self, calls: list[Call]) -> list[NewJob]:
        queue, name, fields = self._queue, self.task_name, self._fields
        return [
            NewJob(job_id, queue, self.payload(args, kwargs), name, **fields)
            for job_id, (args, kwargs) in zip(new_ids(len(calls)), calls, strict=True)
        ]
