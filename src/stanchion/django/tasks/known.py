"""The tasks of Django that this process knows, by name. Each is noted when it is made, and imported at need."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from stanchion.django.tasks.compat import Task, path_of

log = logging.getLogger("stanchion.django")

_known: dict[str, Any] = {}
_warned: set[str] = set()


def note(task: Any) -> None:
    """Take in a task; one that `using` has made of another leaves the other in place."""
    path = path_of(task)
    before = _known.get(path)
    if before is None or before.func is not task.func:
        _known[path] = task


def noted(path: str) -> object | None:
    """Return the task with this name, if this process has made it."""
    return _known.get(path)


def names() -> list[str]:
    """Return the names of the tasks that this process has made."""
    return list(_known)


def found(path: str) -> Any | None:
    """Return the task with this name; import its module if need be. None if there is none, or the import fails."""
    if path not in _known and "." in path:
        try:
            _note_member(*path.rsplit(".", 1))
        except Exception as error:  # whatever the module raises
            if path not in _warned:
                _warned.add(path)
                log.warning("the module of the task %s can't be imported: %r (logged once per task)", path, error)
    return _known.get(path)


def _note_member(module: str, name: str) -> None:
    task = getattr(import_module(module), name, None)
    if isinstance(task, Task) and path_of(task) == f"{module}.{name}":
        note(task)


def as_enqueued(task: Any, **fields: object) -> object:
    """Return a task with other fields, without the checks of a new one: the settings may have changed since."""
    copy = object.__new__(type(task))
    for name in type(task).__dataclass_fields__:
        object.__setattr__(copy, name, fields.get(name, getattr(task, name)))
    return copy
