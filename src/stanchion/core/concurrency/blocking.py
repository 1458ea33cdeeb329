"""Warnings of calls that block a running event loop."""

from __future__ import annotations

import logging
import sys
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import CodeType, FrameType

log = logging.getLogger("stanchion")

_BETWEEN = ("stanchion", "contextlib", "functools")
"""The packages of the frames between a caller and the store."""

_modules = sys.modules

_BLOCKS = {
    "__enter__": ("__aenter__", "use `async with`"),
    "__exit__": ("__aexit__", "use `async with`"),
    "__iter__": ("__aiter__", "use `async for`"),
    "__next__": ("__anext__", "use `async for`"),
}


def on_running_loop() -> bool:
    """Return whether this thread runs an event loop."""
    # No loop runs before this module is imported. Another thread may be importing it now.
    running = getattr(_modules.get("asyncio.events"), "_get_running_loop", None)
    return running is not None and running() is not None


class BlockingCalls:
    """Logs a warning for a public call that blocks a running event loop, once for each method.

    It names the method's async twin. A call of Stanchion itself, which has no twin, is not reported.
    """

    def __init__(self, *, warn: bool = True) -> None:
        self._warn = warn
        self._reported: set[str] = set()

    def check(self) -> None:
        """Warn if the calling thread runs an event loop. Called before each access to the store."""
        if on_running_loop() and self._warn and not _bridged():
            self._report(sys._getframe(1))

    def _report(self, frame: FrameType) -> None:
        called, caller = _public_call(frame)
        found = _twin_of(called)
        if found is None or found[0] in self._reported or _in_notebook(caller):
            return
        method, instead = found
        self._reported.add(method)
        place = "" if caller is None else f" at {caller.f_code.co_filename}:{caller.f_lineno}"
        log.warning(
            "%s%s blocks the running event loop until the store answers: %s. Stanchion(warn_blocking=False) turns off "
            "this warning, which is logged once for each method",
            *(method, place, instead),
        )


def _bridged() -> bool:
    """Return whether SQLAlchemy's `run_sync` makes the call: its statements then wait without blocking the loop."""
    current = getattr(_modules.get("greenlet"), "getcurrent", None)
    return current is not None and current().parent is not None


def _in_notebook(frame: FrameType | None) -> bool:
    """Return whether a cell of a notebook makes the call: IPython runs each on its event loop, which has to wait."""
    while frame is not None and not frame.f_code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
        frame = frame.f_back
    return frame is not None and _package(frame) == "IPython"


def _public_call(frame: FrameType) -> tuple[FrameType, FrameType | None]:
    """Return the outermost frame of Stanchion above this one, and that of its caller."""
    called, outer = frame, frame.f_back
    while outer is not None and (package := _package(outer)) in _BETWEEN:
        if package == "stanchion" and outer.f_code.co_name != "__call__":  # `job.progress(0.5)` reports the progress
            called = outer
        outer = outer.f_back
    return called, outer


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _twin_of(frame: FrameType) -> tuple[str, str] | None:
    """Return the name of the method that a frame runs, and what to call instead; None if it has no twin."""
    owner = _owner(frame)
    name, kind = frame.f_code.co_name, type(owner)
    if name in _BLOCKS:
        special, instead = _BLOCKS[name]
        return (f"{_public_name(kind)}.{name}", instead) if hasattr(kind, special) else None
    prefix = "aget_" if isinstance(getattr(kind, name, None), property) else "a"
    if name.startswith("_") or not hasattr(kind, prefix + name):
        return None
    return f"{_public_name(kind)}.{name}", f"use `{prefix}{name}()`"


def _public_name(kind: type) -> str:
    """Return the name by which users know a class: that of the base which `stanchion` exports, if there is one."""
    exported = getattr(_modules.get("stanchion"), "__all__", ())
    return next((base.__name__ for base in kind.__mro__ if base.__name__ in exported), kind.__name__)


def _owner(frame: FrameType) -> object:
    code: CodeType = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
