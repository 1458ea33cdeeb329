"""Functions that a program gives to an app: their kinds, and those called on events, as hooks and as middleware."""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType
from typing import Any, Literal, TypeVar, get_args

from stanchion.core.checks import brief
from stanchion.errors import InvalidInput

F = TypeVar("F", bound=Callable[..., object])


def module_of(function: Callable[..., object]) -> str:
    """Return the name of a function's module, as other programs import it.

    Python calls the module of the script that it runs `__main__`, also in the processes that `multiprocessing` starts.
    A notebook has no other name.
    """
    if function.__module__ not in ("__main__", "__mp_main__"):
        return function.__module__
    main = sys.modules[function.__module__]
    if (spec := getattr(main, "__spec__", None)) is not None:  # python -m package.module
        return str(spec.name).removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    return "__main__" if file is None else os.path.splitext(os.path.basename(file))[0]


def is_async(function: Callable[..., object] | None) -> bool:
    """Return whether a call returns a coroutine: of an async function, or of an object with an async `__call__`."""
    return function is not None and inspect.iscoroutinefunction(_called(function))


def refuse_generator(function: Callable[..., object], what: str) -> None:
    """Raise InvalidInput for a function whose call runs nothing, as it makes a generator. `what`: such as "a task"."""
    called = _called(function)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise InvalidInput(
            f"{what} returns its value, and {brief(function)} yields: a call of it runs nothing; return a list, or "
            f"enqueue a job for each value"
        )


def refuse_async(function: Callable[..., object], what: str) -> None:
    """Raise InvalidInput for an async function where nothing awaits it. `what`: such as "a listener"."""
    if is_async(function):
        raise InvalidInput(f"{what} is a plain function, and nothing awaits {brief(function)}: make it one")


def _called(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function that runs when `function` is called."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return getattr(type(function), "__call__", function)  # noqa: B004 - the method is wanted


def redefines(new: object, old: object) -> bool:
    """Return whether a function is a new version of another one: a cell of a notebook was run again."""
    return (home := _home(new)) == _home(old) and home[0] == "__main__" and "<" not in home[1]


def with_function(functions: Sequence[F], new: F) -> list[F]:
    """Return functions with another one at their end, or in the place of the one that it redefines."""
    place = next((place for place, old in enumerate(functions) if redefines(new, old)), len(functions))
    return [*functions[:place], new, *functions[place + 1 :]]


def _home(function: object) -> tuple[str, str]:
    """Return the module and the qualified name of a function; a name with "<" is one that several may have."""
    return getattr(function, "__module__", None) or "", getattr(function, "__qualname__", None) or "<>"


def codes_of(function: Callable[..., object]) -> set[CodeType]:
    """Return the code of a function behind its decorators, and of the functions and comprehensions within it."""
    found: set[CodeType] = set()
    code = getattr(inspect.unwrap(_called(function)), "__code__", None)
    waiting = [code] if isinstance(code, CodeType) else []
    while waiting:
        found.add(one := waiting.pop())
        waiting += (inner for inner in one.co_consts if isinstance(inner, CodeType))
    return found


# -- listeners: functions called on the events of jobs

log = logging.getLogger("stanchion.events")

Event = Literal["pushed", "started", "done", "failed", "retrying", "dead"]
EVENTS: tuple[Event, ...] = get_args(Event)


class Listeners:
    """The listeners of one app.

    "pushed", "started" and "done" are called with the job; "failed", "retrying" and "dead" with the job
    and the error. An exception in a listener is logged and does not affect the job.
    """

    def __init__(self) -> None:
        self._by_event: dict[str, list[Callable[..., object]]] = {event: [] for event in EVENTS}

    def on(self, event: Event) -> Callable[[F], F]:
        """Register the decorated function for an event."""
        if event not in EVENTS:
            raise InvalidInput(f"unknown event {event!r}; choose from {', '.join(EVENTS)}")

        def register(listener: F) -> F:
            if not callable(listener):
                raise InvalidInput(f"a listener is a function, not {brief(listener)}")
            refuse_async(listener, "a listener")
            refuse_generator(listener, "a listener")
            self._by_event[event] = with_function(self._by_event[event], listener)
            return listener

        return register

    def hears(self, event: Event) -> bool:
        """Return whether the event has listeners."""
        return bool(self._by_event[event])

    def fire(self, event: Event, *details: object) -> None:
        """Call the listeners of the event, in the order of their registration."""
        for listener in self._by_event[event]:
            try:
                listener(*details)
            except Exception:
                log.exception("the %r listener %r failed; its job continues", event, listener)


# -- hooks: functions that workers call when they start and stop

When = Literal["start", "stop"]

Per = Literal["process", "thread"]
"""Once for each worker, or once for each of its threads; an async hook of a thread: for each event loop."""


class Hooks:
    """Registered functions by event, scope, and kind: sync or async."""

    def __init__(self) -> None:
        self._found: dict[tuple[When, Per, bool], list[Callable[[], object]]] = {}

    def add(self, when: When, per: Per, function: Callable[[], object]) -> None:
        """Register a function. Raises InvalidInput."""
        if per not in get_args(Per):
            raise InvalidInput(f"per must be one of {', '.join(get_args(Per))}, not {per!r}")
        if not callable(function):
            raise InvalidInput(f"a hook is a function without parameters, not {brief(function)}")
        refuse_generator(function, "a hook")
        kind = (when, per, is_async(function))
        self._found[kind] = with_function(self._found.get(kind, []), function)

    def of(self, when: When, per: Per, *, asynchronous: bool) -> list[Callable[[], Any]]:
        """Return hooks in the order of their calls. Stop hooks run in reverse order of registration."""
        found = self._found.get((when, per, asynchronous), [])
        return found[::-1] if when == "stop" else found[:]


# -- middleware: functions around each attempt, in the order of their registration


class Middleware:
    """Registered functions: `sync` for sync tasks, `asynchronous` for async tasks."""

    def __init__(self) -> None:
        self.sync: tuple[Callable[..., object], ...] = ()
        self.asynchronous: tuple[Callable[..., object], ...] = ()

    def add(self, given: object) -> None:
        """Register a function, or an object with `run` and `arun`, inside earlier middleware."""
        run, arun = getattr(given, "run", None), getattr(given, "arun", None)
        if callable(run) and callable(arun):
            if is_async(run) or not is_async(arun):
                raise InvalidInput(f"of {brief(given)}, run must be a plain method and arun an async one")
            self.sync, self.asynchronous = (*self.sync, run), (*self.asynchronous, arun)
            return
        if not callable(given) or isinstance(given, type):
            raise InvalidInput(
                f"middleware is a function of an attempt and call_next, or an object with run and arun, not "
                f"{brief(given)}"
            )
        refuse_generator(given, "middleware")
        if is_async(given):
            self.asynchronous = (*with_function(self.asynchronous, given),)
        else:
            self.sync = (*with_function(self.sync, given),)
