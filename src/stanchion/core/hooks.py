"""The hooks of one app: functions that workers call when they start and stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from stanchion.core.callables import is_async, refuse_generator, with_function
from stanchion.core.checks import shown
from stanchion.errors import InvalidInput

When = Literal["start", "stop"]

Per = Literal["process", "thread"]
"""Once for each worker, or once for each of its threads; an async hook of a thread: for each event loop."""


class Hooks:
    """Registered functions by event, scope, and kind: sync or async."""

    def __init__(self) -> None:
        self._found: dict[tuple[When, Per, bool], list[Callable[[], Any]]] = {}

    def add(self, when: When, per: Per, function: Callable[[], Any]) -> None:
        """Register a function. Raises InvalidInput."""
        if per not in get_args(Per):
            raise InvalidInput(f"per must be one of {', '.join(get_args(Per))}, not {per!r}")
        if not callable(function):
            raise InvalidInput(f"a hook is a function without parameters, not {shown(function)}")
        refuse_generator(function, "a hook")
        kind = (when, per, is_async(function))
        self._found[kind] = with_function(self._found.get(kind, []), function)

    def of(self, when: When, per: Per, *, asynchronous: bool) -> list[Callable[[], Any]]:
        """Return hooks in the order of their calls. Stop hooks run in reverse order of registration."""
        found = self._found.get((when, per, asynchronous), [])
        return found[::-1] if when == "stop" else found[:]
