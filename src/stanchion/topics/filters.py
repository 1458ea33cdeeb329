"""Filters of subscriptions: conditions on an event, as data.

    {"payload.kind": "new"}                    the value is equal
    {"headers.region": ["eu", "us"]}           it is one of these
    {"priority": {">=": 20, "<": 60}}          it meets all of these comparisons
    {"tenant": {"!=": None}}                   there is one

An event must meet all conditions. A missing value is null. Values of different kinds are never equal, and only
numbers, or texts, are less or more than each other.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from typing import Any

from stanchion.core.checks import brief, refuse_unknown
from stanchion.errors import InvalidInput

Filter = Mapping[str, Any]

MOST_CONDITIONS = 50
MAX_FILTER = 16 * 1024
"""Characters of a filter as JSON."""


def checked_filter(value: object) -> dict[str, dict[str, object]] | None:
    """Return a filter as it is stored: for each field its comparisons. Raises InvalidInput."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not value or len(value) > MOST_CONDITIONS:
        raise InvalidInput(
            f"a filter is a mapping of 1 to {MOST_CONDITIONS} fields to conditions, such as {{'payload.kind': 'new'}}, "
            f"not {brief(value)}"
        )
    checked = {_checked_field(field): _comparisons(field, condition) for field, condition in value.items()}
    if len(json.dumps(checked)) > MAX_FILTER:
        raise InvalidInput(f"a filter may take {MAX_FILTER:,} characters of JSON")
    return checked


def _checked_field(field: object) -> str:
    if isinstance(field, str):
        root, *path = field.split(".")
        if (root in ("tenant", "priority") and not path) or (root in ("payload", "headers") and all(path)):
            return field
    raise InvalidInput(
        f"a filter names payload.FIELD, headers.NAME, tenant or priority, with dots between the levels of a payload, "
        f"not {brief(field)}"
    )


def _comparisons(field: str, condition: object) -> dict[str, object]:
    if isinstance(condition, Mapping):
        if not condition:
            raise InvalidInput(f"the condition on {field!r} is empty; give comparisons, such as {{'>=': 20}}")
        refuse_unknown(condition, _COMPARE, "comparison")
        given = dict(condition)
    else:
        given = {"in": list(condition)} if isinstance(condition, (list, tuple, set, frozenset)) else {"=": condition}
    return {sign: _operand(field, sign, value) for sign, value in given.items()}


def _operand(field: str, sign: str, value: object) -> object:
    if sign in ("in", "not in"):
        if not isinstance(value, (list, tuple, set, frozenset)):
            raise InvalidInput(f"{sign!r} on {field!r} takes a list of values, not {brief(value)}")
        return [_plain(field, one) for one in value]
    _plain(field, value)
    if sign in _ORDERING and _kind(value) not in ("number", "text"):
        raise InvalidInput(f"{sign!r} on {field!r} compares with a number or a text, not {brief(value)}")
    return value


def _plain(field: str, value: object) -> object:
    if (value is not None and not isinstance(value, (str, int, float))) or value != value:
        raise InvalidInput(
            f"the condition on {field!r} compares with text, a number, true, false or null, not {brief(value)}"
        )
    return value


def meets(event: Mapping[str, object], wanted: Filter | None) -> bool:
    """Return whether an event, with its payload, headers, tenant and priority, meets a checked filter."""
    if wanted is None:
        return True
    for field, comparisons in wanted.items():
        value = _value(event, field)
        for sign, operand in comparisons.items():
            if sign not in _COMPARE:
                raise InvalidInput(
                    f"the stored filter on {field!r} has the comparison {sign!r}, which this release does not know; "
                    f"upgrade this process, or subscribe again with a filter that it knows"
                )
            if not _COMPARE[sign](value, operand):
                return False
    return True


def _value(event: object, field: str) -> object:
    found = event
    for name in field.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "truth"
    return "number" if isinstance(value, (int, float)) else "text" if isinstance(value, str) else type(value).__name__


def _equal(value: object, operand: object) -> bool:
    return _kind(value) == _kind(operand) and bool(value == operand)


def _ordered(compare: Callable[[Any, Any], object]) -> Callable[[object, object], bool]:
    return lambda value, operand: _kind(value) == _kind(operand) and bool(compare(value, operand))


_ORDERING: dict[str, Callable[[object, object], bool]] = {
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
}

_COMPARE: dict[str, Callable[[object, Any], bool]] = {
    "=": _equal,
    "!=": lambda value, operand: not _equal(value, operand),
    "in": lambda value, operands: any(_equal(value, one) for one in operands),
    "not in": lambda value, operands: not any(_equal(value, one) for one in operands),
    **_ORDERING,
}
