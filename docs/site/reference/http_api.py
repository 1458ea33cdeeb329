"""Reference of the JSON API, from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docs.site.reference.tables import block, code, prose, table

from stanchion import __version__
from stanchion.ops.web.api.asgi import COMPONENTS, OPERATIONS
from stanchion.ops.web.api.document import document


def page() -> str:
    """Return the page."""
    whole = document(OPERATIONS, COMPONENTS, __version__, "/api/v1")
    operations = [
        (path, method.upper(), one) for path, methods in whole["paths"].items() for method, one in methods.items()
    ]
    parts = ["# HTTP API", prose(whole["info"]["description"])]
    parts.append("[The JSON API](/api.md) explains it with examples; `stanchion web` serves this document at "
                 "`/api/v1/openapi.json`.")  # fmt: skip
    for tag in whole["tags"]:
        parts += [f"## {tag['name'].capitalize()}", prose(tag["description"])]
        for path, method, one in operations:
            if tag["name"] in one["tags"]:
                parts += _operation(path, method, one)
    parts.append("## Schemas")
    for name, schema in whole["components"]["schemas"].items():
        parts += _schema(name, schema)
    return "\n\n".join(filter(None, parts)) + "\n"


def _operation(path: str, method: str, one: dict[str, Any]) -> Iterator[str]:
    yield f"### {method} {path}".replace("{", "\\{").replace("}", "\\}")
    yield prose(one["summary"])
    parameters = [
        (code(given["name"]), given["in"], _type(given["schema"]), prose(given.get("description", "")))
        for given in one.get("parameters", [])
    ]
    if parameters:
        yield table(["parameter", "in", "type", "meaning"], parameters)
    if "requestBody" in one:
        yield f"Body: {_type(one['requestBody']['content']['application/json']['schema'])}."
    answers = []
    for status, answer in one["responses"].items():
        content: dict[str, Any] = next(iter(answer.get("content", {}).values()), {})
        answers.append((status, _type(content.get("schema", {})), prose(answer["description"])))
    yield table(["status", "body", "meaning"], answers)


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    yield prose(schema.get("description", ""))
    required = set(schema.get("required", ()))
    if "properties" in schema:
        rows = [
            (code(field), _type(one), "yes" if field in required else "", prose(one.get("description", "")))
            for field, one in schema["properties"].items()
        ]
        yield table(["field", "type", "required", "meaning"], rows)
    else:
        shown = _type({key: value for key, value in schema.items() if key != "description"})
        yield shown if shown else block("any", "text")


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(_type(one) for one in schema[several])
    if "enum" in schema:
        return ", ".join(code(str(one)) for one in schema["enum"])
    if "const" in schema:
        return code(str(schema["const"]))
    kind = schema.get("type", "")
    if kind == "array":
        return f"array of {_type(schema.get('items', {})) or 'any'}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
