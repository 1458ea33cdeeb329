"""The interface of Django's tasks: `django.tasks` of Django 6, or the package django-tasks on Django 5.2."""

from __future__ import annotations

from typing import Any

from stanchion.errors import MissingExtra

try:
    from django.tasks import DEFAULT_TASK_BACKEND_ALIAS, TaskContext, TaskResult, TaskResultStatus, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskError
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json
except ModuleNotFoundError as _missing:
    if _missing.name is None or (not _missing.name.startswith("django.") and _missing.name != "django"):
        raise
    try:
        from django_tasks import DEFAULT_TASK_BACKEND_ALIAS, TaskContext, TaskResult, TaskResultStatus, task_backends
        from django_tasks.backends.base import BaseTaskBackend
        from django_tasks.base import Task, TaskError
        from django_tasks.exceptions import InvalidTaskError as InvalidTask
        from django_tasks.exceptions import TaskResultDoesNotExist
        from django_tasks.signals import task_enqueued, task_finished, task_started
        from django_tasks.utils import normalize_json
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in ("django", "django_tasks"):
            raise
        raise MissingExtra("django", "stanchion.django on Django 5.2") from None

__all__ = [
    "DEFAULT_TASK_BACKEND_ALIAS",
    "BaseTaskBackend",
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "normalize_json",
    "path_of",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]


def path_of(task: Any) -> str:
    """Return the name of a task of Django: the module and the qualified name of its function."""
    return str(task.module_path)
