"""Round trips of models through the store: dump a model, rebuild it from the dump, and compare the two.

The store holds plain JSON. A serializer may drop or round a value, a field may be excluded, or an instance may belong
to a subclass that the annotation does not name. Such a model is refused before anything is stored.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import fields
from enum import Enum
from functools import lru_cache
from typing import Any

from stanchion.core.values.plain import (
    SECRET,
    ToPlain,
    attributes,
    is_attrs,
    is_model,
    is_pydantic,
    is_secret,
    plain,
    plain_dataclass,
    unknown_kind,
)
from stanchion.errors import InvalidInput
from stanchion.schemas.building import Build, MisfitError, builder
from stanchion.schemas.kinds import quoted
from stanchion.schemas.misfits import Misfit, within


class ChangedError(MisfitError, InvalidInput):
    """A round trip through the store would change a model. `model`: the name of its class."""

    def __init__(self, model: str, misfit: Misfit) -> None:
        MisfitError.__init__(self, misfit)
        self.args = (f"{model} would not come back from the store as it is: {misfit}; or pass plain values of it",)
        self.model = model


def kept_model(value: object) -> object:
    """Return a model as a plain value that its class turns into an equal model.

    Raises ChangedError, which names the field, if there is no such value; TypeError for anything but models.
    """
    kind: Any = type(value)
    if not is_model(kind):
        raise TypeError(unknown_kind(value))
    build = _builder_of(kind)
    misfit = None
    for found in _dumps(value):
        if build is None:  # a dataclass with types that are left to the encoder
            return found
        misfit = _changed(value, json.loads(json.dumps(found)), build)
        if misfit is None:
            return found
    assert misfit is not None  # noqa: S101 - there is a dump
    raise ChangedError(kind.__name__, misfit)


def kept_as(build: Build, value: object, to_plain: ToPlain = kept_model) -> object:
    """Return a value with models as a plain value that the builder of its annotation turns into an equal value.

    Raises MisfitError, which names the field; TypeError or ValueError for values that JSON can't hold. `to_plain`:
    for types that are neither models nor known here.
    """
    found = plain(value, kept_model)
    if (misfit := _changed(value, json.loads(json.dumps(found, default=to_plain)), build)) is not None:
        raise MisfitError(misfit)
    return found


def _changed(value: object, found: object, build: Build) -> Misfit | None:
    """Return the first difference between a value and the one rebuilt from its plain form; None if they are equal."""
    try:
        return difference(value, build(found, True))
    except MisfitError as error:
        return error.misfit


@lru_cache(maxsize=1000)
def _builder_of(kind: Hashable) -> Build | None:
    try:
        return builder(kind)
    except InvalidInput:
        return None


def _dumps(value: Any) -> Iterator[object]:
    """Yield the plain forms of a model: first with the aliases of its fields, then with their names."""
    if not is_pydantic(type(value)):
        yield plain_dataclass(value, _within_dataclass)
        return
    for by_alias in (True, False):
        yield value.model_dump(mode="json", by_alias=by_alias, round_trip=True, warnings=False)


def _within_dataclass(value: object) -> object:
    """Return a model in a dataclass as a plain value. The comparison of the outermost dataclass includes it."""
    return kept_model(value) if is_pydantic(type(value)) else plain_dataclass(value, _within_dataclass)


def difference(went: Any, came: Any, *, inside: bool = False) -> Misfit | None:
    """Return the first difference between a value and its rebuilt form; a list in place of a tuple is none.

    `inside`: it is a value within a model. Others may be plain values of models, and are not compared with these.
    """
    if is_model(type(went)) or is_attrs(type(went)):
        return _of_models(went, came)
    if isinstance(went, Mapping) and isinstance(came, Mapping):
        if went.keys() != came.keys():
            return _OTHER
        return _first(((f"[{quoted(str(key))}]", one, came[key]) for key, one in went.items()), inside)
    if type(went) in _LISTS and type(came) in _LISTS:
        if len(went) != len(came):
            return _OTHER
        pairs = zip(went, came, strict=True)
        return _first(((f"[{n}]", one, other) for n, (one, other) in enumerate(pairs)), inside)
    return None if not inside and type(went) in _JSON else _of_leaves(went, came)


_OTHER = Misfit("", "would arrive with another value, as its serializer, its type or an exclusion loses its own")
_LISTS = (list, tuple)
_IDENTITY: object = object.__eq__
_JSON = (str, int, float, bool, type(None), dict, list)


def _first(parts: Iterator[tuple[str, object, object]], inside: bool) -> Misfit | None:
    found = ((path, difference(one, other, inside=inside)) for path, one, other in parts)
    return next((within(path, misfit) if path else misfit for path, misfit in found if misfit is not None), None)


def _of_models(went: Any, came: Any) -> Misfit | None:
    if type(went) is not type(came):
        return Misfit("", f"is a {type(went).__name__}, and would arrive as a {type(came).__name__}")
    if is_attrs(type(went)):
        names = [one.name for one in attributes(type(went))]
        return _first(((quoted(name), getattr(went, name), getattr(came, name)) for name in names), inside=True)
    if not is_pydantic(type(went)):
        named = ((quoted(one.name), getattr(went, one.name), getattr(came, one.name)) for one in fields(went))
        return _first(named, inside=True)
    root = "root" if getattr(went, "__pydantic_root_model__", False) else None
    mine, others = _parts(went), _parts(came)
    return _first(
        (("" if name == root else quoted(name), mine.get(name), others.get(name)) for name in {**mine, **others}),
        inside=True,
    )


def _parts(model: Any) -> dict[str, object]:
    """Return the fields of a model of Pydantic, those beyond its declared ones, and its private attributes."""
    own = {name: one for name, one in vars(model).items() if name in type(model).__pydantic_fields__}
    return {**own, **(model.__pydantic_extra__ or {}), **(model.__pydantic_private__ or {})}


def _of_leaves(went: object, came: object) -> Misfit | None:
    if isinstance(went, Enum) != isinstance(came, Enum):
        return _OTHER
    try:
        same = bool(went == came) or (went != went and came != came)
    except Exception:  # arrays compare to arrays of truths
        same = repr(went) == repr(came)
    if same:
        return None
    if is_secret(went):
        return Misfit("", f"is a secret, which {SECRET}")
    kind: object = type(went)
    if kind is type(came) and kind.__eq__ is _IDENTITY:  # such as a lock of a private attribute
        return difference(getattr(went, "__dict__", {}), getattr(came, "__dict__", {}), inside=True)
    return _OTHER
