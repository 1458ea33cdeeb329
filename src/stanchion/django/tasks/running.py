"""Tasks of Django as tasks of an app: how a worker runs them, and the signals that it sends.

claimed ──► task_started ──► the function ──► stored ──► task_finished, once it is final

Django logs the error of a receiver; no task fails because of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any

from stanchion.context import context_of
from stanchion.core.functions import is_async
from stanchion.django.tasks import known
from stanchion.django.tasks.compat import (
    TaskContext,
    normalize_json,
    path_of,
    task_backends,
    task_finished,
    task_started,
)
from stanchion.django.tasks.results import result_of
from stanchion.django.tasks.task import options_of
from stanchion.jobs.options import FlowElement
from stanchion.jobs.outcome import Bury, Outcome
from stanchion.middleware import DjangoConnections
from stanchion.tasks.current import current_job
from stanchion.tasks.task import registered, work_of, works

if TYPE_CHECKING:
    from stanchion import Stanchion
    from stanchion.jobs.job import Job
    from stanchion.tasks.work import TaskWork


def prepare(app: Stanchion, alias: str) -> None:
    """Let an app run the tasks of Django that are enqueued by a backend, and send the signals of their ends."""
    app.middleware(DjangoConnections())
    context_of(app).registry.finder = partial(work_for, app, alias)
    app.on("done")(lambda job: _finished(app, alias, job))
    app.on("dead")(lambda job, error: _finished(app, alias, job, error))


def work_for(app: Stanchion, alias: str, path: str) -> TaskWork | None:
    """Return the app's work for a task of Django by its name; None if there is none."""
    task = known.found(path)
    if task is None:
        return None
    if (own := works(context_of(app)).get(path)) is not None:
        return own
    options: Any = {"queue": task.queue_name, **options_of(task)}
    return work_of(registered(context_of(app), _function(task, alias), path, options.pop("retry", None), options))


def _function(task: Any, alias: str) -> Callable[..., object]:
    """Return the function that an attempt calls. It has the parameters of a call, and no annotations: values stay as
    JSON has them."""
    path, expected = path_of(task), _signature(task)

    def run(*args: object, **kwargs: object) -> object:
        call = _Call(path, alias, expected, args, kwargs)
        task_started.send_robust(sender=call.sender, task_result=call.result)
        return _stored(call.function(*call.args, **kwargs))

    async def arun(*args: object, **kwargs: object) -> object:
        call = _Call(path, alias, expected, args, kwargs)
        await task_started.asend_robust(sender=call.sender, task_result=call.result)
        return _stored(await call.function(*call.args, **kwargs))

    function: Any = arun if is_async(task.func) else run
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(function, name, getattr(task.func, name))
    function.__signature__, function.__wrapped__ = expected, task.func
    found: Callable[..., object] = function
    return found


def _signature(task: Any) -> Signature:
    """Return the parameters that calls give: without the context."""
    whole = signature(task.func)
    return whole.replace(parameters=list(whole.parameters.values())[int(task.takes_context) :])


class _Call:
    """One call of a task in its job. Raises Bury if its arguments no longer fit."""

    def __init__(
        self, path: str, alias: str, expected: Signature, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> None:
        task, job = known.found(path), current_job()
        if task is None or job is None:
            raise Bury(f"{path} is no task of Django in a job: enqueue it with its own enqueue()")
        try:
            expected.bind(*args, **kwargs)
        except TypeError as error:
            raise Bury(f"the arguments no longer fit {path}: {error}") from error
        self.sender, self.result, self.function = type(task_backends[alias]), result_of(task, job, alias), task.func
        self.args = (TaskContext(task_result=self.result), *args) if task.takes_context else args


def _stored(value: object) -> object:
    """Return the value of a task as JSON has it. Raises Bury for one that it can't hold: a retry would not help."""
    if isinstance(value, (Outcome, FlowElement)):
        return value
    try:
        return normalize_json(value)
    except (TypeError, ValueError) as error:
        raise Bury(f"the task returned a value that JSON can't hold: {error}") from error


def _finished(app: Stanchion, alias: str, job: Job, error: BaseException | None = None) -> None:
    """Send the signal of a task that has reached its end."""
    task = None if job.task is None else known.noted(job.task)
    if task is None:
        return
    job = app.get(job.id) or job
    if not job.state.final:
        return  # its flow continues
    send = partial(
        task_finished.send_robust, sender=type(task_backends[alias]), task_result=result_of(task, job, alias)
    )
    with DjangoConnections().around():
        if error is None:
            send()
        else:
            _within(error, send)


def _within(error: BaseException, send: Callable[[], object]) -> None:
    """Call within the handling of an error: receivers read it from sys.exc_info()."""
    trace = error.__traceback__
    try:
        raise error
    except BaseException:
        send()
    finally:
        error.__traceback__ = trace
        del error, trace  # they would lead back to this frame
