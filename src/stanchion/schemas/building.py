"""Instances of types from plain values of JSON: models, values such as times, and containers and unions of them."""

from __future__ import annotations

import types
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from stanchion.core.checks import brief
from stanchion.core.values.plain import PLAIN, attributes, is_attrs, is_model, is_path, is_pydantic
from stanchion.errors import InvalidInput
from stanchion.schemas.kinds import quoted
from stanchion.schemas.leaves import CONVERTED, leaf_maker
from stanchion.schemas.misfits import Check, Misfit, check_of, within
from stanchion.schemas.models import plain_kind
from stanchion.schemas.pydantic_models import pydantic_builder

Build = Callable[[object, bool], object]
"""Makes an instance of a plain value; `strict`: refuse fields that a dataclass does not have. Raises MisfitError."""


class MisfitError(ValueError):
    """A plain value does not fit a type."""

    def __init__(self, misfit: Misfit) -> None:
        super().__init__(str(misfit))
        self.misfit = misfit


def mentions(hint: object, kind: Callable[[object], bool]) -> bool:
    """Return whether an annotation is, or has among its parameters, a type for which `kind` returns True."""
    return kind(hint) or any(mentions(one, kind) for one in get_args(hint))


Decode = Callable[[type, Any], object]
"""Makes an instance of a class that only the program knows from its plain value."""


class _Known(dict[type, Build]):
    """The builders of models that are being made. `decode`: makes instances of other classes; None refuses them."""

    def __init__(self, decode: Decode | None) -> None:
        super().__init__()
        self.decode = decode


def builder(hint: object, decode: Decode | None = None) -> Build:
    """Return what makes instances of a type. Raises InvalidInput for a type that plain values can't be told to be."""
    return _builder(hint, _Known(decode), "")


def _builder(hint: object, known: _Known, path: str) -> Build:
    if mentions(hint, lambda one: isinstance(one, type) and is_pydantic(one)):
        return _of_pydantic(hint)
    origin, args = get_origin(hint), get_args(hint)
    if hint in (Any, object):
        return _as_it_is
    if hint in (None, type(None)):
        return _null
    if origin in (Annotated, Required, NotRequired):
        return _builder(args[0], known, path)
    if origin in (Union, types.UnionType):
        return _union([_builder(one, known, path) for one in args])
    if origin is Literal:
        return _literal(args)
    if isinstance(origin, type) and issubclass(origin, Mapping) and args[0] is str:
        return _map(_builder(args[1], known, path))
    if origin is tuple and args[1:] != (...,):
        return _tuple([_builder(one, known, path) for one in args])
    if isinstance(origin, type) and issubclass(origin, Set) and args:
        return _list(_builder(args[0], known, path), frozenset if origin is frozenset else set)
    if isinstance(origin, type) and issubclass(origin, Sequence) and args:
        return _list(_builder(args[0], known, path), tuple if origin is tuple else list)
    if hint in (tuple, set, frozenset):
        return _list(_as_it_is, hint)
    if isinstance(hint, type) and origin is None:
        if is_dataclass(hint) or is_attrs(hint):
            return known[hint] if hint in known else _Fields(hint, known)
        if hasattr(hint, "__required_keys__"):
            return _Keys(hint, known)
        if issubclass(hint, tuple) and hasattr(hint, "_fields"):
            return _named_tuple(hint, known)
        if (leaf := _leaf(hint)) is not None:
            return leaf
        if known.decode is not None and is_unknown(hint):
            return _own(hint, known.decode)
    raise InvalidInput(f"{path or 'it'} is of type {brief(hint)}, which can't be made of JSON")


def _as_it_is(value: object, strict: bool) -> object:  # noqa: ARG001 - builders take both
    return value


def _null(value: object, strict: bool) -> None:  # noqa: ARG001 - builders take both
    if value is not None:
        raise MisfitError(Misfit("", "is not null"))


def _of_pydantic(hint: object) -> Build:
    take = pydantic_builder(hint)

    def build(value: object, strict: bool) -> object:  # noqa: ARG001 - the model says which further fields it takes
        found, misfit = take(value)
        if misfit is not None:
            raise MisfitError(misfit)
        return found

    return build


def _literal(values: Sequence[object]) -> Build:
    def build(value: object, strict: bool) -> object:  # noqa: ARG001 - builders take both
        for one in values:
            if one == value and type(one) is type(value):
                return one
        raise MisfitError(Misfit("", f"is none of {', '.join(map(repr, values))}"))

    return build


def _within(path: str, build: Build, value: object, strict: bool) -> object:
    try:
        return None if value is None else build(value, strict)
    except MisfitError as error:
        raise MisfitError(within(path, error.misfit)) from None


def _map(build: Build) -> Build:
    def built(value: object, strict: bool) -> object:
        if not isinstance(value, dict):
            raise MisfitError(Misfit("", "is not an object"))
        return {key: _within(f"[{quoted(key)}]", build, one, strict) for key, one in value.items()}

    return built


def _list(build: Build, kind: type[list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any]]) -> Build:
    def built(value: object, strict: bool) -> object:
        if not isinstance(value, list):
            raise MisfitError(Misfit("", "is not an array"))
        try:
            return kind(_within(f"[{n}]", build, one, strict) for n, one in enumerate(value))
        except TypeError as error:  # elements of a set that have no hash
            raise MisfitError(Misfit("", f"is no {kind.__name__}: {error}")) from None

    return built


def _tuple(builds: Sequence[Build], make: Callable[[Iterable[object]], object] = tuple) -> Build:
    def built(value: object, strict: bool) -> object:
        if not isinstance(value, list) or len(value) != len(builds):
            raise MisfitError(Misfit("", f"is not an array of {len(builds)} elements"))
        pairs = zip(builds, value, strict=True)
        return make(_within(f"[{n}]", build, one, strict) for n, (build, one) in enumerate(pairs))

    return built


def _named_tuple(hint: Any, known: _Known) -> Build:
    hints = get_type_hints(hint, include_extras=True)
    builds = [_builder(hints.get(one, Any), known, f"{hint.__name__}.{one}") for one in hint._fields]
    return _tuple(builds, hint._make)


def _union(builds: Sequence[Build]) -> Build:
    """Return what takes the first type that a value fits strictly; else the one that drops the fewest fields."""

    def built(value: object, strict: bool) -> object:
        misfits = []
        for build in builds:
            try:
                return build(value, True)
            except MisfitError as error:
                misfits.append(error)
        if not strict:
            for build in sorted(builds, key=lambda one: one.unknown(value) if isinstance(one, _Fields) else 0):
                with suppress(MisfitError):
                    return build(value, False)
        raise next((one for one in misfits if one.misfit.path), misfits[0])

    return built


def _leaf(hint: type) -> Build | None:
    kind, own = plain_kind(hint), leaf_maker(hint)
    if own is not None and (kind is None or not issubclass(hint, Enum)):
        return _own_leaf(hint, own, None if kind is None else check_of(kind))
    if kind is None:
        return None
    check, make = check_of(kind), _maker(hint)

    def build(value: object, strict: bool) -> object:  # noqa: ARG001 - builders take both
        if (misfit := Misfit("", "is null") if value is None else check(value)) is not None:
            raise MisfitError(misfit)
        try:
            return make(value)
        except (TypeError, ValueError) as error:  # of an Enum, or a class of somebody's
            raise MisfitError(Misfit("", f"is refused by {hint.__name__}: {error}")) from None

    return build


def _own(hint: type, decode: Decode) -> Build:
    def build(value: object, strict: bool) -> object:  # noqa: ARG001 - builders take both
        if value is None:
            raise MisfitError(Misfit("", "is null"))
        try:
            return decode(hint, value)
        except Exception as error:  # of the program's own function
            raise MisfitError(Misfit("", f"is refused by decode for {hint.__name__}: {error!r}")) from None

    return build


def _own_leaf(hint: type, make: Callable[[Any], object], check: Check | None) -> Build:
    """Return what makes values that a schema has no type for, or narrower ones. `check`: says why there is none."""

    def build(value: object, strict: bool) -> object:  # noqa: ARG001 - builders take both
        if value is None:
            raise MisfitError(Misfit("", "is null"))
        try:
            return make(value)
        except (TypeError, ValueError, ArithmeticError) as error:
            misfit = None if check is None else check(value)
            raise MisfitError(misfit or Misfit("", f"is no {hint.__name__}: {error}")) from None

    return build


def _maker(hint: type) -> Callable[[Any], object]:
    if issubclass(hint, (datetime, date)):
        return hint.fromisoformat
    if issubclass(hint, Decimal):
        return lambda value: hint(str(value))
    if issubclass(hint, (UUID, Enum, float)) or (hint not in (bool, int, str) and issubclass(hint, (int, str))):
        return hint
    return lambda value: value


class _Fields:
    """Makes instances of a dataclass, or of a class of attrs. A null is the default where the field can't be None."""

    def __init__(self, model: type, known: _Known) -> None:
        known[model] = self
        self._model = model
        hints = get_type_hints(model, include_extras=True)
        self._fields = [
            (
                name,
                argument,
                _builder(hints.get(name, Any), known, f"{model.__name__}.{name}"),
                needed,
                admits_none(hints.get(name, Any)),
                init,
            )
            for name, argument, needed, init in _fields_of(model)
        ]
        self._names = frozenset(name for name, *_ in self._fields)

    def unknown(self, value: object) -> int:
        """Return how many fields of an object it does not have."""
        return len(value.keys() - self._names) if isinstance(value, dict) else 0

    def __call__(self, value: object, strict: bool) -> object:
        if not isinstance(value, dict):
            raise MisfitError(Misfit("", f"is not an object with the fields of {self._model.__name__}"))
        given = {}
        for name, argument, build, needed, nullable, init in self._fields:
            one = value.get(name)
            if one is None and not nullable:
                if needed and init:
                    raise MisfitError(Misfit(quoted(name), "is null" if name in value else "is missing"))
                continue
            if not init or (name not in value and not needed):
                continue
            given[argument] = _within(quoted(name), build, one, strict)
        if strict and (others := [name for name in value if name not in self._names]):
            raise MisfitError(Misfit(quoted(others[0][:100]), f"is no field of {self._model.__name__}"))
        try:
            return self._model(**given)
        except (TypeError, ValueError) as error:  # of __post_init__
            raise MisfitError(Misfit("", f"is refused by {self._model.__name__}: {error}")) from None


def _fields_of(model: Any) -> Iterator[tuple[str, str, bool, bool]]:
    """Yield the fields of a model: name, parameter, whether there is no default, whether it is a parameter at all."""
    if is_attrs(model):
        from attr import NOTHING

        yield from ((one.name, one.alias, one.default is NOTHING, one.init) for one in attributes(model))
    else:
        for one in fields(model):
            yield one.name, one.name, (one.default, one.default_factory) == (MISSING, MISSING), one.init


class _Keys:
    """Checks the keys of a TypedDict, and makes their values."""

    def __init__(self, model: Any, known: _Known) -> None:
        known[model] = self
        self._name = model.__name__
        hints = get_type_hints(model, include_extras=True)
        self._builds = {name: _builder(hint, known, f"{self._name}.{name}") for name, hint in hints.items()}
        self._needed = [
            name
            for name, hint in hints.items()
            if get_origin(hint) is Required or (name in model.__required_keys__ and get_origin(hint) is not NotRequired)
        ]

    def __call__(self, value: object, strict: bool) -> object:
        if not isinstance(value, dict):
            raise MisfitError(Misfit("", f"is not an object with the keys of {self._name}"))
        if missing := [name for name in self._needed if name not in value]:
            raise MisfitError(Misfit(quoted(missing[0]), "is missing"))
        if strict and (others := [name for name in value if name not in self._builds]):
            raise MisfitError(Misfit(quoted(others[0][:100]), f"is no key of {self._name}"))
        return {
            name: _within(quoted(name), self._builds[name], one, strict)
            for name, one in value.items()
            if name in self._builds
        }


def admits_none(hint: object) -> bool:
    """Return whether None is a value of a type."""
    if get_origin(hint) is Annotated:
        return admits_none(get_args(hint)[0])
    return hint in (None, type(None), Any, object) or type(None) in get_args(hint)


def is_converted(hint: object) -> bool:
    """Return whether a type has values that JSON does not have: a model, a value such as a time, or both in others."""
    return mentions(hint, _is_converted)


def names_unknown(hint: object) -> bool:
    """Return whether an annotation names a class that is neither plain, a model, nor a kind of values known here."""
    return mentions(hint, is_unknown)


def is_unknown(kind: object) -> bool:
    """Return whether this is a class whose instances only the program can convert; bases and protocols are none."""
    kind = get_origin(kind) or kind
    if not isinstance(kind, type) or isinstance(kind, ABCMeta) or getattr(kind, "_is_protocol", False):
        return False
    return kind not in _ANY and not issubclass(kind, PLAIN) and not _is_converted(kind)


_ANY = (object, Any, types.UnionType, Annotated)
"""Classes of annotations that say nothing by themselves."""


def _is_converted(hint: object) -> bool:
    kind = get_origin(hint) or hint
    if not isinstance(kind, type):
        return False
    known = is_model(kind) or is_attrs(kind) or is_path(kind) or hasattr(kind, "__required_keys__")
    return known or issubclass(kind, CONVERTED)
