"""The types of fields, as Spark names them, and the schema that is made of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

PLAIN = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string"),
    *("date", "timestamp", "timestamp_ntz"),
)
"""The types without parameters."""

MOST_DIGITS = 38
"""Digits of a decimal at most."""


class Plain(NamedTuple):
    """A type without parameters, one of PLAIN."""

    name: str

    def __str__(self) -> str:
        return self.name


class Decimals(NamedTuple):
    """Numbers of up to `precision` decimal digits, `scale` of them behind the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


class Array(NamedTuple):
    """A list; its elements may be null."""

    of: Kind

    def __str__(self) -> str:
        return f"array<{self.of}>"


class Map(NamedTuple):
    """An object with any keys; its values may be null."""

    of: Kind

    def __str__(self) -> str:
        return f"map<string,{self.of}>"


class Field(NamedTuple):
    """A field of an object. `nullable`: it may be missing or null, which is the same."""

    name: str
    kind: Kind
    nullable: bool = True

    def as_ddl(self, separator: str) -> str:
        """Return the field in DDL."""
        return f"{quoted(self.name)}{separator}{self.kind}{'' if self.nullable else ' NOT NULL'}"


class Struct(NamedTuple):
    """An object with these fields and no others."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(field.as_ddl(':') for field in self.fields)}>"


Kind = Plain | Decimals | Array | Map | Struct


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of the payloads of a queue. `version`: the number of the change that put it in force; 0: none did."""

    struct: Struct
    version: int = 0

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields, in order."""
        return self.struct.fields

    @property
    def ddl(self) -> str:
        """The schema in DDL, as it is stored."""
        return ", ".join(field.as_ddl(" ") for field in self.fields)

    def __str__(self) -> str:
        return self.ddl


_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


def quoted(name: str) -> str:
    """Return the name of a field in DDL."""
    return name if _SIMPLE(name) else f"`{name.replace('`', '``')}`"
