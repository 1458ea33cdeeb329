"""The parameters of the function of a task: their annotations, and those that no call gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from stanchion.core.checks import shown
from stanchion.errors import InvalidInput
from stanchion.flows.failure import FlowFailure
from stanchion.jobs.job import Job
from stanchion.jobs.reservation import Reservation

_INJECTED = {one.__name__: one for one in (Job, Reservation, FlowFailure)}
"""Classes of parameters that no call gives: their names are known even if only type checkers import them."""


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function. Raises InvalidInput if it is not callable or has no signature."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{shown(function)} is not a function, or hides its parameters; wrap it in a function"
        ) from None


def parameter_of(function: Callable[..., Any], kind: type) -> str | None:
    """Return the name of the parameter annotated with a class, a kind of it, or it and None."""
    for name, hint in hints_of(function).items():
        optional = get_origin(hint) in (Union, UnionType)
        hints = [one for one in get_args(hint) if one is not NoneType] if optional else [hint]
        if name != "return" and len(hints) == 1 and isinstance(hints[0], type) and issubclass(hints[0], kind):
            return name
    return None


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function; as text, an annotation that can't be resolved here."""
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {name: _hint(function, name, one) for name, one in _annotations(function).items()}


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return inspect.get_annotations(inspect.unwrap(function))
    except (TypeError, ValueError, NameError):
        return {}


def _hint(function: Callable[..., Any], name: str, annotation: Any) -> Any:
    names = {**_INJECTED, **getattr(inspect.unwrap(function), "__globals__", {})}
    alone = SimpleNamespace(__annotations__={name: annotation}, __globals__=names)
    try:
        return get_type_hints(alone, include_extras=True)[name]
    except (NameError, TypeError, AttributeError, SyntaxError):
        return annotation if isinstance(annotation, str) else Any
