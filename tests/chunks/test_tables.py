"""Tables of pyarrow, pandas, polars and others become chunks of plain JSON types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.content import Form
from stanchion.core.chunks.cutting import cut
from stanchion.core.chunks.frame_types import is_table
from stanchion.core.chunks.plain_columns import plain_values
from stanchion.errors import InvalidInput
from tests.chunks.items import exact, stored

NOON = dt.datetime(2026, 5, 1, 12)
ROWS: list[dict[str, Any]] = [
    {"n": 1, "x": 1.0, "text": "é", "yes": True, "gone": None},
    {"n": None, "x": None, "text": None, "yes": None, "gone": None},
    {"n": 2**53 + 1, "x": -2.5, "text": "", "yes": False, "gone": None},
]


class Speaking:
    """A table of another library."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class SpeakingArray:
    """One batch of another library."""

    def __init__(self, table: pa.Table) -> None:
        (self.batch,) = table.to_batches()

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.batch.__arrow_c_array__(requested_schema)


def as_polars(table: pa.Table) -> object:
    found: object = pytest.importorskip("polars").from_arrow(table)
    return found


NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.string(): pd.StringDtype(), pa.bool_(): pd.BooleanDtype()}

LIBRARIES = {
    "pyarrow": lambda table: table,
    "record batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(max_chunksize=2),
    "pandas": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas nullable": lambda table: table.to_pandas(types_mapper=NULLABLE.get),
    "pandas objects": lambda table: table.to_pandas(integer_object_nulls=True),
    "polars": as_polars,
    "stream": Speaking,
    "array": SpeakingArray,
}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Any:
    return LIBRARIES[request.param]


def typed(chunk: Chunk) -> Chunk:
    """Return the chunk as stored, which has typed columns."""
    found = stored(chunk)
    assert found.content().form is Form.COLUMNS
    return found


def test_rows_come_back(library: Any) -> None:
    table = library(pa.Table.from_pylist(ROWS).drop_columns(["x", "gone"]))
    assert is_table(table)
    want = [{name: row[name] for name in ("n", "text", "yes")} for row in ROWS]
    assert exact(typed(Chunk.of_table(table)).values) == exact(want)


def test_floats_and_nulls_come_back() -> None:
    for library in ("pyarrow", "polars"):
        table = LIBRARIES[library](pa.Table.from_pylist(ROWS))
        assert exact(typed(Chunk.of_table(table)).values) == exact(ROWS)


def test_times_become_iso_text(library: Any) -> None:
    table = pa.table({"day": [NOON.date()], "at": [NOON], "utc": [NOON.replace(tzinfo=dt.UTC)]})
    assert typed(Chunk.of_table(library(table))).values == [
        {"day": "2026-05-01", "at": "2026-05-01T12:00:00", "utc": "2026-05-01T12:00:00+00:00"}
    ]


def test_nested_values(library: Any) -> None:
    table = pa.table({"at": [{"x": 1, "tags": ["a"], "when": NOON}, {"x": 2, "tags": [], "when": None}]})
    assert stored(Chunk.of_table(library(table))).values == [
        {"at": {"x": 1, "tags": ["a"], "when": "2026-05-01T12:00:00"}},
        {"at": {"x": 2, "tags": [], "when": None}},
    ]


def test_tables_are_cut(library: Any) -> None:
    rows = [{"n": n, "text": "x" * n} for n in range(10)]
    table = pa.concat_tables([pa.Table.from_pylist(rows[:3]), pa.Table.from_pylist(rows[3:])]).combine_chunks()
    chunks = [*cut(library(table), 4, 10_000)]
    assert [typed(chunk).values for chunk in chunks] == [rows[:4], rows[4:8], rows[8:]]
    assert [chunk.names("a")[0] for chunk in chunks] == ["a/0"] * 3


def test_a_stream_is_read_as_chunks_are_asked_for() -> None:
    read = []

    def batches() -> Any:
        for n in range(100):
            read.append(n)
            yield pa.record_batch({"n": list(range(5 * n, 5 * n + 5))})

    reader = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), batches())
    chunks = cut(reader, 7, 10_000)
    assert [next(chunks).values[-1], next(chunks).values[-1]] == [{"n": 6}, {"n": 13}]
    assert len(read) <= 4
    assert sum(map(len, chunks)) == 500 - 14


@settings(deadline=None)
@given(
    st.lists(
        st.none()
        | st.datetimes()
        | st.datetimes().map(lambda at: at.replace(microsecond=0))
        | st.datetimes(dt.datetime(1969, 12, 31, 23), dt.datetime(1970, 1, 1, 1)),
        max_size=4,
    ),
    st.sampled_from(["us", "ms", "s"]),
)
def test_times_are_written_as_python_writes_them(moments: list[dt.datetime | None], unit: str) -> None:
    cut_to = {"us": 1, "ms": 1_000, "s": 1_000_000}[unit]
    moments = [at and at.replace(microsecond=at.microsecond // cut_to * cut_to) for at in moments]
    for zone, kind in ((None, pa.timestamp(unit)), (dt.UTC, pa.timestamp(unit, "UTC"))):
        given = [at and at.replace(tzinfo=zone) for at in moments]
        table = pa.table({"at": pa.array(given, kind)})
        assert Chunk.of_table(table).values == [{"at": at and at.isoformat()} for at in given]


def test_nanoseconds_are_written_as_pandas_writes_them() -> None:
    moments = [pd.Timestamp(text) for text in ("2026-05-01", "2026-05-01 12:00:00.5", "1960-05-01 12:00:00.000000001")]
    frame = pd.DataFrame({"at": moments})
    assert Chunk.of_table(frame).values == [{"at": at.isoformat()} for at in moments]
    assert Chunk.of_table(frame[:1]).values == [{"at": "2026-05-01T00:00:00"}]


def test_other_times() -> None:
    zone = ZoneInfo("Europe/Zurich")
    table = pa.table(
        {
            "local": pa.array([NOON.replace(tzinfo=zone)], pa.timestamp("us", "Europe/Zurich")),
            "time": pa.array([dt.time(1, 2, 3)]),
            "long ago": pa.array([dt.date(33, 4, 3)]),
            "date64": pa.array([NOON.date()], pa.date64()),
        }
    )
    assert typed(Chunk.of_table(table)).values == [
        {"local": "2026-05-01T12:00:00+02:00", "time": "01:02:03", "long ago": "0033-04-03", "date64": "2026-05-01"}
    ]
    with pytest.raises(InvalidInput, match="the column at has a value that JSON can't hold"):
        Chunk.of_table(pa.table({"at": pa.array([2**40], pa.timestamp("s"))}))


def test_types_that_are_stored_otherwise() -> None:
    table = pa.table(
        {
            "category": pa.array(["a", "b"]).dictionary_encode(),
            "large": pa.array(["a", "b"], pa.large_string()),
            "view": pa.array(["a", "b"], pa.string_view()),
            "small": pa.array([1, 2], pa.int8()),
            "unsigned": pa.array([1, 2**64 - 1], pa.uint64()),
            "single": pa.array([1.5, None], pa.float32()),
            "lists": pa.array([["a"], None], pa.large_list(pa.large_string())),
            "pair": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
            "days": pa.array([NOON.date(), None]).dictionary_encode(),
        }
    )
    chunk = typed(Chunk.of_table(table))
    assert chunk.values == [
        {"category": "a", "large": "a", "view": "a", "small": 1, "unsigned": 1, "single": 1.5, "lists": ["a"],
         "pair": [1, 2], "days": "2026-05-01"},
        {"category": "b", "large": "b", "view": "b", "small": 2, "unsigned": 2**64 - 1, "single": None, "lists": None,
         "pair": [3, 4], "days": None},
    ]  # fmt: skip
    kinds = dict(zip(chunk.table().column_names, chunk.table().schema.types, strict=True))
    assert {name: kinds[name] for name in ("category", "large", "view", "days")} == dict.fromkeys(
        ("category", "large", "view", "days"), pa.string()
    )


def test_maps_become_objects() -> None:
    maps = pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64()))
    assert stored(Chunk.of_table(pa.table({"n": [1, 2, 3], "by": maps}))).values == [
        {"n": 1, "by": {"a": 1}},
        {"n": 2, "by": {}},
        {"n": 3, "by": None},
    ]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            pa.array([Decimal("1.5")]),
            r"the column c is of type decimal128\(2, 1\), which has more digits than a number",
        ),
        (pa.array([b"x"]), "the column c is of type binary, which JSON can't hold; cast it"),
        (pa.array([dt.timedelta(1)]), "the column c is of type duration"),
        (pa.array([{"x": [b"x"]}]), r"the column c\.x\[\] is of type binary"),
        (pa.array([[(1, 1)]], pa.map_(pa.int64(), pa.int64())), "the keys of c are of type int64; JSON has strings"),
        (
            pa.array([1.0, float("nan")]),
            "the column c has NaN or infinite values, which JSON can't hold; make them null",
        ),
        (pa.array([[1.0, float("nan")]], pa.large_list(pa.float64())), r"the column c\[\] has NaN or infinite values"),
        (pa.array([{"x": [float("inf")]}]), r"the column c\.x\[\] has NaN or infinite values"),
    ],
)
def test_columns_that_json_can_not_hold(column: pa.Array, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Chunk.of_table(pa.table({"c": column}))


def test_what_is_no_table_of_rows() -> None:
    with pytest.raises(InvalidInput, match="is not a table of rows"):
        Chunk.of_table(pa.array([1, 2]))
    with pytest.raises(InvalidInput, match="is not a table of rows"):
        next(cut(pa.chunked_array([[1, 2]]), 10, 10_000))
    with pytest.raises(InvalidInput, match="two columns have the name 'a'; rename one"):
        Chunk.of_table(pa.table([[1], [2]], names=["a", "a"]))


def test_a_table_without_columns() -> None:
    empty = pa.Table.from_pylist([{"a": 1}, {"a": 2}]).drop_columns(["a"])
    assert stored(Chunk.of_table(empty)).values == [{}, {}]
    assert [*cut(pa.table({"a": []}), 10, 10_000)] == []
    assert stored(Chunk.of_table(pa.table({"a": []}))).values == []


def test_missing_values_of_pandas_are_null() -> None:
    frame = pd.DataFrame(
        {
            "x": [1.5, float("nan")],
            "arrow": pd.array(pa.array([float("nan"), None]), dtype=pd.ArrowDtype(pa.float64())),
            "text": ["a", None],
            "nullable": pd.array([1, None], dtype="Int64"),
            "at": [pd.Timestamp("2026-05-01"), pd.NaT],
            "kind": pd.Categorical(["a", None]),
            "object": pd.Series([pd.NA, 5], dtype=object),
        }
    )
    assert exact(typed(Chunk.of_table(frame)).values) == exact(
        [
            {
                "x": 1.5,
                "arrow": None,
                "text": "a",
                "nullable": 1,
                "at": "2026-05-01T00:00:00",
                "kind": "a",
                "object": None,
            },
            {"x": None, "arrow": None, "text": None, "nullable": None, "at": None, "kind": None, "object": 5},
        ]
    )


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ([1, 2.5], [1, 2.5]),
        ([1, "a"], [1, "a"]),
        ([{"x": 1}, {}], [{"x": 1}, {}]),
        ([[1], [2.5]], [[1], [2.5]]),
        ([dt.date(2026, 5, 1), None], ["2026-05-01", None]),
        ([True, None], [True, None]),
    ],
)
def test_objects_of_pandas_stay_as_they_are(values: list[object], want: list[object]) -> None:
    frame = pd.DataFrame({"n": [1, 2], "c": pd.Series(values, dtype=object)})
    assert exact(stored(Chunk.of_table(frame)).values) == exact([{"n": 1, "c": want[0]}, {"n": 2, "c": want[1]}])


def test_frames_that_would_lose_something() -> None:
    with pytest.raises(InvalidInput, match="the index 'flight' of the DataFrame would be lost; call reset_index"):
        Chunk.of_table(pd.DataFrame({"flight": ["a"], "n": [1]}).set_index("flight"))
    with pytest.raises(InvalidInput, match="the name of the column 0 is not a string; rename it"):
        Chunk.of_table(pd.DataFrame([[1, 2]]))
    with pytest.raises(InvalidInput, match="two columns have the name 'a'"):
        Chunk.of_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(InvalidInput, match="the column c is of type decimal"):
        Chunk.of_table(pd.DataFrame({"c": [Decimal("1.5")]}))
    with pytest.raises(InvalidInput, match="the DataFrame can't be converted by Arrow"):
        Chunk.of_table(pd.DataFrame({"c": [complex(1)]}))
    with pytest.raises(InvalidInput, match="can't be encoded as JSON"):
        Chunk.of_table(pd.DataFrame({"c": [complex(1), "a"]}))
    filtered = pd.DataFrame({"n": [1, 2, 3]})[1:]
    assert Chunk.of_table(filtered).values == [{"n": 2}, {"n": 3}]


def test_plain_values_of_a_column() -> None:
    kind = pa.struct([("when", pa.timestamp("us")), ("by", pa.map_(pa.string(), pa.date32()))])
    column = pa.array([{"when": NOON, "by": [("a", NOON.date()), ("b", None)]}, {"when": None, "by": None}, None], kind)
    assert plain_values(column) == [
        {"when": "2026-05-01T12:00:00", "by": {"a": "2026-05-01", "b": None}},
        {"when": None, "by": None},
        None,
    ]


def test_an_item_must_fit_by_itself_though_its_chunk_is_compressed() -> None:
    long = {"text": "x" * 500_000, "n": 1}
    whole = [{"text": "y", "n": 0}] * 5
    assert [len(one) for one in cut([*whole, long], 10, 600_000)] == [6]
    for items in ([*whole, long], [*whole, {"text": [long["text"]], "n": 1}], [*whole, long["text"]]):
        with pytest.raises(InvalidInput, match=r"takes 500,0.. bytes, more than the limit"):
            list(cut(items, 10, 500_000))
    with pytest.raises(InvalidInput, match=r"takes 300,0.. bytes"):
        list(cut([{"text": "\x01" * 50_000}] * 2, 10, 290_000))
