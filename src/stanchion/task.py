"""Tasks: functions whose calls become jobs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, cast, get_type_hints

from stanchion.checking import refuse_unknown, several, shown
from stanchion.errors import InvalidInput
from stanchion.flow import Signature
from stanchion.ids import new_ids
from stanchion.job import Job, JobHandle
from stanchion.offloop import off_loop
from stanchion.options import ENQUEUE_OPTIONS, EnqueueOptions, checked, checked_name, seconds_of
from stanchion.queue import batches, store_batches
from stanchion.retry import Retry
from stanchion.stores.records import NewJob

if TYPE_CHECKING:
    from stanchion.app import Stanchion

COLLECT = "stanchion.collect"
"""The task that every app knows: it returns what it gets. In a flow it stands for a part without a last call."""

Call = tuple[tuple[Any, ...], Mapping[str, Any]]
"""The positional and the keyword arguments of a call."""

P = ParamSpec("P")
R = TypeVar("R")


class Enqueuer(Generic[P]):
    """Enqueues calls of one task under fixed options. Made by `task.using(...)`."""

    def __init__(self, app: Stanchion, task: str, options: EnqueueOptions) -> None:
        self.app, self.task_name = app, task
        refuse_unknown(options, ENQUEUE_OPTIONS)
        rest = dict(options)
        self._queue = checked_name(rest.pop("queue", "default"), "queue")
        self._tx = rest.pop("tx", None)
        self._fields = checked(rest, app.codec, queue=self._queue, task=task)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Store one call; a duplicate `key` gives the handle of the job that has it."""
        return self._store([[(args, kwargs)]])[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Await `enqueue`, run off the event loop."""
        return await off_loop(self.enqueue)(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[JobHandle]:
        """Store many calls, one round trip per 2000: tuples of arguments, or mappings of keyword arguments."""
        return self._store(batches(_call(call) for call in several(calls, "calls", "[(1,), (2,)]")))

    aenqueue_many = off_loop(enqueue_many)

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """Return a call to be enqueued as a part of a flow; what it gets from the part before it is left out."""
        if self._tx is not None:
            raise InvalidInput("tx is for the whole flow: leave it out of using(), and give it to enqueue(tx=...)")
        return Signature(self, args, kwargs)

    def member(self, job_id: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewJob:
        """Return the job of a call in a flow; a key that is taken is an error there, as its place would stay empty."""
        payload = self.app.codec.encode(arguments(args, kwargs), "arguments")
        job = NewJob(job_id, self._queue, payload, self.task_name, **self._fields)
        return job if job.key is None else job._replace(on_duplicate="raise")

    def _store(self, batches_of_calls: Iterable[list[Call]]) -> list[JobHandle]:
        stored = store_batches(self.app, (self._new(calls) for calls in batches_of_calls), self._tx)
        return [JobHandle(self.app, one.id, duplicate=one.duplicate) for _, pushed in stored for one in pushed]

    def _new(self, calls: list[Call]) -> list[NewJob]:
        encode, queue, name, fields = self.app.codec.encode, self._queue, self.task_name, self._fields
        return [
            NewJob(job_id, queue, encode(arguments(args, kwargs), "arguments"), name, **fields)
            for job_id, (args, kwargs) in zip(new_ids(len(calls)), calls, strict=True)
        ]


class Task(Generic[P, R]):
    """A function registered under a stable name. Calling it runs it here and now."""

    def __init__(
        self, app: Stanchion, function: Callable[P, R], name: str, retry: Retry, options: EnqueueOptions
    ) -> None:
        self.app, self.function, self.name, self.retry = app, function, checked_name(name, "task name"), retry
        self.options = options
        self.queue = options.get("queue", "default")
        timeout = options.get("timeout")
        self.timeout = None if timeout is None else seconds_of(timeout, "timeout")
        self.is_async = inspect.iscoroutinefunction(function)
        self.signature = signature_of(function)
        self.job_parameter = job_parameter(function)
        self._enqueuer: Enqueuer[P] = self.using()
        self.__name__ = getattr(function, "__name__", name)
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def using(self, **options: Unpack[EnqueueOptions]) -> Enqueuer[P]:
        """Return an enqueuer whose jobs differ from the task's defaults by these options."""
        merged = cast(EnqueueOptions, {"max_attempts": self.retry.max_attempts, **self.options, **options})
        return Enqueuer(self.app, self.name, merged)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Store a call as a job of the task's queue."""
        return self._enqueuer.enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Await `enqueue`, run off the event loop."""
        return await self._enqueuer.aenqueue(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[JobHandle]:
        """Store many calls, one round trip per 2000."""
        return self._enqueuer.enqueue_many(calls)

    aenqueue_many = off_loop(enqueue_many)

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """Return a call to be enqueued as a part of a flow; what it gets from the part before it is left out."""
        return self._enqueuer.s(*args, **kwargs)

    def fits(self, args: list[Any], kwargs: dict[str, Any]) -> str | None:
        """Return why stored arguments can't be passed to the function as it is now, or None."""
        try:
            given = dict(kwargs)
            if self.job_parameter is not None:
                given[self.job_parameter] = None
            self.signature.bind(*args, **given)
        except TypeError as error:
            return str(error)
        return None

    def __repr__(self) -> str:
        return f"<Task {self.name}>"


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return what a function takes; InvalidInput for what can't be called, or does not tell."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{shown(function)} is no function, or does not tell its parameters; wrap it in one"
        ) from None


def arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of a call."""
    return {"args": args, "kwargs": kwargs} if kwargs else {"args": args}


def called_with(payload: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that a payload holds; ValueError when it is not that of a call."""
    if isinstance(payload, dict):
        args, kwargs = payload.get("args"), payload.get("kwargs", {})
        known = 2 if "kwargs" in payload else 1
        if isinstance(args, list) and isinstance(kwargs, dict) and len(payload) == known:
            return args, kwargs
    raise ValueError("the payload does not hold the arguments of a call; push it with task.enqueue() or app.enqueue()")


def _call(call: tuple[Any, ...] | Mapping[str, Any]) -> Call:
    if isinstance(call, Mapping):
        return (), call
    if isinstance(call, tuple):
        return call, {}
    raise InvalidInput(f"a call is a tuple of arguments or a mapping of keyword arguments, not {call!r}")


def job_parameter(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter annotated with Job (or a kind of it)."""
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):  # an annotation that can't be resolved here is not ours
        return None
    for name, hint in hints.items():
        if name != "return" and isinstance(hint, type) and issubclass(hint, Job):
            return name
    return None


def task_options(options: Mapping[str, Any]) -> tuple[Retry, EnqueueOptions]:
    """Split what `@app.task` takes into the retry policy and the options of an enqueue."""
    rest = dict(options)
    retry = rest.pop("retry", None)
    if retry is not None and not isinstance(retry, Retry):
        raise InvalidInput(f"retry must be a Retry policy, such as Retry.exponential(base=2), not {retry!r}")
    policy = retry or Retry()
    if "max_attempts" in rest:
        policy = policy.times(rest.pop("max_attempts"))
    return policy, cast(EnqueueOptions, rest)
