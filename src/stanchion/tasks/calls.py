"""The calls of one task: makes their jobs, under fixed options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stanchion.context.context import Context
from stanchion.core.checks import refuse_unknown
from stanchion.core.ids import new_id, new_ids
from stanchion.core.names.partition_names import checked_queue
from stanchion.jobs.call import Call, encoded_call
from stanchion.jobs.options import ENQUEUE_OPTIONS, DeclaredRate, EnqueueOptions, checked, member, sharing
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.rules.capacity.limits import Rate, limits_in
from stanchion.tasks.parameters import CallShape

if TYPE_CHECKING:
    from stanchion.tasks.arguments import TaskModels


class CallMaker:
    """Makes the jobs of calls of one task, under the options of `using`.

    `models`, `shape`: of the arguments, by the task's function. `by_name`: this process lacks the code, so calls are
    not checked.
    """

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
        self.context, self.task_name, self._models, self._shape = context, task, models, shape
        refuse_unknown(options, ENQUEUE_OPTIONS)
        self._options, self.tx = dict(options), options.get("tx")
        self._queue = checked_queue(self._options.pop("queue", "default"))
        self._options.pop("tx", None)
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
        shared: Mapping[str, object] | None = None
        if self._by_name:
            shared = self.context.rates.of_other_tasks([self.task_name], self.context.store).get(self.task_name)
        if not shared and not self._asks_rate:
            return self._checked
        return self._fields_of(shared or {}, self.context.declared_rate)

    def _fields_of(self, shared: Mapping[str, object], declared: DeclaredRate) -> dict[str, Any]:
        """Return the fields of jobs. `shared`: the options of the task about its rate."""
        return checked(
            sharing(self._options, shared),
            self.context.codec,
            queue=self._queue,
            task=self.task_name,
            declared=declared,
        )

    def job(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> NewJob:
        """Return the job of a call, to be stored later. Raises as `payload` does."""
        return NewJob(new_id(), self._queue, self.payload(args, kwargs), self.task_name, **self._fields())

    def jobs(self, calls: Sequence[Call]) -> list[NewJob]:
        """Return the jobs of several calls; see `job`."""
        queue, name, fields = self._queue, self.task_name, self._fields()
        return [
            NewJob(job_id, queue, self.payload(args, kwargs), name, **fields)
            for job_id, (args, kwargs) in zip(new_ids(len(calls)), calls, strict=True)
        ]

    def member(
        self, job_id: str, args: tuple[object, ...], kwargs: Mapping[str, object], *, gets_value: bool
    ) -> NewJob:
        """Return the job of a call in a flow. A duplicate key is an error there, as the member would be missing."""
        payload = self.payload(args, kwargs, skip=int(gets_value))
        return member(NewJob(job_id, self._queue, payload, self.task_name, **self._fields()))

    def payload(self, args: tuple[object, ...], kwargs: Mapping[str, object], *, skip: int = 0) -> str:
        """Return the payload of a call as it is stored.

        Raises InvalidInput for arguments that the function does not take, ArgumentMisfit if one does not fit its model.

        `skip`: how many arguments come before these, when the job runs.
        """
        if self._shape is not None:
            self._shape.check(args, kwargs, skip=skip)
        if self._models is not None:
            args, kwargs = self._models.stored(args, kwargs, skip=skip)
        return encoded_call(self.context.codec, args, kwargs)
