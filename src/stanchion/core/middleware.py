"""The middleware of one app: functions around each attempt, in the order of their registration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stanchion.core.callables import is_async, refuse_generator, with_function
from stanchion.core.checks import shown
from stanchion.errors import InvalidInput


class Middleware:
    """Registered functions: `sync` for sync tasks, `asynchronous` for async tasks."""

    def __init__(self) -> None:
        self.sync: tuple[Callable[..., Any], ...] = ()
        self.asynchronous: tuple[Callable[..., Any], ...] = ()

    def add(self, given: Any) -> None:
        """Register a function, or an object with `run` and `arun`, inside earlier middleware."""
        run, arun = getattr(given, "run", None), getattr(given, "arun", None)
        if callable(run) and callable(arun):
            if is_async(run) or not is_async(arun):
                raise InvalidInput(f"of {shown(given)}, run must be a plain method and arun an async one")
            self.sync, self.asynchronous = (*self.sync, run), (*self.asynchronous, arun)
            return
        if not callable(given) or isinstance(given, type):
            raise InvalidInput(
                f"middleware is a function of an attempt and call_next, or an object with run and arun, not "
                f"{shown(given)}"
            )
        refuse_generator(given, "middleware")
        if is_async(given):
            self.asynchronous = (*with_function(self.asynchronous, given),)
        else:
            self.sync = (*with_function(self.sync, given),)
