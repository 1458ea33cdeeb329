"""Arguments and results of tasks that JSON does not have: models, values such as times, and containers of them.

A call is checked when it is enqueued, and stored as plain JSON, if the same models can be made of it. A worker checks
it again, as another release may have enqueued it, and gives the function instances. Fields that a dataclass does not
have are refused in a call of this code, and left out of a stored one: a newer release may have added them. A result is
treated in the same way, if the function annotates it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from types import UnionType
from typing import NamedTuple, NoReturn, Union, get_args, get_origin

from stanchion.core.checks import brief
from stanchion.core.values.plain import PLAIN, ToPlain, is_model
from stanchion.errors import ArgumentMisfit, InvalidInput, ResultMisfit
from stanchion.jobs.options import FlowElement
from stanchion.jobs.outcome import Outcome
from stanchion.schemas.building import Build, Decode, MisfitError, admits_none, builder, is_converted, names_unknown
from stanchion.schemas.misfits import Misfit
from stanchion.schemas.round_trips import ChangedError, kept_as, kept_model

_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class _Typed(NamedTuple):
    """A parameter or a result that takes models. `build`: None if they can't be made of JSON, for this `reason`.

    `to_plain`: returns plain values of the program's own types.
    """

    called: str
    optional: bool
    build: Build | None
    reason: str = ""
    to_plain: ToPlain = kept_model

    def stored(self, value: object) -> object:
        """Return a value as it is stored. Raises MisfitError."""
        if self.build is None:
            if next(_models_in(value), None) is not None:
                raise MisfitError(Misfit("", self.reason))
            return value
        if value is None:
            self._check_none()
            return None
        try:
            return kept_as(self.build, value, self.to_plain)
        except (MisfitError, InvalidInput):
            raise
        except (TypeError, ValueError, RecursionError):
            return value  # the codec says what JSON can't hold

    def given(self, value: object) -> object:
        """Return a stored value as an instance. Raises MisfitError."""
        if self.build is None:
            return value
        if value is None:
            self._check_none()
            return None
        return self.build(value, False)

    def _check_none(self) -> None:
        if not self.optional:
            raise MisfitError(Misfit("", "is null"))


class TaskModels:
    """The parameters of a task that take models, and its result if that is one."""

    def __init__(
        self,
        task: str,
        parameters: Sequence[Parameter],
        typed: Mapping[str, _Typed],
        result: _Typed | None,
    ) -> None:
        self._task, self._typed, self._result = task, typed, result
        self._by_position = [one.name for one in parameters if one.kind in _BY_POSITION]
        self._others = next((one.name for one in parameters if one.kind is Parameter.VAR_POSITIONAL), "")
        self._named = next((one.name for one in parameters if one.kind is Parameter.VAR_KEYWORD), "")
        self._own = {
            one.name for one in parameters if one.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        }

    def stored(
        self, args: Sequence[object], kwargs: Mapping[str, object], *, skip: int = 0
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return the arguments of a call as they are stored. Raises ArgumentMisfit.

        `skip`: how many arguments come before them, when the job runs.
        """
        places, names = self._each(args, kwargs, _Typed.stored, skip)
        return tuple(places), names

    def given(self, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[list[object], dict[str, object]]:
        """Return stored arguments as the function gets them. Raises ArgumentMisfit."""
        return self._each(args, kwargs, _Typed.given)

    def stored_result(self, value: object) -> object:
        """Return a result as it is stored. Raises ResultMisfit."""
        return self._as_result(value, _Typed.stored)

    def given_result(self, value: object) -> object:
        """Return a stored result as the function has returned it. Raises ResultMisfit."""
        return self._as_result(value, _Typed.given)

    def _as_result(self, value: object, change: Callable[[_Typed, object], object]) -> object:
        if self._result is None or value is None:  # a task that settles its job itself may have stored no result
            return value
        try:
            return change(self._result, value)
        except MisfitError as error:
            raise ResultMisfit(self._task, _model(error, self._result), *error.misfit) from None

    def _each(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        change: Callable[[_Typed, object], object],
        skip: int = 0,
    ) -> tuple[list[object], dict[str, object]]:
        places = self._by_position[skip:]
        names = [*places[: len(args)], *[self._others] * (len(args) - len(places))]
        return (
            [self._changed(name, one, change) for name, one in zip(names, args, strict=True)],
            {
                name: self._changed(name if name in self._own else self._named, one, change)
                for name, one in kwargs.items()
            },
        )

    def _changed(self, name: str, value: object, change: Callable[[_Typed, object], object]) -> object:
        typed = self._typed.get(name)
        if typed is None:
            return value
        try:
            return change(typed, value)
        except MisfitError as error:
            raise ArgumentMisfit(self._task, name, _model(error, typed), *error.misfit) from None


def _model(error: MisfitError, typed: _Typed) -> str:
    return error.model if isinstance(error, ChangedError) else typed.called


def _models_in(value: object) -> Iterator[object]:
    if is_model(type(value)):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _models_in(one)


class Places:
    """Describes each parameter, and the result, of one task.

    `to_plain`, `decode`: for the program's own types. `decode` None: there are none.
    """

    def __init__(self, task: str, to_plain: ToPlain, decode: Decode | None) -> None:
        self._task, self._to_plain, self._decode = task, to_plain, decode

    def models(self, hints: Mapping[str, object], signature: Signature, given: Collection[str]) -> TaskModels | None:
        """Return a task's models; None if neither its parameters nor its result are annotated with any.

        `hints`: the annotations of its function. `given`: the parameters that no call gives, as each attempt fills
        them. Raises InvalidInput for a type that can't be carried, of a result or of a parameter that each call needs.
        """
        taken = [one for one in signature.parameters.values() if one.name not in given]
        typed = {
            one.name: found
            for one in taken
            if one.name in hints
            and (found := self._typed(hints[one.name], f"parameter {one.name!r}", _is_needed(one))) is not None
        }
        returned = _result_of(hints.get("return"))
        known = self._is_converted(returned) or names_unknown(returned)
        result = self._typed(returned, "its result", needed=True) if known else None
        return TaskModels(self._task, taken, typed, result) if typed or result is not None else None

    def _is_converted(self, hint: object) -> bool:
        return is_converted(hint) or (self._decode is not None and names_unknown(hint))

    def _typed(self, hint: object, place: str, needed: bool) -> _Typed | None:
        called = getattr(hint, "__name__", None) if isinstance(hint, type) else None
        called = called or str(hint).replace("typing.", "")
        if isinstance(hint, str):
            reason = (
                f"can't be checked, as the annotation {hint!r} can't be resolved; import it where the task is declared"
            )
            return _Typed(called, True, None, reason)
        if not self._is_converted(hint):
            if needed and names_unknown(hint):
                self._refuse(place, f"it is of type {called}, which can't be made of JSON")
            if isinstance(hint, type) and hint is not object and not issubclass(hint, PLAIN):
                return _Typed(called, True, None, f"would arrive as plain values, as {brief(hint)} is no model")
            return None
        try:
            return _Typed(called, admits_none(hint), builder(hint, self._decode), "", self._to_plain)
        except InvalidInput as error:
            if needed:
                self._refuse(place, str(error))
            return _Typed(called, True, None, f"would arrive as plain values: {error}")

    def _refuse(self, place: str, why: str) -> NoReturn:
        raise InvalidInput(
            f"task {self._task} can't carry {place}: {why}; use a plain type, a model or an id instead, or give "
            f"Stanchion(encode=..., decode=...) for types of your own"
        )


def _is_needed(parameter: Parameter) -> bool:
    """Return whether each call gives the parameter."""
    return parameter.default is Parameter.empty and parameter.kind not in _OF_MORE


_OF_MORE = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _result_of(hint: object) -> object:
    """Return the annotation of a result, without outcomes and flows that a task may return instead."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else [hint]
    results = [one for one in kinds if not issubclass(_class_of(one), (Outcome, FlowElement))]
    return Union[tuple(results)] if results else None  # noqa: UP007 - made of a tuple


def _class_of(hint: object) -> type:
    kind = get_origin(hint) or hint
    return kind if isinstance(kind, type) else object
