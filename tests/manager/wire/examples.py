"""Strange values for the records, made from the types of their fields and of those of the messages."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from stanchion.core.values.framing import chunk_with
from stanchion.stores.records.jobs import Lease
from stanchion.stores.records.outcomes import Commit, Pass
from stanchion.stores.records.query import Page
from stanchion.stores.records.slots import Slot
from stanchion.stores.wire import jobs, outcomes, store, values
from stanchion.stores.wire.codec import SECONDS, Codec

MODULES = (jobs, outcomes, store, values)

TEXTS = st.one_of(
    st.sampled_from(["", " ", "a\0b", "😀", "e\u0301", "\ufeff", "%s", "'; --", "Ä ", "\n", "\u202e", "\U0010ffff"]),
    st.text(max_size=20),
)
"""All that is UTF-8, NUL included."""

NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value or 0.0)

MOMENTS = st.integers(-(2**51), 2**51).map(lambda micros: micros / 1_000_000)
"""Seconds that are whole microseconds, up to some 70 years; beyond that, a float has no more of these."""


@cache
def codecs() -> dict[type, Codec[Any, Any]]:
    """Return the codecs of all records, by these."""
    return {one.record: one for one in _codecs()}


def _codecs() -> Iterator[Codec[Any, Any]]:
    for module in MODULES:
        for value in vars(module).values():
            several = value.values() if isinstance(value, dict) else [value]
            yield from (one for one in several if isinstance(one, Codec))


def plain(value: Any) -> Any:
    """Return what equals that of another value only if all types are equal, too, and all fields of dataclasses."""
    if is_dataclass(value):
        return type(value), [plain(getattr(value, one.name)) for one in fields(value)]
    if isinstance(value, (tuple, list)):
        return type(value), [plain(one) for one in value]
    return type(value), value


@cache
def records(kind: type) -> st.SearchStrategy[Any]:
    """Return all records of a type."""
    codec = codecs()[kind]
    given = {
        name: st.just(()) if name == "rows" and kind in (Page, Commit) else _values(hint, codec, name)
        for name, hint in get_type_hints(kind).items()
        if name in codec.by_name or hint is Lease or kind is Commit
    }
    made = st.builds(kind, **given)
    return made.map(under_one_lease) if kind is Pass else made


def under_one_lease(outcome: Pass) -> Pass:
    """Return the outcome with its own lease for the end in the last queue, as the port has it."""
    return outcome._replace(then=outcome.then._replace(lease=outcome.lease))


def _values(hint: Any, codec: Codec[Any, Any], field: str = "") -> st.SearchStrategy[Any]:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of(*(_values(one, codec, field) for one in args))
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple and args[1:] != (...,):
        return st.tuples(*(_values(one, codec) for one in args))
    if origin in (tuple, list, frozenset, Sequence):
        kind = tuple if origin is Sequence else origin
        return st.lists(_values(args[0], codec), max_size=3).map(kind)
    if origin is Mapping:
        return st.dictionaries(TEXTS, st.none() | TEXTS | NUMBERS | st.booleans() | st.integers(), max_size=3)
    return _single(hint, codec, field)


def _single(hint: Any, codec: Codec[Any, Any], field: str) -> st.SearchStrategy[Any]:
    if hint is Any:
        return SINGLE | st.lists(SINGLE, max_size=3).map(tuple)
    if hint is int:
        return _whole(codec, field)
    if hint is float:
        return MOMENTS if codec.by_name[field][1] is SECONDS else NUMBERS
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    assert is_dataclass(hint) or issubclass(hint, tuple), f"no strange values for {codec.record.__name__}.{field}"
    return records(hint)


def _whole(codec: Codec[Any, Any], field: str) -> st.SearchStrategy[int]:
    """Return the whole numbers that a field carries; those in lists are small."""
    bits = 31
    if field:
        described = codec.message.DESCRIPTOR.fields_by_name[codec.by_name[field][0]]
        bits = 63 if described.cpp_type == described.CPPTYPE_INT64 else 31
    most = 2**bits - 1
    return st.one_of(st.sampled_from([0, 1, -1, most, -most - 1]), st.integers(-most - 1, most))


CHUNKS = st.one_of(st.sampled_from([chunk_with(1, b""), chunk_with(2**31 - 1, b"\xff\0{}")]), st.binary(min_size=4))
"""The bytes of chunks, which are no UTF-8."""

_SIMPLE: Mapping[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    bytes: CHUNKS,
    bool: st.booleans(),
    type(None): st.none(),
}

SINGLE = st.one_of(
    *(st.none(), st.booleans(), TEXTS, CHUNKS, st.integers(-(2**63), 2**63 - 1), NUMBERS),
    st.builds(Slot, TEXTS, TEXTS, TEXTS),
)
"""Single values of conditions and of columns."""
