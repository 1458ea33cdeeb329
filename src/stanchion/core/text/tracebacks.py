"""Tracebacks as texts. They begin in the code of the task. Frames that were formatted before are reused.

a runner, a loop       ours: left out
middleware, decorators of attempts
a call of a task       `begins_task`: the frames from here on are kept
the task ...
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Final, TypeVar

from stanchion.core.text.error_texts import MAX_ERROR

FRAMES: Final = 20
"""Frames of a traceback that are kept, the innermost."""

KNOWN_MAX: Final = 256
"""Tracebacks whose frames are remembered."""

_known: dict[tuple[int, ...], tuple[list[CodeType], str]] = {}
"""The texts of frames by the places in the code that they are at, with that code: while it is held, no other, such as
that of a module that was reloaded, takes its ids."""

_LOOKING: Final = (NameError, AttributeError, ImportError, SyntaxError, BaseExceptionGroup)
"""Errors whose last lines say more than their message, from their frames or their inner errors."""


_OURS: Final = ("stanchion", "asyncio", "concurrent", "asgiref")
"""The packages whose frames precede a task's frames; asgiref runs async tasks of a drain where Django is loaded."""

_begins: set[CodeType] = set()

F = TypeVar("F", bound=Callable[..., object])


def begins_task(function: F) -> F:
    """Mark a function that calls the code of a task: the frames before and of it are left out."""
    _begins.add(function.__code__)
    return function


def trace_of(error: BaseException) -> str | None:
    """Return the traceback of an error as Python prints it, from the task's code on; None for one not raised."""
    trace = error.__traceback__
    if trace is None:
        return None
    chained = error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__)
    if chained or isinstance(error, _LOOKING):
        found = traceback.TracebackException.from_exception(error, limit=-FRAMES)
        _shorten(found, error, set())
        return "".join(map(_cut, found.format()))
    last = "".join(map(_cut, traceback.format_exception_only(error)))
    return f"Traceback (most recent call last):\n{_frames(_own(trace))}{last}"


def own_code(error: BaseException) -> CodeType | None:
    """Return the code that raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else trace.tb_frame.f_code


def _own(trace: TracebackType) -> TracebackType:
    """Return a traceback from the task's code on; the whole of one that has none."""
    first = trace
    one: TracebackType | None = trace
    while one is not None:
        if one.tb_frame.f_code in _begins:
            first = one
        one = one.tb_next
    one = first
    while one is not None and _is_ours(one.tb_frame):
        one = one.tb_next
    return first if one is None else one


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] in _OURS


def _shorten(found: traceback.TracebackException, error: BaseException, seen: set[int]) -> None:
    """Leave out the frames before the task's code, of an error and of the errors in and before it."""
    waiting = [(found, error)]
    while waiting:
        shown, one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if (trace := one.__traceback__) is not None:
            cut = max(_length(trace) - FRAMES, 0)
            del shown.stack[: max(_length(trace, _own(trace)) - cut, 0)]
        for inner, cause in ((shown.__cause__, one.__cause__), (shown.__context__, one.__context__)):
            if inner is not None and cause is not None:
                waiting.append((inner, cause))
        if isinstance(one, BaseExceptionGroup):
            waiting += zip(shown.exceptions or (), one.exceptions, strict=False)


def _length(trace: TracebackType | None, until: TracebackType | None = None) -> int:
    """Return the number of frames of a traceback, before another one of it."""
    number = 0
    while trace is not None and trace is not until:
        number, trace = number + 1, trace.tb_next
    return number


def _cut(part: str) -> str:
    """Return a frame or message of bounded length, so that a huge message leaves room for the frames."""
    return part if len(part) <= MAX_ERROR else f"{part[: MAX_ERROR - 4]}...\n"


def _frames(trace: TracebackType) -> str:
    """Return the innermost frames as text."""
    codes: list[CodeType] = []
    places: list[int] = []
    one: TracebackType | None = trace
    while one is not None:
        code = one.tb_frame.f_code
        codes.append(code)
        places += (id(code), one.tb_lasti, one.tb_lineno)
        one = one.tb_next
    key = tuple(places[-3 * FRAMES :])
    found = _known.get(key)
    if found is None:
        if len(_known) >= KNOWN_MAX:
            _known.clear()
        found = _known[key] = codes[-FRAMES:], "".join(map(_cut, traceback.format_tb(trace, limit=-FRAMES)))
    return found[1]
