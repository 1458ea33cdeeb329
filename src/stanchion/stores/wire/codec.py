"""Between records and messages: by the names of their fields, and by parts where the two differ.

A field that the message lacks, as an older peer leaves it out, gets the record's default. A content is carried in one
of two fields: a text, or the bytes of a chunk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from stanchion.errors import InvalidInput
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.wire.messages import Message, build, pb

if TYPE_CHECKING:
    from google._upb._message import FieldDescriptor as UpbFieldDescriptor
    from google.protobuf.descriptor import FieldDescriptor as PureFieldDescriptor

    FieldDescriptor = PureFieldDescriptor | UpbFieldDescriptor

R = TypeVar("R")
M = TypeVar("M", bound=Message)

Fields = dict[str, Any]
"""The fields of a message, as `build` takes them."""
CHUNK: Final = "_chunk"
"""Ends the name of the field for the bytes of a chunk, next to that for a text."""
Convert = Callable[[Any], Any]
"""Converts a value; what values there may be is up to the field."""


class _Makes(Protocol):
    def __call__(self, kind: type[R], values: Iterable[object], /) -> R: ...


_make: Final[_Makes] = tuple.__new__  # type: ignore[assignment]  # for NamedTuples; theirs is a call of Python


class Part(NamedTuple):
    """Converts one field: to `build`'s argument for the message, and back from the message's value.

    `suffix`: of the name that the field has in the message.
    """

    carry: Convert
    take: Convert
    suffix: str = ""


_LONGEST: Final = 2**63 - 1


def _micros(seconds: float) -> int:
    try:
        return max(-_LONGEST, min(round(seconds * SECOND), _LONGEST))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"the protocol carries a finite number of seconds, not {seconds!r}") from error


def _mapping(text: str) -> object:
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"a message should have a JSON object: {error}") from error
    if not isinstance(found, dict):
        raise InvalidInput("a message should have a JSON object, and has other JSON")
    return found


SECONDS: Final = Part(_micros, lambda value: value / SECOND, "_us")
"""Seconds, carried as whole microseconds."""

LIST: Final = Part(list, list)
"""Several plain values, as a list."""

TUPLE: Final = Part(list, tuple)
"""Several plain values, as a tuple."""

NAMES: Final = Part(lambda names: {"names": list(names)}, lambda message: tuple(message.names))
"""Several names, where none differs from None."""

NAME_SET: Final = Part(NAMES.carry, lambda message: frozenset(message.names))
"""The same, as a set."""

JSON: Final = Part(lambda value: json.dumps(dict(value), ensure_ascii=False), _mapping)
"""A mapping, carried as text."""


def one_of(*known: str) -> Part:
    """Return the part of a text that has one of these values."""

    def checked(value: str) -> str:
        if value not in known:
            raise InvalidInput(f"a message has {value!r}, which must be one of {', '.join(known)}")
        return value

    return Part(checked, checked)


class Codec(Generic[R, M]):
    """Between records of a type, NamedTuples or dataclasses, and messages.

    `parts`: of the fields that differ; for the others, the message has a field with the same name and value. `names`:
    a field's name in the message, if it differs. `leading`: the first fields of the record, which the caller carries
    separately. `unsent`: the number of the last fields, which no message has: they must have their defaults. `by_name`:
    for each other field, its name in the message, and its part.
    """

    def __init__(
        self,
        record: type[R],
        message: type[M],
        *,
        parts: Mapping[str, Part] | None = None,
        names: Mapping[str, str] | None = None,
        leading: int = 0,
        unsent: int = 0,
    ) -> None:
        self.record, self.message, self._leading = record, message, leading
        defaults, parts, names = _defaults(record), parts or {}, names or {}
        sent = len(defaults) - unsent
        self._unsent = tuple(defaults.values())[sent:]
        self._values = attrgetter(*defaults) if is_dataclass(record) else None
        self.by_name: dict[str, tuple[str, Part | None]] = {}
        self._carried: list[str] = []
        self._empty: list[object] = []
        self._parts: list[tuple[str, Convert]] = []
        self._contents: list[tuple[str, str]] = []
        """The fields of texts, and those of chunks in their places."""
        self._places: dict[object, tuple[int, Convert | None]] = {}
        self._absent: list[object] = []
        self._fresh: list[tuple[int, Callable[[], object]]] = []
        self._all: Callable[[M], tuple[object, ...]] | None = None
        """Returns all fields of a message, if the record has the same, each of them always."""
        for index, (name, default) in enumerate(list(defaults.items())[leading:sent]):
            part = parts.get(name)
            carried = names.get(name, name + (part.suffix if part else ""))
            field = message.DESCRIPTOR.fields_by_name.get(carried)
            if field is None:
                raise TypeError(f"{message.DESCRIPTOR.full_name} has no {carried} for {record.__name__}.{name}")
            self.by_name[name] = (carried, part)
            self._carried.append(carried)
            self._empty.append(None if field.has_presence else () if field.is_repeated else field.default_value)
            self._places[field] = (index, part.take if part else None)
            if (chunk := message.DESCRIPTOR.fields_by_name.get(carried + CHUNK)) is not None:
                self._places[chunk] = (index, None)
                self._contents.append((carried, chunk.name))
            absent = _absent(field, part) if default is MISSING else default
            self._absent.append(MISSING if callable(absent) else absent)
            if callable(absent):
                self._fresh.append((index, absent))
            if part:
                self._parts.append((carried, part.carry))
        same = self._values is None and not (leading or parts or self._contents) and len(self._carried) > 1
        described = [message.DESCRIPTOR.fields_by_name[name] for name in self._carried]
        if same and all(map(_plain, described, self._absent)):
            self._all = attrgetter(*self._carried)

    @property
    def one(self) -> Part:
        """The part of a field that has one such record."""
        return Part(self.fields, self.taken)

    def many(self, kind: Callable[[Iterable[R]], object] = tuple) -> Part:
        """Return the part of a field that has several such records."""
        return Part(lambda records: list(map(self.fields, records)), lambda messages: kind(map(self.taken, messages)))

    def fields(self, record: R) -> Fields:
        """Return the fields of the message for a record, as `build` takes them."""
        if self._all is not None and isinstance(record, tuple):
            return dict(zip(self._carried, record, strict=True))
        values: Any = record if self._values is None else self._values(record)
        if self._leading:
            values = values[self._leading :]
        if self._unsent:
            values, unsent = values[: -len(self._unsent)], values[-len(self._unsent) :]
            if unsent != self._unsent:
                raise InvalidInput(f"the protocol does not carry all of this {self.record.__name__}")
        # most fields of a job are empty, and each one that `build` gets takes time
        named = zip(self._carried, values, self._empty, strict=True)
        found = {name: value for name, value, empty in named if value is not empty}
        for name, carry in self._parts:
            if found.get(name) is not None:
                found[name] = carry(found[name])
        for name, chunk in self._contents:
            if isinstance(found.get(name), bytes):
                found[chunk] = found.pop(name)
        return found

    def taken(self, message: M, *leading: object) -> R:
        """Return the record in a message, with its leading fields. InvalidInput if a field has an impossible value."""
        if self._all is not None:
            return _make(self.record, self._all(message))
        values = self._absent.copy()
        for field, value in message.ListFields():
            place = self._places.get(field)
            if place is not None:
                index, take = place
                values[index] = value if take is None else take(value)
        for index, fresh in self._fresh:
            if values[index] is MISSING:
                values[index] = fresh()
        if self._values is None:
            return _make(self.record, (*leading, *values, *self._unsent))
        return self.record(*leading, *values)

    def to_message(self, record: R) -> M:
        """Return the message for a record. InvalidInput if it can't carry a value."""
        return build(self.message, self.fields(record))


def _defaults(record: Any) -> dict[str, object]:
    """Return the fields of a record with their defaults: MISSING without one, a callable for a new one each time."""
    if is_dataclass(record):
        return {
            one.name: one.default if one.default_factory is MISSING else one.default_factory for one in fields(record)
        }
    return {name: record._field_defaults.get(name, MISSING) for name in record._fields}


def _plain(field: FieldDescriptor, absent: object) -> bool:
    """Return whether a field is a number or text that is always present; `absent`: the record's value without it."""
    several = field.has_presence or field.is_repeated or field.message_type is not None
    return not several and absent == field.default_value


def _absent(field: FieldDescriptor, part: Part | None) -> object:
    """Return the value of an absent field without a default: zero or empty; a callable for a new one each time."""

    def refuse() -> object:
        raise InvalidInput(f"a message {field.full_name.split('.')[-2]} lacks {field.name}")

    if field.is_repeated:
        return (lambda: part.take(())) if part else (lambda: ())
    if field.message_type is not None:
        return None if field.message_type is pb.Value.DESCRIPTOR else refuse
    return (lambda: part.take(field.default_value)) if part else field.default_value
