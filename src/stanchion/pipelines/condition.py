"""A condition in SQL on one item, evaluated in Python alike on workers and on Spark.

sqlglot parses it, in Spark's dialect; it may use a part of SQL that needs only JSON's types:

    names        miles, address.city, `odd name`; item is the item itself, if it has no field of that name
    literals     1, 2.5, 'text', true, false, null
    comparisons  =  <>  <  <=  >  >=  [not] between  [not] in (...)  [not] like  is [not] null, is [not] true
    arithmetic   + - * / %
    logic        and, or, not
    functions    abs, coalesce, length, lower, trim, upper

Logic has three values, as in SQL. A missing field is null. So is any meaningless result: a comparison of values of two
types, a division by zero, an operation on a value of a wrong type.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from stanchion.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

ITEM: Final = "item"
"""The name of the item itself."""

_SHOWN: Final = 100
"""Characters of a value in a message."""

_NOTHING: Final = object()

Value = Callable[[object], object]
"""Computes a value, or null, from an item."""


class Condition:
    """A condition, such as `miles > 0 and origin <> dest`. Raises InvalidInput for unsupported SQL."""

    def __init__(self, text: str) -> None:
        self.sql = str(text).strip()
        """The condition as it was given."""
        self.text = " ".join(line.strip() for line in self.sql.splitlines())
        """The condition in one line."""
        self.names: list[tuple[str, ...]] = []
        """The fields that it uses, as paths."""
        self._value = _Reader(self.sql, self.names).value

    def __reduce__(self) -> tuple[type[Condition], tuple[str]]:
        return Condition, (self.sql,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and other.sql == self.sql

    def __hash__(self) -> int:
        return hash(self.sql)

    def of(self, item: object) -> bool | None:
        """Return whether it is true of an item; None if that is unknown, as it depends on a null."""
        value = self._value(item)
        return value if isinstance(value, bool) else None

    def seen(self, item: object) -> str:
        """Return the values of an item that it depends on, for messages: `miles = -3, origin = null`."""
        return ", ".join(f"{'.'.join(path)} = {_shown(_field(path)(item))}" for path in dict.fromkeys(self.names))

    def __repr__(self) -> str:
        return f"<Condition {self.text!r}>"


class _Reader:
    """Reads the text of a condition."""

    def __init__(self, text: str, names: list[tuple[str, ...]]) -> None:
        try:
            import sqlglot
            from sqlglot import expressions
        except ModuleNotFoundError:
            raise MissingExtra("expectations", "a condition in SQL") from None
        self._text, self._names, self._kinds = text, names, expressions
        try:
            found = sqlglot.parse(text, read="spark")
        except sqlglot.errors.SqlglotError:
            raise InvalidInput(f"the condition {text!r} can't be read; write it in SQL, such as 'miles > 0'") from None
        if len(found) != 1 or found[0] is None:
            raise InvalidInput(f"the condition {text!r} must be one expression, such as 'miles > 0'")
        self.value = self._read(found[0])

    @cached_property
    def _operators(self) -> Mapping[type, Callable[..., object]]:
        """Functions of values, by the kind of node; its operands are `this` and `expression`, if it has that."""
        kinds = self._kinds
        return {
            kinds.EQ: _comparison(operator.eq),
            kinds.NEQ: _comparison(operator.ne),
            kinds.LT: _comparison(operator.lt),
            kinds.LTE: _comparison(operator.le),
            kinds.GT: _comparison(operator.gt),
            kinds.GTE: _comparison(operator.ge),
            kinds.And: _both,
            kinds.Or: _either,
            kinds.Not: _negation,
            kinds.Paren: lambda value: value,
            kinds.Neg: _arithmetic(operator.neg),
            kinds.Add: _arithmetic(operator.add),
            kinds.Sub: _arithmetic(operator.sub),
            kinds.Mul: _arithmetic(operator.mul),
            kinds.Div: _arithmetic(operator.truediv),
            kinds.Mod: _arithmetic(_remainder),
            kinds.Abs: _arithmetic(abs),
            kinds.Length: _of_text(len),
            kinds.Lower: _of_text(str.lower),
            kinds.Upper: _of_text(str.upper),
            kinds.Trim: _of_text(lambda text: text.strip(" ")),
        }

    def _read(self, node: Expr) -> Value:
        kinds = self._kinds
        match node:
            case kinds.Column() | kinds.Dot():
                return self._name(node)
            case kinds.Literal() | kinds.Boolean() | kinds.Null():
                literal = self._literal(node)
                return lambda _item: literal
            case kinds.Is():
                wanted, (value, *_) = node.expression, self._operands(node, "this", "expression")
                if not isinstance(wanted, kinds.Null | kinds.Boolean):
                    raise self._refused(node)
                literal = self._literal(wanted)
                return lambda item: value(item) is literal
            case kinds.Between():
                value, low, high = self._operands(node, "this", "low", "high")
                inside = _called(
                    _both, _called(_comparison(operator.ge), value, low), _called(_comparison(operator.le), value, high)
                )
                return self._perhaps_not(node, inside)
            case kinds.In():
                (value,) = self._operands(node, "this", "expressions")
                choices = [self._read(one) for one in node.expressions]
                return self._perhaps_not(node, _in(value, choices))
            case kinds.Like():
                value, pattern = self._operands(node, "this", "expression")
                if not isinstance(node.expression, kinds.Literal) or not node.expression.is_string:
                    raise self._refused(node)
                return self._perhaps_not(node, _called(_of_text(_like(str(pattern(None)))), value))
            case kinds.Coalesce():
                (first,) = self._operands(node, "this", "expressions", "is_nvl", "is_null")
                return _coalesce([first, *map(self._read, node.expressions)])
        function = self._operators.get(type(node))
        if function is None:
            raise self._refused(node)
        names = ("this", "expression") if isinstance(node, kinds.Binary) else ("this",)
        return _called(function, *self._operands(node, *names))

    def _operands(self, node: Expr, *names: str) -> list[Value]:
        """Return the operands of a node that are nodes. Raises InvalidInput if it has other parts, but "negate"."""
        # `typed` and `safe` say how a dialect divides, which is one way here.
        used = {name for name, part in node.args.items() if part not in (None, False, [])}
        if not used <= {*names, "negate", "typed", "safe"}:
            raise self._refused(node)
        parts = [node.args[name] for name in names if name in node.args]
        return [self._read(part) for part in parts if isinstance(part, self._kinds.Expr)]

    def _perhaps_not(self, node: Expr, value: Value) -> Value:
        return _called(_negation, value) if node.args.get("negate") else value

    def _literal(self, node: Expr) -> object:
        kinds = self._kinds
        if isinstance(node, kinds.Literal) and not node.is_string:
            try:
                return int(node.this) if node.this.isdecimal() else float(node.this)
            except ValueError:
                raise self._refused(node) from None
        return None if isinstance(node, kinds.Null) else node.this

    def _name(self, node: Expr) -> Value:
        parts = node.parts if isinstance(node, self._kinds.Column | self._kinds.Dot) else []
        if not all(isinstance(one, self._kinds.Identifier) for one in parts):
            raise self._refused(node)
        path = tuple(one.name for one in parts)
        self._names.append(path)
        return _field(path)

    def _refused(self, node: Expr) -> InvalidInput:
        return InvalidInput(
            f"the condition {self._text!r} may not use {node.sql(dialect='spark')!r}: it has names, literals, "
            f"comparisons, arithmetic, and, or, not, between, in (...), like '...', is null, is true, and the "
            f"functions abs, coalesce, length, lower, trim, upper"
        )


# -- values


def _field(path: tuple[str, ...]) -> Value:
    def value(item: object) -> object:
        found = item
        for step, name in enumerate(path):
            inner = found.get(name, _NOTHING) if isinstance(found, dict) else _NOTHING
            if inner is _NOTHING:
                if step or name != ITEM:
                    return None
                inner = item
            found = inner
        return found

    return value


def _called(function: Callable[..., object], *operands: Value) -> Value:
    if len(operands) == 1:
        (one,) = operands
        return lambda item: function(one(item))
    first, second = operands
    return lambda item: function(first(item), second(item))


def _kind(value: object) -> type | None:
    """Return the type for comparing a value; None for null, arrays and objects, which are not compared."""
    if isinstance(value, bool):
        return bool
    if isinstance(value, (int, float)):
        return float
    return str if isinstance(value, str) else None


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[object, object], bool | None]:
    def compared(one: object, other: object) -> bool | None:
        kind = _kind(one)
        return None if kind is None or kind is not _kind(other) else compare(one, other)

    return compared


def _arithmetic(compute: Callable[..., object]) -> Callable[..., object]:
    def computed(*numbers: object) -> object:
        if not all(_kind(one) is float for one in numbers):
            return None
        try:
            return compute(*numbers)
        except (ZeroDivisionError, OverflowError, ValueError):
            return None

    return computed


def _remainder(one: float, other: float) -> float:
    """Return the remainder with the sign of the dividend, as SQL has it."""
    if isinstance(one, float) or isinstance(other, float):
        return math.fmod(one, other)
    remainder = abs(one) % abs(other)
    return -remainder if one < 0 else remainder


def _of_text(compute: Callable[[str], object]) -> Callable[[object], object]:
    return lambda value: compute(value) if isinstance(value, str) else None


def _like(pattern: str) -> Callable[[str], bool]:
    """Return what matches a pattern of `like`: % is any text, _ any character, and a backslash escapes them."""
    parts = re.findall(r"\\.|[^\\]|\\$", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    expression = "".join(wild.get(one) or re.escape(one[-1]) for one in parts)
    matches = re.compile(expression, re.DOTALL).fullmatch
    return lambda text: matches(text) is not None


# -- logic with three values


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _both(one: object, other: object) -> bool | None:
    values = (_truth(one), _truth(other))
    return False if False in values else None if None in values else True


def _either(one: object, other: object) -> bool | None:
    values = (_truth(one), _truth(other))
    return True if True in values else None if None in values else False


def _negation(value: object) -> bool | None:
    truth = _truth(value)
    return None if truth is None else not truth


def _in(value: Value, choices: list[Value]) -> Value:
    equal = _comparison(operator.eq)

    def found(item: object) -> bool | None:
        wanted = value(item)
        answer: bool | None = False
        for choice in choices:
            same = equal(wanted, choice(item))
            if same:
                return True
            answer = None if same is None else answer
        return answer

    return found


def _coalesce(values: list[Value]) -> Value:
    def first(item: object) -> object:
        found: Iterator[object] = (value(item) for value in values)
        return next((one for one in found if one is not None), None)

    return first


def _shown(value: object) -> str:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
