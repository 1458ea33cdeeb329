"""Arguments of tasks that are models: dataclasses, or models of Pydantic.

A call is checked when it is enqueued, and stored as plain JSON. A worker checks it again, as another release may have
enqueued it, and gives the function an instance. Fields that a dataclass does not have are refused in a call of this
code, and left out of a stored one: a newer release may have added them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any, NamedTuple, get_args

from stanchion.core.plain import is_model, is_pydantic, plain
from stanchion.errors import ArgumentMisfit, InvalidInput
from stanchion.schemas.building import admits_none, built, without_unknown
from stanchion.schemas.kinds import quoted
from stanchion.schemas.misfits import Misfit, check_of
from stanchion.schemas.models import struct_of_model

_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_TAKEN = (*_BY_POSITION, Parameter.KEYWORD_ONLY)

Taken = tuple[Any, Misfit | None]
"""An instance, or why there is none."""


class ModelParameter(NamedTuple):
    """A parameter that takes a model. `take`: makes an instance of a plain value; `strict`: without further fields."""

    name: str
    model: type
    optional: bool
    take: Callable[[Any, bool], Taken]

    def taken(self, value: Any, *, strict: bool) -> Taken:
        """Return the instance for a plain value."""
        if value is None:
            return None, None if self.optional else Misfit("", "is null")
        return self.take(value, strict)


class ModelArguments:
    """The parameters of a task that take models."""

    def __init__(self, task: str, by_position: Sequence[str], parameters: Mapping[str, ModelParameter]) -> None:
        self._task, self._by_position, self._parameters = task, by_position, parameters

    def stored(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call as they are stored. Raises ArgumentMisfit."""
        return self._each(args, kwargs, self._stored)

    def given(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return stored arguments as the function gets them. Raises ArgumentMisfit."""
        places, names = self._each(args, kwargs, self._given)
        return list(places), names

    def _each(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], change: Callable[[ModelParameter, Any], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        known = self._parameters
        names = [*self._by_position[: len(args)], *[""] * (len(args) - len(self._by_position))]
        return (
            tuple(change(known[name], one) if name in known else one for name, one in zip(names, args, strict=True)),
            {name: change(known[name], one) if name in known else one for name, one in kwargs.items()},
        )

    def _stored(self, parameter: ModelParameter, value: Any) -> Any:
        try:
            found = plain(value)
            text = json.dumps(found)
        except (TypeError, ValueError, RecursionError):
            return value  # the codec says what JSON can't hold
        _, misfit = parameter.taken(json.loads(text), strict=True)
        if misfit is not None:
            raise self._refused(parameter, misfit)
        return found

    def _given(self, parameter: ModelParameter, value: Any) -> Any:
        instance, misfit = parameter.taken(value, strict=False)
        if misfit is not None:
            raise self._refused(parameter, misfit)
        return instance

    def _refused(self, parameter: ModelParameter, misfit: Misfit) -> ArgumentMisfit:
        return ArgumentMisfit(self._task, parameter.name, parameter.model.__name__, misfit.path, misfit.reason)


def model_arguments(
    task: str, signature: Signature, hints: Mapping[str, Any], job_parameter: str | None
) -> ModelArguments | None:
    """Return what a task's models are; None if none of its parameters is annotated with one."""
    taken = [one for one in signature.parameters.values() if one.name != job_parameter and one.kind in _TAKEN]
    found = {one.name: parameter for one in taken if (parameter := _parameter(one.name, hints.get(one.name)))}
    by_position = [one.name for one in taken if one.kind in _BY_POSITION]
    return ModelArguments(task, by_position, found) if found else None


def _parameter(name: str, hint: Any) -> ModelParameter | None:
    models = [one for one in (hint, *get_args(hint)) if is_model(one)]
    optional = admits_none(hint)
    if len(models) != 1 or (hint is not models[0] and not (optional and len(get_args(hint)) == 2)):
        return None
    try:
        take = _pydantic(models[0]) if is_pydantic(models[0]) else _dataclass(models[0])
    except InvalidInput:  # a dataclass with fields that JSON has no types for: the function gets what was stored
        return None
    return ModelParameter(name, models[0], optional, take)


def _dataclass(model: type) -> Callable[[Any, bool], Taken]:
    struct = struct_of_model(model)
    check = check_of(struct)

    def take(value: Any, strict: bool) -> Taken:
        found = value if strict else without_unknown(struct, value)
        if (misfit := check(found)) is not None:
            return None, misfit
        try:
            return built(model, found), None
        except (TypeError, ValueError) as error:  # of an Enum, or of __post_init__
            return None, Misfit("", f"is refused by {model.__name__}: {error}")

    return take


def _pydantic(model: Any) -> Callable[[Any, bool], Taken]:
    from pydantic import ValidationError

    def take(value: Any, strict: bool) -> Taken:  # noqa: ARG001 - the model says which further fields it takes
        try:
            return model.model_validate_json(json.dumps(value)), None
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            path = "".join(f"[{one}]" if isinstance(one, int) else f".{quoted(one)}" for one in first["loc"])
            return None, Misfit(path.removeprefix("."), f"does not fit: {first['msg']}")

    return take
