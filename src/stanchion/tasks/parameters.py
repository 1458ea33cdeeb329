"""The parameters of the function of a task: their annotations, those that no call gives, and the check of calls.

A call is bound to them when it is enqueued, so that a wrong call fails there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import Parameter, Signature
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from stanchion.core.checks import brief
from stanchion.core.values.plain import PLAIN
from stanchion.errors import InvalidInput

_PLAIN = (*PLAIN, bool, object, Any)
"""Annotations of values that JSON holds as they are."""


def signature_of(function: Callable[..., object]) -> inspect.Signature:
    """Return the signature of a function. Raises InvalidInput if it is not callable or has no signature."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{brief(function)} is not a function, or hides its parameters; wrap it in a function"
        ) from None


def injected_parameters(hints: Mapping[str, object]) -> tuple[str | None, str | None]:
    """Return the names of the parameters that get the job, and the failure of a part of a flow."""
    from stanchion.flows.flow_failure import FlowFailure
    from stanchion.jobs.job import Job

    return parameter_of(hints, Job), parameter_of(hints, FlowFailure)


def parameter_of(hints: Mapping[str, object], kind: type) -> str | None:
    """Return the name of the parameter annotated with a class, a kind of it, or it and None."""
    for name, hint in hints.items():
        optional = get_origin(hint) in (Union, UnionType)
        kinds = [one for one in get_args(hint) if one is not NoneType] if optional else [hint]
        if name != "return" and len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], kind):
            return name
    return None


def hints_of(function: Callable[..., object]) -> dict[str, object]:
    """Return the annotations of a function; as text, an annotation that can't be resolved here."""
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {name: _hint(function, name, one) for name, one in _annotations(function).items()}


def are_plain(hints: Mapping[str, object]) -> bool:
    """Return whether JSON holds all arguments and the result as they are, by the annotations of a function."""
    return all(hint in _PLAIN for hint in hints.values())


def _injected() -> dict[str, object]:
    """Return the classes of parameters that no call gives: often only type checkers import them."""
    from stanchion.flows.flow_failure import FlowFailure
    from stanchion.jobs.job import Job
    from stanchion.jobs.reservation import Reservation

    return {one.__name__: one for one in (Job, Reservation, FlowFailure)}


def _annotations(function: Callable[..., object]) -> dict[str, object]:
    try:
        return inspect.get_annotations(inspect.unwrap(function))
    except (TypeError, ValueError, NameError):
        return {}


def _hint(function: Callable[..., object], name: str, annotation: object) -> object:
    names = {**_injected(), **getattr(inspect.unwrap(function), "__globals__", {})}
    alone = SimpleNamespace(__annotations__={name: annotation}, __globals__=names)
    try:
        return get_type_hints(alone, include_extras=True)[name]
    except (NameError, TypeError, AttributeError, SyntaxError):
        return annotation if isinstance(annotation, str) else Any


_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_VALUE = object()
"""Stands for the value of the part before, which a call in a flow gets as its first argument."""


class CallShape:
    """The calls that a function takes. `injected`: parameters that no call gives, as each attempt fills them.

    A call whose number of arguments and names fit, as nearly all do, is accepted without `inspect`, which is slower.
    """

    def __init__(self, task: str, signature: Signature, injected: Collection[str]) -> None:
        self._task = task
        taken = [one for one in signature.parameters.values() if one.name not in injected]
        self.signature = signature.replace(parameters=taken, return_annotation=Signature.empty)
        places = [one for one in taken if one.kind in _BY_POSITION]
        names = [one for one in taken if one.kind in _BY_NAME]
        self._needed, self._known = list[frozenset[str]](), list[frozenset[str]]()
        for given in range(len(places) + 1):  # by the number of positional arguments
            done = {one.name for one in places[:given]}
            others = [one for one in taken if one.kind in (*_BY_POSITION, Parameter.KEYWORD_ONLY)]
            self._needed.append(
                frozenset(one.name for one in others if one.default is Parameter.empty and one.name not in done)
            )
            self._known.append(frozenset(one.name for one in names if one.name not in done))

    def misfit(self, args: Sequence[object], kwargs: Mapping[str, object]) -> str | None:
        """Return why the function does not take these arguments, or None."""
        given = len(args)
        if given < len(self._needed) and self._needed[given] <= kwargs.keys() <= self._known[given]:
            return None
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            return str(error)
        return None

    def check(self, args: Sequence[object], kwargs: Mapping[str, object], *, skip: int = 0) -> None:
        """Raise InvalidInput for arguments that the function does not take. `skip`: how many come before them."""
        if (misfit := self.misfit((*(_VALUE,) * skip, *args) if skip else args, kwargs)) is not None:
            before = " behind the value of the part before" if skip else ""
            raise InvalidInput(f"the arguments{before} don't fit {self._task}{self.signature}: {misfit}")
