"""The fields of the rows of a table, by the annotation of the function that returns them."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Annotated, Union, get_args, get_origin

from stanchion.core.values.plain import is_pydantic
from stanchion.errors import InvalidInput
from stanchion.jobs.outcome import Outcome
from stanchion.pipelines.send import Send
from stanchion.pipelines.tables.table import Table
from stanchion.schemas.kinds import Schema
from stanchion.schemas.models import is_typed_dict, schema_from
from stanchion.tasks.parameters import hints_of


def schema_of(table: Table, station: str, function: Callable[..., object], *, only_part: bool) -> Schema:
    """Return the fields of a table's rows. Raises InvalidInput for a station that does not say them.

    `only_part`: the function returns a table, or what is merged into an item: its annotation does not say the fields.
    """
    if table.schema is not None:
        return schema_from(table.schema)
    classes = [] if only_part else list(dict.fromkeys(_classes(hints_of(function).get("return"))))
    if len(classes) == 1:
        return schema_from(classes[0])
    why = (
        "its annotation does not say all fields"
        if only_part
        else "its annotation names several classes"
        if classes
        else "its annotation names no class with fields"
    )
    raise InvalidInput(
        f"the rows of table {table.address} have the fields that the function of station {station!r} says it returns, "
        f"and {why}: return a dataclass, a TypedDict or a model of Pydantic, or give them, as in "
        f"Table({table.address!r}, schema='flight string not null, zones int')"
    )


def result_schema(function: Callable[..., object]) -> Schema | None:
    """Return the fields of the class that a function says it returns; None: it names none, or several."""
    classes = list(dict.fromkeys(_classes(hints_of(function).get("return"))))
    return schema_from(classes[0]) if len(classes) == 1 else None


def _classes(hint: object) -> Iterator[type[object]]:
    """Yield the classes with fields that an annotation names, besides those that choose what becomes of the item."""
    origin = get_origin(hint)
    if origin is Annotated:
        yield from _classes(get_args(hint)[0])
    elif origin in (Union, types.UnionType):
        for one in get_args(hint):
            yield from _classes(one)
    elif isinstance(hint, type) and not issubclass(hint, Send | Outcome) and _has_fields(hint):
        yield hint


def _has_fields(kind: type) -> bool:
    return is_dataclass(kind) or is_typed_dict(kind) or is_pydantic(kind)
