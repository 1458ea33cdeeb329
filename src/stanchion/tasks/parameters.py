"""The parameters of the function of a task: their annotations, and those that no call gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from stanchion.core.checks import shown
from stanchion.core.values.plain import PLAIN
from stanchion.errors import InvalidInput

_PLAIN = (*PLAIN, bool, object, Any)
"""Annotations of values that JSON holds as they are."""


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function. Raises InvalidInput if it is not callable or has no signature."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{shown(function)} is not a function, or hides its parameters; wrap it in a function"
        ) from None


def injected_parameters(hints: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the names of the parameters that get the job, and the failure of a part of a flow."""
    from stanchion.flows.flow_failure import FlowFailure
    from stanchion.jobs.job import Job

    return parameter_of(hints, Job), parameter_of(hints, FlowFailure)


def parameter_of(hints: Mapping[str, Any], kind: type) -> str | None:
    """Return the name of the parameter annotated with a class, a kind of it, or it and None."""
    for name, hint in hints.items():
        optional = get_origin(hint) in (Union, UnionType)
        kinds = [one for one in get_args(hint) if one is not NoneType] if optional else [hint]
        if name != "return" and len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], kind):
            return name
    return None


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function; as text, an annotation that can't be resolved here."""
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {name: _hint(function, name, one) for name, one in _annotations(function).items()}


def are_plain(hints: Mapping[str, Any]) -> bool:
    """Return whether JSON holds all arguments and the result as they are, by the annotations of a function."""
    return all(hint in _PLAIN for hint in hints.values())


def _injected() -> dict[str, Any]:
    """Return the classes of parameters that no call gives: often only type checkers import them."""
    from stanchion.flows.flow_failure import FlowFailure
    from stanchion.jobs.job import Job
    from stanchion.jobs.reservation import Reservation

    return {one.__name__: one for one in (Job, Reservation, FlowFailure)}


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return inspect.get_annotations(inspect.unwrap(function))
    except (TypeError, ValueError, NameError):
        return {}


def _hint(function: Callable[..., Any], name: str, annotation: Any) -> Any:
    names = {**_injected(), **getattr(inspect.unwrap(function), "__globals__", {})}
    alone = SimpleNamespace(__annotations__={name: annotation}, __globals__=names)
    try:
        return get_type_hints(alone, include_extras=True)[name]
    except (NameError, TypeError, AttributeError, SyntaxError):
        return annotation if isinstance(annotation, str) else Any
