"""Tracebacks as texts: the frames of a failure that has been seen before are not formatted again."""

from __future__ import annotations

import traceback
from types import CodeType, TracebackType
from typing import Final

from stanchion.core.error_texts import MAX_ERROR

FRAMES: Final = 20
"""Frames of a traceback that are kept, the innermost."""

KNOWN_MAX: Final = 256
"""Tracebacks whose frames are remembered."""

_known: dict[tuple[int, ...], tuple[list[CodeType], str]] = {}
"""The texts of frames by the places in the code that they are at, with that code: while it is held, no other, such as
that of a module that was reloaded, takes its ids."""

_LOOKING: Final = (NameError, AttributeError, ImportError, SyntaxError, BaseExceptionGroup)
"""Errors whose last lines tell more than their message, by what stands in the frames or within them."""


def trace_of(error: BaseException) -> str | None:
    """Return the traceback of an error as Python prints it; None for one that was not raised."""
    trace = error.__traceback__
    if trace is None:
        return None
    chained = error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__)
    if chained or isinstance(error, _LOOKING):
        return "".join(map(_cut, traceback.format_exception(error, limit=-FRAMES)))
    last = "".join(map(_cut, traceback.format_exception_only(error)))
    return f"Traceback (most recent call last):\n{_frames(trace)}{last}"


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
