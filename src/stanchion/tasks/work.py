"""The work of a task: how a worker runs its jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter
from typing import TYPE_CHECKING, Any, cast

from stanchion.context.context import Context
from stanchion.core.checks import checked_name, seconds_of
from stanchion.core.functions import is_async
from stanchion.core.retry import Retry
from stanchion.core.text.hiding import Hidden, place_of
from stanchion.errors import InvalidInput, StanchionError
from stanchion.jobs.call import called_with, encoded_result
from stanchion.jobs.options import EnqueueOptions, FlowElement
from stanchion.stores.records.jobs import JobRow
from stanchion.tasks.calls import CallMaker
from stanchion.tasks.parameters import CallShape, are_plain, hints_of, injected_parameters, signature_of

if TYPE_CHECKING:
    from stanchion.context.work import Batching
    from stanchion.stores.records.outcomes import Commit, Continue
    from stanchion.tasks.arguments import TaskModels
    from stanchion.tasks.batches.options import BatchOptions


class TaskWork:
    """A function under a stable name, with everything needed to make jobs of its calls, and to run them.

    It is a `context.work.Work`. `task`: the `tasks.task.Task` that programs have, which tasks of every app lack.
    `batch`: for a function that gets many jobs at once.
    """

    task: Any

    def __init__(
        self,
        context: Context,
        function: Callable[..., Any],
        name: str,
        retry: Retry,
        options: EnqueueOptions,
        batch: BatchOptions | None = None,
    ) -> None:
        self.context, self.function, self.name, self.retry = context, function, checked_name(name, "task name"), retry
        self.options = options
        self.queue = options.get("queue", "default")
        timeout = options.get("timeout")
        self.timeout = None if timeout is None else seconds_of(timeout, "timeout")
        self.is_async = is_async(function)
        self.signature, hints = signature_of(function), hints_of(function)
        self.batching: Batching | None = None
        if batch is not None:
            self.batching, self.signature, hints = batch.of(name, self.signature, hints)
        plain = are_plain(hints)
        self.job_parameter, self.failure_parameter = (None, None) if plain else injected_parameters(hints)
        self.injected = {name for name in (self.job_parameter, self.failure_parameter) if name is not None}
        self.expectations = None
        self.shape = CallShape(self.name, self.signature, self.injected)
        self.models = None if plain else self._models(hints)

    def calls(self, **options: object) -> CallMaker:
        """Return what makes jobs of its calls, with options that override the task's own."""
        merged = cast(EnqueueOptions, {"max_attempts": self.retry.max_attempts, **self.options, **options})
        return CallMaker(self.context, self.name, merged, self.models, self.shape)

    def _models(self, hints: Mapping[str, object]) -> TaskModels | None:
        from stanchion.schemas.round_trips import kept_model
        from stanchion.tasks.arguments import Places

        places = Places(self.name, self.context.codec.to_plain(kept_model), self.context.decode)
        return places.models(hints, self.signature, self.injected)

    attempts_max = None
    """Each job has its own."""

    arguments = staticmethod(called_with)

    def refused(self, row: JobRow) -> str | None:  # noqa: ARG002 - stations do
        """Accept any job."""
        return None

    def of_chunk(self, row: JobRow) -> TaskWork:
        """Refuse it: only the stations of pipelines take chunks."""
        raise StanchionError(f"task {self.name} takes one call a job, and job {row.id} carries a chunk of items")

    def outcome(self, row: JobRow, payload: object, value: object) -> Commit | Continue:  # noqa: ARG002 - stations need it
        """Return the outcome of a job whose call returned a value: its result, or a flow that it goes on as."""
        if isinstance(value, FlowElement):
            from stanchion.flows.continuation import prepared

            return prepared(self.context, row, value)
        plain = value if self.models is None else self.models.stored_result(value)
        from stanchion.stores.rules.lifecycle.outcomes import commit_of

        return commit_of(row, encoded_result(self.context.codec, plain))

    def hiding(self, places: Iterable[str | Sequence[str]]) -> Hidden:
        """Return what the task hides. Raises InvalidInput."""
        if isinstance(places, str):
            raise InvalidInput(f"hide takes several places, such as hide=[{places!r}]")
        by_position = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        names = [one.name for one in self.signature.parameters.values() if one.kind in by_position]
        return Hidden(tuple(map(place_of, places)), tuple(name for name in names if name not in self.injected))
