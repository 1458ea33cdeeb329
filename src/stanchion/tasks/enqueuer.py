"""Enqueuers: a task with fixed options for its jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeAlias, overload

from stanchion.context.context import Context
from stanchion.core.aio import off_loop
from stanchion.core.checks import refuse_unknown, several
from stanchion.core.ids import new_id, new_ids
from stanchion.core.partition_names import checked_queue
from stanchion.core.result_type import R_co
from stanchion.errors import InvalidInput
from stanchion.jobs.call import Call, call_of, encoded_call
from stanchion.jobs.handle import JobHandle
from stanchion.jobs.insert import insert
from stanchion.jobs.options import ENQUEUE_OPTIONS, DeclaredRate, EnqueueOptions, FlowElement, checked, member, sharing
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.rules.limits import Rate, limits_in
from stanchion.tasks.binding import CallShape

if TYPE_CHECKING:
    from stanchion.flows.parts import Signature
    from stanchion.tasks.arguments import TaskModels

P = ParamSpec("P")
Q = ParamSpec("Q")

AnyCall: TypeAlias = "tuple[Any, ...] | Mapping[str, Any] | Signature[Any]"
"""A tuple of arguments, a mapping of keyword arguments, or `task.s(...)`, whose arguments type checkers check."""


class Enqueuer(Generic[P, R_co]):
    """Enqueues calls of one task under fixed options. Made by `task.using(...)`."""

    def __init__(
        self,
        context: Context,
        task: str,
        options: EnqueueOptions,
        models: TaskModels | None = None,
        shape: CallShape | None = None,
        *,
        by_name: bool = False,
    ) -> None:
        """Make the enqueuer of `using`.

        `models`, `shape`: of the arguments, by the task's function. `by_name`: this process lacks the code, so
        calls are not checked.
        """
        self.context, self.task_name, self._models, self._shape = context, task, models, shape
        refuse_unknown(options, ENQUEUE_OPTIONS)
        self._options = dict(options)
        self._queue = checked_queue(self._options.pop("queue", "default"))
        self._tx = self._options.pop("tx", None)
        self._by_name = by_name
        known = context.rates.declared
        key = None if self._options.get("rate") is not None else self._options.get("rate_key")
        self._asks_rate = key is not None and f"key:{key}" not in known
        """The rate is declared by another process: it is read from the store at each enqueue."""
        self._checked = self._fields_of({}, lambda name: known.get(name, 1.0))

    @property
    def rate(self) -> Rate | None:
        """The rate of its jobs, as its options name it."""
        return limits_in(self._checked.get("limits")).rate

    def _fields(self) -> dict[str, Any]:
        """Return the fields of its next job; the rate of a task that this process has not is in the store."""
        shared: Mapping[str, Any] | None = None
        if self._by_name:
            shared = self.context.rates.of_other_tasks([self.task_name], self.context.store).get(self.task_name)
        if not shared and not self._asks_rate:
            return self._checked
        return self._fields_of(shared or {}, self.context.declared_rate)

    def _fields_of(self, shared: Mapping[str, Any], declared: DeclaredRate) -> dict[str, Any]:
        """Return the fields of jobs. `shared`: the options of the task about its rate."""
        return checked(
            sharing(self._options, shared),
            self.context.codec,
            queue=self._queue,
            task=self.task_name,
            declared=declared,
        )

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """Store one call. For a duplicate `key`, return the handle of the live job that has it."""
        (pushed,) = insert(self.context, [self.new_job(args, kwargs)], self._tx)
        return JobHandle(self.context, pushed.id, duplicate=pushed.duplicate)

    def new_job(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewJob:
        """Return the job of a call, to be stored later. Raises as `payload` does."""
        return NewJob(new_id(), self._queue, self.payload(args, kwargs), self.task_name, **self._fields())

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """Await `enqueue`, run off the event loop."""
        return await off_loop(self.enqueue)(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[AnyCall]) -> list[JobHandle[R_co]]:
        """Store many calls, one round trip per 2000: tuples of arguments, mappings of keywords, or `s(...)`."""
        from stanchion.jobs.batches import batches

        return self._store(batches(self._call_of(call) for call in several(calls, "calls", "[(1,), (2,)]")))

    aenqueue_many = off_loop(enqueue_many)

    @overload
    def s(self, /, *args: P.args, **kwargs: P.kwargs) -> Signature[R_co]: ...
    @overload
    def s(self: Enqueuer[Concatenate[Any, Q], R_co], /, *args: Q.args, **kwargs: Q.kwargs) -> Signature[R_co]: ...
    def s(self, /, *args: Any, **kwargs: Any) -> Signature[R_co]:
        """Return a call for use in a flow. Leave out the argument that the previous part's value fills."""
        self._refuse_tx()
        from stanchion.flows.parts import Signature

        return Signature(self, args, kwargs)

    def si(self, /, *args: P.args, **kwargs: P.kwargs) -> Signature[R_co]:
        """Return an immutable call for use in a flow: it takes no value from the part before it."""
        self._refuse_tx()
        from stanchion.flows.parts import Signature

        return Signature(self, args, kwargs, immutable=True)

    def member(self, job_id: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, gets_value: bool) -> NewJob:
        """Return the job of a call in a flow. A duplicate key is an error there, as the member would be missing."""
        payload = self.payload(args, kwargs, skip=int(gets_value))
        return member(NewJob(job_id, self._queue, payload, self.task_name, **self._fields()))

    def payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, skip: int = 0) -> str:
        """Return the payload of a call as it is stored.

        Raises InvalidInput for arguments that the function does not take, ArgumentMisfit if one does not fit its model.

        `skip`: how many arguments come before these, when the job runs.
        """
        if self._shape is not None:
            self._shape.check(args, kwargs, skip=skip)
        if self._models is not None:
            args, kwargs = self._models.stored(args, kwargs, skip=skip)
        return encoded_call(self.context.codec, args, kwargs)

    def _call_of(self, call: Any) -> Call:
        if not isinstance(call, FlowElement):
            return call_of(call)
        from stanchion.flows.parts import Signature

        if not isinstance(call, Signature) or call.task != self.task_name:
            raise InvalidInput(f"{call!r} is no call of {self.task_name}; enqueue the calls of each task by itself")
        return call.args, call.kwargs

    def _refuse_tx(self) -> None:
        if self._tx is not None:
            raise InvalidInput("tx applies to the whole flow: pass it to enqueue(tx=...), not to using()")

    def _store(self, batches_of_calls: Iterable[list[Call]]) -> list[JobHandle[R_co]]:
        from stanchion.jobs.batches import store_batches

        stored = store_batches(self.context, (self._new(calls) for calls in batches_of_calls), self._tx)
        return [JobHandle(self.context, one.id, duplicate=one.duplicate) for _, pushed in stored for one in pushed]

    def _new(self, calls: list[Call]) -> list[NewJob]:
        queue, name, fields = self._queue, self.task_name, self._fields()
        return [
            NewJob(job_id, queue, self.payload(args, kwargs), name, **fields)
            for job_id, (args, kwargs) in zip(new_ids(len(calls)), calls, strict=True)
        ]
