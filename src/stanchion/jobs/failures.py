"""Errors of attempts, as they are stored with a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stanchion.core.checks import brief
from stanchion.core.text.error_kinds import group_of
from stanchion.core.text.error_texts import bounded, bounded_trace, type_name
from stanchion.core.text.tracebacks import trace_of
from stanchion.errors import InvalidInput
from stanchion.jobs.outcome import Outcome


class Failure(NamedTuple):
    """An error as it is stored: its message, traceback, the key of its group, and the module and class of it."""

    error: str
    traceback: str | None
    group: str
    type: str | None


def failure_of(error: BaseException | str, task: str | None, mask: Callable[[str], str] | None = None) -> Failure:
    """Return the error of a job of this task, as it is stored. `mask`: what hides values in texts.

    An exception may say to which group it belongs: by its attribute `fingerprint`, a text.
    """
    message, trace = described(error)
    if mask is not None:
        message, trace = mask(message), None if trace is None else mask(trace)
    kind = type_name(error) if isinstance(error, BaseException) else None
    return Failure(message, trace, group_of(message, task, _fingerprint_of(error)), kind)


def with_cause(failure: Failure, outcome: Outcome, mask: Callable[[str], str] | None) -> Failure:
    """Return the reason that a task gives by raising an outcome, with what it was raised from, or amid, if anything.

    That is the traceback of both, and the type of the error.
    """
    cause = outcome.__cause__ or (None if outcome.__suppress_context__ else outcome.__context__)
    if cause is None:
        return failure
    trace = trace_of(outcome)
    masked = trace if trace is None or mask is None else mask(trace)
    return failure._replace(traceback=bounded_trace(masked), type=type_name(cause))


def _fingerprint_of(error: BaseException | str) -> str | None:
    try:
        found = getattr(error, "fingerprint", None)
    except Exception:  # a faulty property must not hide the error
        return None
    return found if isinstance(found, str) and found else None


def described(error: BaseException | str) -> tuple[str, str | None]:
    """Return the message and the traceback of an error, both of bounded length."""
    if isinstance(error, str):
        return bounded(error), None
    if not isinstance(error, BaseException):
        raise InvalidInput(f"the error must be an exception or text, not {brief(error)}")
    try:
        text = str(error)
    except Exception:  # a faulty __str__ must not hide the error
        text = "(its message can't be shown)"
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return bounded(message), bounded_trace(trace_of(error))
