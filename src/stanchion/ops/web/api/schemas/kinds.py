"""Kinds of values that make up the schemas."""

from __future__ import annotations

from typing import Any, Final

from stanchion.core.checks import LONGEST_DELAY, MAX_NAME
from stanchion.ops.web.api.operation import Schema

PRINTABLE: Final = r"^[^\u0000-\u001f\u007f]*$"
"""A necessary condition of a name; the library refuses more, such as lone surrogates."""

LIMIT_MAX: Final = 500
"""Items of the largest page."""


def ref(name: str) -> Schema:
    """Return a reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def of(kind: str, about: str = "", **more: object) -> Schema:
    """Return a schema of a type."""
    return {"type": kind, **({"description": about} if about else {}), **more}


def text(about: str = "", **more: object) -> Schema:
    """Return a schema of texts."""
    return of("string", about, **more)


def name(about: str = "", most: int = MAX_NAME, **more: object) -> Schema:
    """Return a schema of names."""
    return of("string", about, minLength=1, maxLength=most, pattern=PRINTABLE, **more)


def time(about: str = "") -> Schema:
    """Return a schema of times."""
    return of("string", about, format="date-time")


def whole(about: str = "", least: int = 0, most: int | None = None) -> Schema:
    """Return a schema of whole numbers."""
    return of("integer", about, minimum=least, **({} if most is None else {"maximum": most}))


def seconds(about: str = "", **more: object) -> Schema:
    """Return a schema of spans of time."""
    return of("number", about, **{"minimum": 0, "maximum": LONGEST_DELAY, **more})


def decimal(about: str = "", least: float | None = 0) -> Schema:
    """Return a schema of numbers."""
    return of("number", about, **({} if least is None else {"minimum": least}))


def flag(about: str = "") -> Schema:
    """Return a schema of booleans."""
    return of("boolean", about)


def anything(about: str) -> Schema:
    """Return a schema of any JSON value."""
    return {"description": about}


def choice(values: Any, about: str = "") -> Schema:
    """Return a schema of some texts."""
    return of("string", about, enum=[str(value) for value in values])


def several(items: Schema, about: str = "", **more: object) -> Schema:
    """Return a schema of lists."""
    return of("array", about, items=items, **more)


def maybe(schema: Schema) -> Schema:
    """Return a schema that allows null too."""
    if "type" in schema and "enum" not in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return {**schema, "type": [*kinds, "null"]}
    about = {"description": schema["description"]} if "description" in schema else {}
    return {**about, "anyOf": [{key: one for key, one in schema.items() if key != "description"}, {"type": "null"}]}


def table(values: Schema, about: str = "") -> Schema:
    """Return a schema of objects with any names."""
    return of("object", about, additionalProperties=values)


def body(about: str, required: str = "", /, **properties: Schema) -> Schema:
    """Return a schema of the body of a request: unknown fields are refused."""
    found = of("object", about, properties=properties, additionalProperties=False)
    return {**found, "required": required.split()} if required else found


def answer(about: str, **properties: Schema) -> Schema:
    """Return a schema of an answer: all fields are there; later releases may add others."""
    return of("object", about, properties=properties, required=list(properties))


def page_of(item: str, about: str, **more: Schema) -> Schema:
    """Return the schema of a page of items. `more`: further fields."""
    return answer(
        about,
        **more,
        items=several(ref(item)),
        next=maybe(text("Send it as `after` to get the items after these; null: there are none.")),
        count=ref("Count"),
        as_of=time("By the store's clock."),
    )
