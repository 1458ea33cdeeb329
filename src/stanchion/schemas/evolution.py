"""Evolution: which schemas may follow each other. Any release may add nullable fields; nothing else changes."""

from __future__ import annotations

from typing import NamedTuple

from stanchion.schemas.kinds import Array, Field, Kind, Map, Struct, quoted


class Refused(Exception):
    """The schemas don't go together. `path`: of the field; `why`: a clause about it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why


class _Pair(NamedTuple):
    """A field as it is stored and as it is declared; None: it is not there."""

    stored: Field | None
    declared: Field | None


def merged(stored: Struct, declared: Struct, path: str = "") -> Struct:
    """Return the stored fields, followed by newly declared ones. Raises Refused.

    Fields that are stored but not declared are kept: an older release declares fewer.
    """
    theirs = {field.name: field for field in declared.fields}
    known = {field.name for field in stored.fields}
    pairs = [_Pair(field, theirs.get(field.name)) for field in stored.fields]
    pairs += [_Pair(None, field) for field in declared.fields if field.name not in known]
    return Struct(tuple(_field(pair, path) for pair in pairs))


def covers(schema: Struct, other: Struct) -> bool:
    """Return whether a schema has all fields of another one, as that has them."""
    try:
        return merged(schema, other) == schema
    except Refused:
        return False


def _field(pair: _Pair, path: str) -> Field:
    stored, declared = pair
    if stored is None:
        assert declared is not None  # noqa: S101 - one of them is there
        if not declared.nullable:
            raise Refused(_at(path, declared), "is new and not null, but payloads in the queue don't have it")
        return declared
    if declared is None:
        if not stored.nullable:
            raise Refused(_at(path, stored), "is not null, and missing in the declaration")
        return stored
    here = _at(path, stored)
    if stored.nullable != declared.nullable:
        before, now = ("nullable", "not null") if stored.nullable else ("not null", "nullable")
        raise Refused(here, f"is {before}, and declared as {now}")
    return stored._replace(kind=_kind(stored.kind, declared.kind, here))


def _kind(stored: Kind, declared: Kind, path: str) -> Kind:
    if isinstance(stored, Struct) and isinstance(declared, Struct):
        return merged(stored, declared, path)
    if isinstance(stored, Array) and isinstance(declared, Array):
        return Array(_kind(stored.of, declared.of, f"{path}[]"))
    if isinstance(stored, Map) and isinstance(declared, Map):
        return Map(_kind(stored.of, declared.of, f"{path}[]"))
    if stored != declared or type(stored) is not type(declared):
        raise Refused(path, f"is {stored}, and declared as {declared}")
    return stored


def _at(path: str, field: Field) -> str:
    return f"{path}.{quoted(field.name)}" if path else quoted(field.name)
