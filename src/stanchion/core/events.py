"""Listeners: functions called on the events of jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args

from stanchion.core.callables import refuse_async, refuse_generator, with_function
from stanchion.core.checks import shown
from stanchion.errors import InvalidInput

log = logging.getLogger("stanchion.events")

Event = Literal["pushed", "started", "done", "failed", "retrying", "dead"]
EVENTS: tuple[Event, ...] = get_args(Event)

F = TypeVar("F", bound=Callable[..., Any])


class Listeners:
    """The listeners of one app.

    "pushed", "started" and "done" are called with the job; "failed", "retrying" and "dead" with the job
    and the error. An exception in a listener is logged and does not affect the job.
    """

    def __init__(self) -> None:
        self._by_event: dict[str, list[Callable[..., Any]]] = {event: [] for event in EVENTS}

    def on(self, event: Event) -> Callable[[F], F]:
        """Register the decorated function for an event."""
        if event not in EVENTS:
            raise InvalidInput(f"unknown event {event!r}; choose from {', '.join(EVENTS)}")

        def register(listener: F) -> F:
            if not callable(listener):
                raise InvalidInput(f"a listener is a function, not {shown(listener)}")
            refuse_async(listener, "a listener")
            refuse_generator(listener, "a listener")
            self._by_event[event] = with_function(self._by_event[event], listener)
            return listener

        return register

    def hears(self, event: Event) -> bool:
        """Return whether the event has listeners."""
        return bool(self._by_event[event])

    def fire(self, event: Event, *details: Any) -> None:
        """Call the listeners of the event, in the order of their registration."""
        for listener in self._by_event[event]:
            try:
                listener(*details)
            except Exception:
                log.exception("the %r listener %r failed; its job continues", event, listener)
