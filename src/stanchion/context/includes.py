"""Modules with tasks that an app names, and that are imported when a process first needs its tasks.

named ──a worker starts, a drain, a task known by its name, a list of tasks──► imported, once
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import PathFinder

from stanchion.core.checks import brief, several
from stanchion.errors import InvalidInput

TASKS = "tasks"
"""The name of the modules that discovery imports."""

WAIT_SECONDS = 60.0
"""Maximum number of seconds that a thread waits for the imports of another."""


class Includes:
    """The modules of one app that are still to be imported."""

    def __init__(self) -> None:
        self._modules: dict[str, bool] = {}
        """Whether all modules of a package are meant, or only those named `tasks` in it."""
        self._lock, self._loading = threading.RLock(), False

    def __getstate__(self) -> dict[str, bool]:
        return self._modules

    def __setstate__(self, modules: dict[str, bool]) -> None:
        self._modules, self._lock, self._loading = modules, threading.RLock(), False

    def add(self, modules: Sequence[str]) -> None:
        """Name modules to import. Of a package, all modules in it are meant."""
        self._add(modules, "include", whole=True)

    def discover(self, packages: Iterable[str]) -> None:
        """Name packages whose modules called `tasks`, at any depth, are to be imported."""
        self._add(several(packages, "discover", "['shop']"), "discover", whole=False)

    def _add(self, names: Iterable[object], what: str, *, whole: bool) -> None:
        for name in names:
            if not isinstance(name, str) or not all(map(str.isidentifier, name.split("."))):
                raise InvalidInput(f"{what} takes names of modules, such as 'shop.tasks', not {brief(name)}")
            self._modules[name] = whole

    def load(self) -> None:
        """Import the remaining modules. Raises InvalidInput for a missing one.

        If an import fails, the next call tries it again. Other threads wait meanwhile, as they would find some tasks
        unknown. They wait for WAIT_SECONDS at most: one that is importing a module itself may hold up the imports here.
        """
        if not (self._modules or self._loading) or not self._lock.acquire(timeout=WAIT_SECONDS):
            return
        try:
            self._import_all()
        finally:
            self._lock.release()

    def _import_all(self) -> None:
        modules, self._modules = self._modules, {}  # an import may ask for tasks, and so come here again
        left, before, self._loading = dict(modules), self._loading, True
        try:
            for name, whole in modules.items():
                (_import_whole if whole else _import_tasks)(name)
                del left[name]
        finally:
            self._modules, self._loading = {**left, **self._modules}, before


def _import_whole(name: str) -> None:
    module = _imported(name)
    if hasattr(module, "__path__"):
        for inner in _modules_in(name, list(module.__path__)):
            _imported(inner)


def _import_tasks(package: str) -> None:
    """Import the modules named `tasks` of a package, and no other module but the packages that hold them."""
    module = _imported(package)
    if not hasattr(module, "__path__"):
        raise InvalidInput(f"discover takes packages, and {package!r} is a module: name it by app.include({package!r})")
    found = [name for name in _modules_in(package, list(module.__path__)) if TASKS in name.split(".")[1:]]
    if not found:
        raise InvalidInput(f"discover={[package]!r} found no module named {TASKS!r}; name others by app.include()")
    for name in found:
        _imported(name)


def _modules_in(package: str, places: Sequence[str]) -> Iterator[str]:
    """Yield the names of all modules in a package, without importing them; none that runs it as a program."""
    from pkgutil import iter_modules

    for found in iter_modules(places, f"{package}."):
        if found.name.endswith(".__main__"):
            continue
        yield found.name
        if found.ispkg:
            spec = PathFinder.find_spec(found.name, places)
            yield from _modules_in(found.name, [] if spec is None else list(spec.submodule_search_locations or ()))


def _imported(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and lacks something itself
        raise InvalidInput(
            f"can't import {name!r}, which the app includes ({error}); correct the name, or run this in the folder "
            f"that holds it"
        ) from error
