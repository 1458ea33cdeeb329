"""Spark's types in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stanchion.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_PLAIN = frozenset({"boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "void"})
_MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})


def jsonable(kind: DataType, path: str) -> None:
    """Refuse a column that JSON can't represent. InvalidInput names the offending part by its path."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        for field in kind.fields:
            jsonable(field.dataType, f"{path}.{field.name}")
    elif isinstance(kind, ArrayType):
        jsonable(kind.elementType, f"{path}[]")
    elif isinstance(kind, MapType):
        if kind.keyType.simpleString() != "string":
            raise InvalidInput(f"the keys of {path} are of type {kind.keyType.simpleString()}; JSON has strings only")
        jsonable(kind.valueType, f"{path}[]")
    elif (name := kind.simpleString()).startswith("decimal"):
        raise InvalidInput(
            f"the column {path} is of type {name}, which has more digits than a number here; pass JSON made by "
            f"to_json() to keep them all, or cast it to string or double"
        )
    elif name not in _PLAIN and name not in _MOMENTS:
        raise InvalidInput(f"the column {path} is of type {name}, which JSON can't hold; cast it to string or double")
