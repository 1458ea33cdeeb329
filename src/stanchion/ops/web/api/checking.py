"""Checks of requests by the schemas of their operations: of parameters in the URL, and of bodies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from stanchion.core.checks import brief
from stanchion.ops.web.api.operation import Operation, Schema
from stanchion.ops.web.api.problems import Problem, Wrong

ERRORS_MAX: Final = 20
"""Wrong fields that a problem names."""

_HERE: Final = "urn:stanchion"
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?")


class Checks:
    """The checks of all operations. `components`: the schemas that they name."""

    def __init__(self, operations: Iterable[Operation], components: Mapping[str, Schema]) -> None:
        whole = {"components": {"schemas": components}}
        resource: Resource[object] = DRAFT202012.create_resource(whole)
        registry: Registry[object] = Registry().with_resource(_HERE, resource)
        self._bodies, self._queries = {}, {}
        for one in operations:
            if one.body is not None:
                schema = {"$ref": f"{_HERE}#/components/schemas/{one.body}"}
                self._bodies[one.id] = Draft202012Validator(schema, registry=registry)
            self._queries[one.id] = {
                name: Draft202012Validator(dict(of), registry=registry) for name, of in one.query.items()
            }

    def body(self, operation: Operation, body: object) -> None:
        """Raise Problem if a body is not valid."""
        wrong = []
        for error in self._bodies[operation.id].iter_errors(body):
            wrong.append(Wrong(_said(error), pointer=pointer(error.absolute_path)))
            if len(wrong) == ERRORS_MAX:
                break
        _refuse(wrong)

    def query(self, operation: Operation, given: Sequence[tuple[str, str]]) -> dict[str, object]:
        """Return the values of the parameters in a URL. Raises Problem for unknown and wrong ones."""
        values: dict[str, Any] = {}
        wrong = []
        for name, text in given:
            schema = operation.query.get(name)
            if schema is None:
                near = get_close_matches(name, operation.query, 1)
                meant = f"; did you mean {near[0]}?" if near else ""
                wrong.append(Wrong(f"is unknown here{meant}", parameter=name[:100]))
            elif schema.get("type") == "array":
                values.setdefault(name, []).append(text)
            elif name in values:
                wrong.append(Wrong("is given twice", parameter=name))
            else:
                values[name] = _value(schema, text)
        for name, value in values.items():
            errors = self._queries[operation.id][name].iter_errors(value)
            wrong += [Wrong(_said(error), parameter=name) for error in errors]
        _refuse(wrong[:ERRORS_MAX])
        return values


def pointer(path: Iterable[str | int]) -> str:
    """Return a JSON pointer (RFC 6901)."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def refuse(detail: str, at: str) -> Problem:
    """Return the problem of one field of the body. `at`: a JSON pointer."""
    return Problem("invalid", f"{at}: {detail}", [Wrong(detail, pointer=at)])


def _refuse(wrong: Sequence[Wrong]) -> None:
    if wrong:
        first = wrong[0]
        place = first.parameter if first.parameter is not None else first.pointer or "the body"
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise Problem("invalid", f"{place} {first.detail}{more}", wrong)


def _value(schema: Schema, text: str) -> object:
    """Return the text of a parameter as the type that its schema names; as it is, if it does not fit."""
    match schema.get("type"):
        case "integer" if _WHOLE.fullmatch(text):
            return int(text)
        case "number" if _NUMBER.fullmatch(text):
            return float(text)
        case "boolean" if text in ("true", "false"):
            return text == "true"
        case _:
            return text


def _said(error: ValidationError) -> str:
    """Return a short description of valid values."""
    limit: Any = error.validator_value
    match error.validator:
        case "required":
            missing = [name for name in limit if name not in error.instance]
            return f"needs {', '.join(missing)}"
        case "additionalProperties":
            known = error.schema.get("properties", {})
            unknown = [brief(name) for name in error.instance if name not in known]
            return f"has unknown fields: {', '.join(unknown[:5])}; choose from {', '.join(sorted(known))}"
        case "type":
            kinds = limit if isinstance(limit, str) else " or ".join(limit)
            return f"must be of type {kinds}, not {brief(error.instance)}"
        case "enum":
            return f"must be one of {', '.join(map(str, limit))}, not {brief(error.instance)}"
        case "oneOf" | "anyOf":
            alternatives = dict.fromkeys(_said(one) for one in error.context or ())
            return "; or ".join(alternatives)[:500]
        case "maximum" | "exclusiveMaximum" | "minimum" | "exclusiveMinimum":
            return f"must be {_BOUNDS[error.validator]} {limit:,}, not {brief(error.instance)}"
        case "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties":
            return f"must have {_SIZES[error.validator[:3]]} {limit:,} {_SIZES[error.validator[3:]]}"
        case _:
            return f"must fit {error.validator} {brief(limit)}, and is {brief(error.instance)}"


_BOUNDS: Final = {"maximum": "at most", "exclusiveMaximum": "less than", "minimum": "at least",
                  "exclusiveMinimum": "more than"}  # fmt: skip
_SIZES: Final = {"min": "at least", "max": "at most", "Length": "characters", "Items": "items",
                 "Properties": "fields"}  # fmt: skip
