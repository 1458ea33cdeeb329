"""Tasks: functions whose calls become jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from stanchion.context.context import Context
from stanchion.core.checks import brief
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.functions import module_of, redefines, refuse_generator
from stanchion.core.retry import ByError, Kinds, Retry
from stanchion.core.text.redaction import named_secret
from stanchion.core.types import R_co
from stanchion.errors import InvalidInput
from stanchion.jobs.handle import JobHandle
from stanchion.jobs.options import EnqueueOptions, undeclared
from stanchion.tasks.enqueuer import AnyCall, Enqueuer
from stanchion.tasks.work import TaskWork

if TYPE_CHECKING:
    from stanchion.flows.parts import Signature

P = ParamSpec("P")
Q = ParamSpec("Q")
C = ParamSpec("C")
V = TypeVar("V")


class TaskOptions(EnqueueOptions, total=False):
    """The options of a task.

    `hide`: places of values that the page, its API and the command line don't show, such as `("card.number",)`, see
    `core.text.hiding`; None: as other processes say. `retry_on`, `give_up_on`, `programming_errors`: of the
    retry policy, see `Retry`.
    """

    hide: Iterable[str | Sequence[str]] | None
    retry_on: Kinds | None
    give_up_on: Kinds
    programming_errors: int | None


class Task(Generic[P, R_co]):
    """A function registered under a stable name. Calling it runs it directly.

    Its type names the parameters of its calls and their result: `Task[[int, int], int]`.
    """

    def __init__(self, work: TaskWork) -> None:
        self._work = work
        self._enqueuer: Enqueuer[P, R_co] = Enqueuer(work.calls())
        self.__name__ = getattr(work.function, "__name__", work.name)
        self.__doc__ = work.function.__doc__
        self.__wrapped__ = work.function
        work.task = self

    @property
    def name(self) -> str:
        """The name that jobs refer to."""
        return self._work.name

    @property
    def function(self) -> Callable[..., Any]:
        """The function that its jobs call."""
        return self._work.function

    @property
    def queue(self) -> str:
        """The queue of its jobs by default."""
        return self._work.queue

    @property
    def retry(self) -> Retry:
        """The retry policy of its jobs."""
        return self._work.retry

    @property
    def _context(self) -> Context:
        return self._work.context

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._work.function(*args, **kwargs)

    def using(self, **options: Unpack[EnqueueOptions]) -> Enqueuer[P, R_co]:
        """Return an enqueuer that overrides the task's default options."""
        return Enqueuer(self._work.calls(**options))

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """Store a call as a job of the task's queue."""
        return self._enqueuer.enqueue(*args, **kwargs)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """Await `enqueue`, run off the event loop."""
        return await self._enqueuer.aenqueue(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[AnyCall]) -> list[JobHandle[R_co]]:
        """Store many calls, one round trip per 2000; see `Enqueuer.enqueue_many`."""
        return self._enqueuer.enqueue_many(calls)

    aenqueue_many = off_loop(enqueue_many)

    @overload
    def s(self, /, *args: P.args, **kwargs: P.kwargs) -> Signature[R_co]: ...
    @overload
    def s(self: Task[Concatenate[Any, Q], R_co], /, *args: Q.args, **kwargs: Q.kwargs) -> Signature[R_co]: ...
    def s(self, /, *args: Any, **kwargs: Any) -> Signature[R_co]:
        """Return a call for use in a flow. Leave out the argument that the previous part's value fills."""
        return self._enqueuer.s(*args, **kwargs)

    def si(self, /, *args: P.args, **kwargs: P.kwargs) -> Signature[R_co]:
        """Return an immutable call for use in a flow: it takes no value from the part before it."""
        return self._enqueuer.si(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"


class TaskFunction(Task[P, R_co], Generic[C, V, P, R_co]):
    """A task as its decorator returns it, which is called as its function is: with parameters C, for a value V."""

    if TYPE_CHECKING:

        @property
        def function(self) -> Callable[C, V]: ...

    def __call__(self, /, *args: C.args, **kwargs: C.kwargs) -> V:
        value: V = self._work.function(*args, **kwargs)
        return value


def works(context: Context) -> Mapping[str, TaskWork]:
    """Return what makes and runs the jobs of the tasks that are registered in this process, by name."""
    return cast("Mapping[str, TaskWork]", context.registry.tasks)


def work_of(task: Task[..., object]) -> TaskWork:
    """Return what makes and runs the jobs of a task."""
    return task._work


def registered(
    context: Context, function: Callable[..., object], name: str | None, retry: object, options: Mapping[str, object]
) -> Task[..., object]:
    """Register a function as a task of this process. Raises InvalidInput if another function has its name."""
    if isinstance(function, Task):
        raise InvalidInput(f"{function.name} is a task already; put @app.cron above @app.task")
    if not callable(function):
        raise InvalidInput(f"a task must be a function, not {brief(function)}")
    refuse_generator(function, "a task")
    given = dict(options)
    hide = cast("Iterable[str | Sequence[str]] | None", given.pop("hide", None))
    batch = None
    if (batch_size := given.pop("batch", None)) is not None or "wait" in given:
        from stanchion.tasks.batches.options import batch_options

        batch = batch_options(batch_size, given.pop("wait", 0))
    policy, rest = task_options({"retry": retry, **given}, context.retry)
    key = rest.get("rate_key")
    if key is not None and "rate" not in rest and f"key:{key}" not in context.rates.declared:
        raise undeclared(key)  # a module is imported without a look at the store
    name = name or f"{module_of(function)}.{function.__qualname__}"
    work = TaskWork(context, function, name, policy, rest, batch)
    task: Task[..., object] = TaskFunction(work)
    other = context.registry.tasks.setdefault(work.name, work)
    if other is not work and _code(other.function) is not _code(function):
        if not redefines(function, other.function):
            raise InvalidInput(f"two tasks are named {work.name!r}; give one of them name=...")
        context.registry.tasks[work.name] = work
    if (rate := work.calls().rate) is not None:
        if rest.get("rate_by") != "tenant":
            context.rates.declare(rate)
        shared = {name: rest[name] for name in ("rate_by", "rate_key") if rest.get(name) is not None}
        context.rates.declare_task(work.name, {"rate": rate.per_second, **shared})
    if hide is None:  # so that positional arguments are hidden by the names of their parameters, too
        hide = [(one,) for one in work.signature.parameters if named_secret(one)] or None
    if hide is not None:
        context.hidden.declare(work.name, work.hiding(hide))
    return task


def _code(function: Callable[..., object]) -> object:
    return getattr(function, "__code__", function)


def checked_retry(retry: object) -> Retry | None:
    """Return a retry policy, or None. Raises InvalidInput for anything else."""
    if retry is not None and not isinstance(retry, Retry):
        raise InvalidInput(f"retry must be a Retry policy, such as Retry.exponential(base=2), not {retry!r}")
    return retry


def task_options(options: Mapping[str, Any], default: Retry) -> tuple[Retry, EnqueueOptions]:
    """Split the options of `@app.task` into the retry policy and the options of an enqueue."""
    rest = dict(options)
    policy = checked_retry(rest.pop("retry", None)) or default
    if "max_attempts" in rest:
        policy = replace(policy, max_attempts=rest.pop("max_attempts"))
    if by_error := {name: rest.pop(name) for name in ByError.__annotations__ if name in rest}:
        policy = replace(policy, **by_error)
    return policy, cast(EnqueueOptions, rest)
