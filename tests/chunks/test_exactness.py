"""Items come back as they were: `1` stays `1`, a missing field stays missing."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.content import Form
from stanchion.errors import InvalidInput
from tests.chunks.items import ITEMS, exact, stored


@settings(deadline=None)
@given(ITEMS)
def test_items_come_back_as_they_were(items: list[object]) -> None:
    chunk = stored(Chunk.of(items))
    assert len(chunk) == len(items)
    assert exact(chunk.values) == exact(items)
    assert exact([chunk[n] for n in range(len(items))]) == exact(items)
    assert exact([stored(Chunk.of(items))[n] for n in range(len(items))]) == exact(items)


@pytest.mark.nightly
@settings(max_examples=5_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(ITEMS)
def test_many_items_come_back_as_they_were(items: list[object]) -> None:
    assert exact(stored(Chunk.of(items)).values) == exact(items)


@settings(deadline=None)
@given(ITEMS)
def test_their_json_is_the_json_of_each_item(items: list[object]) -> None:
    chunk = stored(Chunk.of(items))
    assert chunk.texts().to_pylist() == [chunk.text(n) for n in range(len(items))]


@pytest.mark.parametrize("least", [1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("most", [1e9, 9_999_999_999.9, 1e10, 1e16])
def test_the_json_of_floats_is_the_one_of_python(least: float, most: float) -> None:
    items = [{"f": value} for value in (0.0, -0.0, 1.0, -1e4, 1 / 3, least, most, -most, 123456.75, None)]
    assert Chunk.of(items).texts().to_pylist() == [Chunk.of(items).text(n) for n in range(len(items))]


def test_their_json_is_compact_and_escaped() -> None:
    items = [
        {"a": 'q"\\n\n\x01é', "n": 1, "f": 1e16, "s": {"b": None, "t": True}, "l": [1.0, None]},
        {"a": None, "n": -(2**63), "f": 0.1, "s": None, "l": None},
    ]
    expected = [
        '{"a":"q\\"\\\\n\\n\\u0001é","n":1,"f":1e+16,"s":{"b":null,"t":true},"l":[1.0,null]}',
        '{"a":null,"n":-9223372036854775808,"f":0.1,"s":null,"l":null}',
    ]
    assert stored(Chunk.of(items)).texts().to_pylist() == expected
    assert Chunk.of([{"é\n": 1}] * 2).texts().to_pylist() == ['{"é\\n":1}'] * 2


@settings(deadline=None)
@given(ITEMS, st.data())
def test_parts_have_the_items_they_were_cut_from(items: list[object], data: st.DataObject) -> None:
    whole = stored(Chunk.of(items)).rooted("job")
    places = st.integers(0, len(items))
    start, stop = data.draw(places), data.draw(places)
    assert exact(stored(whole[start:stop]).values) == exact(items[start:stop])
    if items:
        indices = data.draw(st.lists(st.integers(0, len(items) - 1), max_size=5))
        part = stored(whole.take(indices))
        assert exact(part.values) == exact([items[n] for n in indices])
        assert (list(part.positions), part.root) == (indices, "job")


@settings(deadline=None)
@example([{"a": {"x": 1}}], [{"a": {"y": 2}}])  # Arrow would merge the fields of both
@given(ITEMS, ITEMS)
def test_joined_chunks_have_the_items_of_all(first: list[object], second: list[object]) -> None:
    joined = stored(Chunk.joined([stored(Chunk.of(first)), Chunk.of(second)]))
    assert exact(joined.values) == exact([*first, *second])


@pytest.mark.parametrize(
    "items",
    [
        [
            {"a": 1, "b": "x", "c": 1.5, "d": True, "e": None},
            {"a": 2**63 - 1, "b": None, "c": None, "d": None, "e": None},
        ],
        [{"at": {"x": 1.5, "y": [1, 2]}}, {"at": {"x": 2.0, "y": []}}],
        [{"at": {"x": {"y": 1}}}, {"at": None}, {"at": {"x": None}}],
        [{"a": [[1], None, []]}, {"a": None}, {"a": [[2, None]]}, {"a": []}],
        [{"a": [{"x": 1}, {"x": 2}]}, {"a": []}],
    ],
)
def test_columns_where_they_are_exact(items: list[object]) -> None:
    chunk = stored(Chunk.of(items))
    assert chunk.content().form is Form.COLUMNS
    assert exact(chunk.values) == exact(items)


@pytest.mark.parametrize(
    "items",
    [
        [{"a": 1}, {"a": 1, "b": 5}],  # a field that the first item lacks
        [{"a": 1, "b": 5}, {"a": 1}],
        [{"a": 1, "b": 5}, {"a": 1, "c": 5}],
        [{"a": 1}, {"a": 2.5}],
        [{"a": 2**53 + 1}, {"a": 0.5}],
        [{"a": 1}, {"a": True}],
        [{"a": 1}, {"a": "x"}],
        [{"a": 2**63}],
        [{"a": 2**64}],
        [{"a": {"x": 1}}, {"a": {}}],
        [{"a": {}}, {"a": {}}],
        [{"a": {"x": 1}}, {"a": {"y": 1}}],
        [{"a": {"x": 1}}, {"a": {"x": 2.5}}],
        [{"a": {"x": 1}}, {"a": [1]}],
        [{"a": [1]}, {"a": 1}],
        [{"a": [1]}, {"a": [2.5]}],
        [{"a": [{"x": 1}, {"y": 1}]}],
        [{}],
        [{}, {"a": 1}],
        [None],
        [1, 2.0, None, True],
        ["a", "b,c", 'd"'],
        [[1], [2]],
        [{"a": 1}, None],
        [],
    ],
)
def test_json_where_columns_would_change_items(items: list[object]) -> None:
    chunk = stored(Chunk.of(items))
    assert chunk.content().form is Form.JSON
    assert exact(chunk.values) == exact(items)


def test_deep_values() -> None:
    deep: object = 1
    for _ in range(80):  # Arrow's streams allow 64 levels
        deep = [deep]
    items: list[object] = [{"a": deep}, {"a": deep}]
    assert exact(stored(Chunk.of(items)).values) == exact(items)


@pytest.mark.parametrize(
    "item",
    [
        {"a": float("nan")},
        {"a": [float("inf")]},
        {1: "a"},
        {"a": {2: "b"}},
        {"a": b"bytes"},
        {"a": {b"b": 1}},
        {"a": {1, 2}},
        {"a": "\ud800"},
        {"\ud800": 1},
        float("nan"),
        "\ud800",
    ],
)
@pytest.mark.parametrize("number", [1, 3])
def test_what_json_can_not_hold_is_refused(item: object, number: int) -> None:
    with pytest.raises(InvalidInput, match=r"JSON|not a string"):
        Chunk.of([item] * number)


def test_the_items_of_one_chunk_are_compressed_together() -> None:
    """A record batch for each piece would take twenty times the bytes: parts of parts would outgrow the limit."""
    items: list[object] = [{"flight": f"UA{n}", "miles": n} for n in range(3_000)]
    whole = Chunk.of(items).rooted("job")
    joined = Chunk.joined([whole[n : n + 1] for n in range(len(items))])
    assert joined == whole
    assert len(joined.encoded()) < 1.1 * len(whole.encoded())
