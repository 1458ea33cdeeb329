"""Kinds of functions by the effect of a call: return, await, or make a generator."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType
from typing import Any, TypeVar

from stanchion.core.checks import shown
from stanchion.errors import InvalidInput

F = TypeVar("F", bound=Callable[..., Any])


def module_of(function: Callable[..., Any]) -> str:
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


def is_async(function: Callable[..., Any] | None) -> bool:
    """Return whether a call returns a coroutine: of an async function, or of an object with an async `__call__`."""
    return function is not None and inspect.iscoroutinefunction(_called(function))


def refuse_generator(function: Callable[..., Any], what: str) -> None:
    """Raise InvalidInput for a function whose call runs nothing, as it makes a generator. `what`: such as "a task"."""
    called = _called(function)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise InvalidInput(
            f"{what} returns its value, and {shown(function)} yields: a call of it runs nothing; return a list, or "
            f"enqueue a job for each value"
        )


def refuse_async(function: Callable[..., Any], what: str) -> None:
    """Raise InvalidInput for an async function where nothing awaits it. `what`: such as "a listener"."""
    if is_async(function):
        raise InvalidInput(f"{what} is a plain function, and nothing awaits {shown(function)}: make it one")


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that runs when `function` is called."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return getattr(type(function), "__call__", function)  # noqa: B004 - the method is wanted


def redefines(new: Any, old: Any) -> bool:
    """Return whether a function is a new version of another one: a cell of a notebook was run again."""
    return (home := _home(new)) == _home(old) and home[0] == "__main__" and "<" not in home[1]


def with_function(functions: Sequence[F], new: F) -> list[F]:
    """Return functions with another one at their end, or in the place of the one that it redefines."""
    place = next((place for place, old in enumerate(functions) if redefines(new, old)), len(functions))
    return [*functions[:place], new, *functions[place + 1 :]]


def _home(function: Any) -> tuple[str, str]:
    """Return the module and the qualified name of a function; a name with "<" is one that several may have."""
    return getattr(function, "__module__", None) or "", getattr(function, "__qualname__", None) or "<>"


def codes_of(function: Callable[..., Any]) -> set[CodeType]:
    """Return the code of a function behind its decorators, and of the functions and comprehensions within it."""
    found: set[CodeType] = set()
    code = getattr(inspect.unwrap(_called(function)), "__code__", None)
    waiting = [code] if isinstance(code, CodeType) else []
    while waiting:
        found.add(one := waiting.pop())
        waiting += (inner for inner in one.co_consts if isinstance(inner, CodeType))
    return found
