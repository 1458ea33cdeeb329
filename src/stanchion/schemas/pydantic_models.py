"""Instances of Pydantic's models, and of the types that it makes of them, from plain values."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from stanchion.errors import InvalidInput, MissingExtra
from stanchion.schemas.kinds import quoted
from stanchion.schemas.misfits import Misfit

Taken = tuple[object, Misfit | None]
"""An instance, or why there is none."""


def pydantic_builder(hint: object) -> Callable[[Any], Taken]:
    """Return what makes instances of a type by Pydantic.

    Fields are found by their aliases and by their names: a model may have an alias for one direction only.
    """
    from pydantic import PydanticUserError, ValidationError

    def take(value: object) -> Taken:
        try:
            return _adapter(hint).validate_json(json.dumps(value), by_alias=True, by_name=True), None
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            path = "".join(f"[{one}]" if isinstance(one, int) else f".{quoted(one)}" for one in first["loc"])
            return None, Misfit(path.removeprefix("."), f"does not fit: {first['msg']}")
        except PydanticUserError as error:
            raise InvalidInput(f"Pydantic can't make a {hint}: {error.message}") from None

    return take


@cache
def _adapter(hint: Any) -> Any:
    from pydantic import VERSION, TypeAdapter

    if tuple(int(one) for one in VERSION.split(".")[:2]) < (2, 11):
        raise MissingExtra("pydantic", f"models of Pydantic with version {VERSION}, which is older than 2.11,")
    return TypeAdapter(hint)
