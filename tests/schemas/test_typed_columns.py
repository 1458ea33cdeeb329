"""Chunks of items are checked by their columns: what a schema refuses of an item, it refuses of a chunk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stanchion import Stanchion
from stanchion.context.queues import schemas
from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import PayloadMisfit
from stanchion.schemas.ddl import struct_of
from stanchion.schemas.kinds import Struct
from stanchion.schemas.misfits import Checker
from stanchion.schemas.typed_columns import arrow_type, structs_of_columns
from stanchion.spark.datasource.reading.typed_arrow import structs
from tests.schemas.test_ddl import KINDS
from tests.schemas.test_ddl import structs as schemas_of
from tests.schemas.test_misfits import FITS, MISFITS


def agree(struct: Struct, items: list[Any]) -> bool:
    """Compare the columns of a chunk with its items; return whether the columns decide."""
    table = Chunk.decoded(Chunk.of(items).encoded()).columns()
    found = None if table is None else structs_of_columns(struct, table)
    if found is None:
        return False
    check = Checker(struct).value
    assert [misfit for item in items if (misfit := check(item)) is not None] == []
    assert found.type == arrow_type(struct)
    assert found.to_pylist() == structs(struct, items).to_pylist()
    found.validate(full=True)
    return True


@pytest.mark.parametrize("wrapped", ["{}", "array<{}>", "struct<f:{}>"])
def test_columns_and_items_agree_on_single_values(wrapped: str) -> None:
    taken = set()
    for kind in FITS:
        struct = struct_of(f"f {wrapped.format(kind)}, g {kind}")
        for text in (*FITS[kind], *MISFITS[kind]):
            try:
                value = json.loads(text)
                inside = {"{}": value, "array<{}>": [value, value], "struct<f:{}>": {"f": value}}[wrapped]
                for item in ({"f": inside}, {"f": inside, "g": value}, {"f": None, "g": value}):
                    if agree(struct, [item, item]):
                        taken.add(kind)
            except ValueError:  # it is no JSON, or no value of JSON
                continue
    slow = {kind for kind in FITS if kind.startswith(("decimal", "map"))}
    lists = {"date", "timestamp", "timestamp_ntz", *(kind for kind in FITS if "<" in kind)}
    assert taken >= FITS.keys() - slow - (lists if wrapped.startswith("array") else set())


@given(st.data(), schemas_of(KINDS))
@settings(max_examples=30, deadline=None)
def test_columns_and_items_agree_on_random_items(data: st.DataObject, struct: Struct) -> None:
    values = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    fields = {field.name: values | st.text(max_size=3) for field in struct.fields}
    items = data.draw(st.lists(st.fixed_dictionaries(fields), min_size=1, max_size=3))
    agree(struct, items)


@pytest.mark.parametrize(
    ("ddl", "item"),
    [
        ("a int not null", {"b": 1}),
        ("a int not null", {"a": None}),
        ("a int", {"a": 1, "b": 2}),
        ("a int", {"a": 2**31}),
        ("a string", {"a": 1}),
        ("a bigint", {"a": "1"}),
        ("a bigint", {"a": 1.0}),
        ("a double", {"a": 2**53 + 1}),
        ("a float", {"a": 1e39}),
        ("a date", {"a": "2026-02-30"}),
        ("a timestamp", {"a": "2026-02-03T00:00:00"}),
        ("a array<string>", {"a": [1]}),
        ("a struct<b:int not null>", {"a": {"b": None}}),
    ],
)
def test_columns_never_decide_for_a_misfit(ddl: str, item: dict[str, Any]) -> None:
    assert not agree(struct_of(ddl), [item, item])


@pytest.fixture
def app(tmp_path: Any) -> Iterator[Stanchion]:
    with Stanchion(f"sqlite:///{tmp_path}/jobs.db") as app:
        app.queue("etl.raw", schema="n int not null, at timestamp")
        yield app


class TestPushes:
    def test_chunks_that_fit_are_not_read_item_by_item(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[str | None] = []
        monkeypatch.setattr(schemas, "_misfit", lambda _, texts: seen.extend(texts))
        etl = app.pipeline("etl")
        etl.station("raw")(print)
        etl.push_chunks([{"n": n, "at": "2026-01-31T08:00:00+00:00"} for n in range(5)])
        assert seen == [None] * 5

    @pytest.mark.parametrize("odd", [{"n": None, "at": None}, {"n": 2**40, "at": None}, {"n": 1, "at": "soon"}])
    def test_the_item_that_does_not_fit_is_named(self, app: Stanchion, odd: dict[str, Any]) -> None:
        etl = app.pipeline("etl")
        etl.station("raw")(print)
        items = [{"n": n, "at": "2026-01-31T08:00:00+00:00"} for n in range(5)]
        with pytest.raises(PayloadMisfit, match="payload 4 of the batch"):
            etl.push_chunks([*items[:3], odd, *items[3:]])
        assert app.queue("etl.raw").size().total == 0
