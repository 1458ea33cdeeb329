"""The class of Django's tasks of this backend: Task with options about attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta

from django.utils.module_loading import import_string

from stanchion.core.retry import Retry
from stanchion.django.tasks.compat import Task, path_of
from stanchion.jobs.options import checked_span
from stanchion.tasks.task import task_options


@dataclass(frozen=True, slots=True, kw_only=True)
class StanchionTask(Task):
    """A task of Django with more options of `@task`.

    `retry`: the policy of failed attempts, in place of the one in OPTIONS. `max_attempts`: of the policy in force.
    `timeout`: seconds that an attempt may run.
    """

    retry: Retry | None = None
    max_attempts: int | None = None
    timeout: float | timedelta | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the name of the task, as its module has the task in place of the function."""
        return _again, (
            path_of(self),
            {one.name: getattr(self, one.name) for one in fields(self) if one.name != "func"},
        )


def _again(path: str, values: Mapping[str, object]) -> object:
    task = import_string(path)
    if not isinstance(task, Task):
        raise ValueError(f"{path} is no task of Django: decorate the function under its own name")
    return type(task)(func=task.func, **values)


def check_options(task: object) -> None:
    """Raise InvalidInput unless the options of a task are right."""
    _, rest = task_options(options_of(task), Retry())
    checked_span(rest.get("timeout"))


def options_of(task: object) -> dict[str, object]:
    """Return the options of a task for `@app.task`; a class of another backend has none."""
    given = {name: getattr(task, name, None) for name in ("retry", "max_attempts", "timeout")}
    return {name: value for name, value in given.items() if value is not None}
