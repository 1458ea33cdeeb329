"""Payloads as Arrow structs: the fast way takes nothing that the check refuses, and gives what each row would give."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stanchion.schemas.ddl import struct_of
from stanchion.schemas.kinds import Field, Plain, Struct
from stanchion.schemas.misfits import Checker, Misfit
from stanchion.schemas.typed_columns import arrow_type
from stanchion.spark.datasource.reading.typed_arrow import parsed, structs
from tests.schemas.test_ddl import KINDS
from tests.schemas.test_ddl import structs as schemas
from tests.schemas.test_misfits import FITS, MISFITS


def row_by_row(struct: Struct, texts: list[str]) -> pa.StructArray | None:
    """Return the payloads as structs; None if one does not fit."""
    checker = Checker(struct)
    values = [checker.decoded(text) for text in texts]
    if any(isinstance(value, Misfit) or checker.value(value) is not None for value in values):
        return None
    return structs(struct, values)


def agree(struct: Struct, texts: list[str]) -> bool:
    """Compare both ways; return whether the fast one has an answer."""
    fast, slow = parsed(struct, pa.array(texts, pa.string())), row_by_row(struct, texts)
    if fast is None:
        return False
    assert slow is not None, "the fast way takes what does not fit"
    assert fast.type == slow.type == arrow_type(struct)
    assert fast.to_pylist() == slow.to_pylist()
    fast.validate(full=True)
    return True


VALUES = [(kind, value) for kind in FITS for value in (*FITS[kind], *MISFITS[kind])]


@pytest.mark.parametrize("wrapped", ["{}", "array<{}>", "struct<f:{}>"])
def test_both_ways_agree_on_single_values(wrapped: str) -> None:
    taken = set()
    for kind, value in VALUES:
        struct = struct_of(f"f {wrapped.format(kind)}, g {kind}")
        inside = {"{}": value, "array<{}>": f"[{value},{value}]", "struct<f:{}>": f'{{"f":{value}}}'}[wrapped]
        for text in (f'{{"f":{inside}}}', f'{{"f":{inside},"g":{value}}}', f'{{"f":null,"g":{value}}}'):
            if agree(struct, [text, "{}", text]):
                taken.add(kind)
    slow = {kind for kind in FITS if kind.startswith(("decimal", "map"))}
    lists = {"date", "timestamp", "timestamp_ntz", *(kind for kind in FITS if "<" in kind)}
    assert taken == FITS.keys() - slow - (lists if wrapped.startswith("array") else set())


@pytest.mark.parametrize(
    "texts",
    [
        ['{"f":1}{"f":2}', "{}"],
        ['{"f":1} '],
        ['{"f":1,"f":2}'],
        ['{"f":1}', '{"f":"}'],
        ["[1]"],
        ["null"],
        [""],
        ['{"f":1}\n'],
        ['{"f":1,"g":{}}'],
        ['{"f":01}'],
    ],
)
def test_odd_texts_are_looked_at(texts: list[str]) -> None:
    assert not agree(struct_of("f int"), texts)


def test_missing_fields_that_are_not_null_are_seen() -> None:
    struct = struct_of("f int not null, s struct<g:int not null,h:struct<i:int not null>>")
    for text in ("{}", '{"f":null}', '{"f":1,"s":{}}', '{"f":1,"s":{"g":1,"h":{}}}'):
        assert not agree(struct, ['{"f":1}', text])
    assert agree(struct, ['{"f":1}', '{"f":2,"s":null}', '{"f":3,"s":{"g":1}}', '{"f":4,"s":{"g":1,"h":{"i":2}}}'])


def json_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return values that often fit a type, and often do not."""
    anything = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3)
    if isinstance(kind, Struct):
        fields = {field.name: json_of(field.kind) for field in kind.fields}
        return st.fixed_dictionaries({}, optional=fields) | anything
    if isinstance(kind, Plain):
        fitting = [json.loads(value) for value in FITS[kind.name]]
        return st.sampled_from([*fitting, *fitting, None]) | anything
    inner = json_of(getattr(kind, "of", None)) if hasattr(kind, "of") else anything
    return st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2) | anything


@given(st.data(), schemas(KINDS))
@settings(max_examples=20, deadline=None)
def test_both_ways_agree_on_random_rows(data: st.DataObject, struct: Struct) -> None:
    rows = data.draw(st.lists(json_of(struct), min_size=1, max_size=3))
    texts = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
    if all(text.isprintable() for text in texts):
        agree(struct, texts)


def test_values_that_json_has_no_type_for() -> None:
    struct = struct_of("d decimal(20,2), m map<string,array<timestamp>>, t timestamp_ntz, b date, f float")
    text = '{"d":123456789012345678.10,"m":{"a":["2026-01-31T08:00:00+02:00",null]},"t":"2026-01-31T08:00:00.5","f":1}'
    found = row_by_row(struct, [text, "{}"])
    assert found is not None
    assert [str(found.field(n)[0]) for n in (0, 2, 4)] == ["123456789012345678.10", "2026-01-31 08:00:00.500000", "1.0"]
    assert str(found.field(1)[0][0][1][0]) == "2026-01-31 06:00:00+00:00"
    assert found[1].as_py() == dict.fromkeys(("d", "m", "t", "b", "f"))


def test_fields_have_the_order_of_the_schema() -> None:
    struct = Struct((Field("b", Plain("int")), Field("a", Plain("string"))))
    assert agree(struct, ['{"a":"x","b":1}', '{"b":2}'])
