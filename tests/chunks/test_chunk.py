"""What a chunk is to those who use it: a sequence, whose items have names."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass

import pyarrow as pa
import pytest

from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.cutting import cut, fitting
from stanchion.core.chunks.encoding import SMALL
from stanchion.core.values.codec import Codec, NotJson
from stanchion.core.values.framing import chunk_with, items_in
from stanchion.errors import InvalidInput
from tests.chunks.items import stored

FLIGHTS: list[object] = [{"flight": f"UA{n}", "miles": 100 * n} for n in range(10)]
MIXED: list[object] = [{"flight": f"UA{n}", **({"miles": n} if n % 2 else {})} for n in range(10)]


@pytest.fixture(params=[FLIGHTS, MIXED], ids=["columns", "json"])
def items(request: pytest.FixtureRequest) -> list[object]:
    found: list[object] = request.param
    return found


def test_a_chunk_is_a_sequence(items: list[object]) -> None:
    chunk = stored(Chunk.of(items))
    assert len(chunk) == 10
    assert [*chunk] == items
    assert (chunk[0], chunk[-1]) == (items[0], items[-1])
    assert [*chunk[2:4]] == items[2:4]
    assert [*chunk[::-3]] == items[::-3]
    assert [*chunk[7:2]] == []
    assert items[3] in chunk
    with pytest.raises(IndexError):
        chunk[10]
    with pytest.raises(IndexError):
        chunk.take([3, 10])
    assert repr(chunk) == "<Chunk of 10 items>"


@pytest.mark.parametrize("compressed", [False, True])
def test_only_large_columns_are_compressed(compressed: bool) -> None:
    text = "ab" * 100
    some: list[object] = [{"text": text} for _ in range(SMALL // len(text) * (2 if compressed else 1) - 10)]
    encoded = Chunk.of(some).encoded()
    assert (len(encoded) < 1000) is compressed
    assert [*Chunk.decoded(encoded)] == some


def test_chunks_are_equal_by_their_items(items: list[object]) -> None:
    chunk = Chunk.of(items)
    assert chunk == stored(chunk)
    assert chunk == chunk.rooted("job")
    assert chunk != chunk[:9]
    assert chunk != Chunk.of([*items[:9], None])
    assert chunk != items


def test_bytes_tell_the_items_and_are_kept(items: list[object]) -> None:
    encoded = Chunk.of(items).encoded()
    assert items_in(encoded) == 10
    assert Chunk.decoded(encoded).encoded() is encoded
    assert pickle.loads(pickle.dumps(Chunk.of(items))) == Chunk.of(items)  # noqa: S301


def test_names_last_through_parts_joins_and_storage(items: list[object]) -> None:
    pushed = stored(Chunk.of(items))
    assert (pushed.root, [*pushed.positions]) == (None, [*range(10)])
    assert pushed.names("a")[3] == "a/3"

    part = stored(stored(pushed.rooted("a").take([7, 2, 5]))[1:])
    assert (part.root, part.positions) == ("a", [2, 5])
    assert part.names("b") == ["a/2", "a/5"]
    assert part.rooted("b").root == "a"

    joined = stored(Chunk.joined([part, pushed.rooted("a")[8:]]))
    assert joined.names("c") == ["a/2", "a/5", "a/8", "a/9"]
    assert [*joined] == [items[n] for n in (2, 5, 8, 9)]
    assert joined.take(pa.array([3, 0])).names("d") == ["a/9", "a/2"]


def test_items_of_several_jobs_are_named_anew(items: list[object]) -> None:
    one, other = Chunk.of(items).rooted("a"), Chunk.of(items).rooted("b")
    joined = stored(Chunk.joined([one[5:], other[5:]]))
    assert (joined.root, [*joined.positions]) == (None, [*range(10)])
    assert [*joined] == items[5:] * 2


def test_names_can_be_given(items: list[object]) -> None:
    chunk = stored(Chunk.of(items[:3]).named("a", [4, 0, 9]))
    assert chunk.names("b") == ["a/4", "a/0", "a/9"]
    assert chunk.named(None).names("b") == ["b/0", "b/1", "b/2"]
    with pytest.raises(InvalidInput, match="2 positions for 3 items"):
        chunk.named("a", [1, 2])


def test_positions_are_stored_only_where_they_tell_something() -> None:
    chunk = Chunk.of(FLIGHTS).rooted("a")
    assert chunk[:5].content().positions is None
    assert chunk.named("a", range(10)).content().positions is None
    assert chunk.take([0, 1, 1, 3]).content().positions is not None
    assert chunk.take([0, 2, 1, 3]).content().positions is not None
    assert stored(chunk[:0]).positions == range(0)


def test_a_field_may_have_the_name_of_the_positions() -> None:
    items: list[object] = [{"position": "left", "form": 1}, {"position": "right", "form": 2}]
    part = stored(Chunk.of(items).rooted("a").take([1, 0]))
    assert [*part] == [items[1], items[0]]
    assert part.names("b") == ["a/1", "a/0"]


def test_a_table_of_items() -> None:
    assert Chunk.of(FLIGHTS).table().to_pylist() == FLIGHTS
    found = stored(Chunk.of(MIXED)).table()
    assert found.column_names == ["flight", "miles"]
    assert found.column("miles").to_pylist() == [None, 1, None, 3, None, 5, None, 7, None, 9]
    with pytest.raises(InvalidInput, match="no object"):
        Chunk.of([1, 2]).table()
    with pytest.raises(InvalidInput, match="'a' of the items has values of no common type"):
        Chunk.of([{"a": 1}, {"a": "x"}]).table()


def test_people_see_the_number_and_the_first_items(items: list[object]) -> None:
    assert stored(Chunk.of(items * 5)).to_dict() == {"items": 50, "first": (items * 5)[:20]}
    assert Chunk.of(items).to_dict(first=1) == {"items": 10, "first": items[:1]}


def test_the_text_of_a_single_item(items: list[object]) -> None:
    chunk = stored(Chunk.of(items))
    assert [chunk.text(n) for n in range(10)] == [Codec().encode(item) for item in items]


def test_models_become_plain_values() -> None:
    @dataclass
    class Flight:
        number: str
        miles: int

    assert [*stored(Chunk.of([Flight("UA1", 5)]))] == [{"number": "UA1", "miles": 5}]
    assert [*stored(Chunk.of([complex(1)], to_plain=lambda value: [value.real]))] == [[1.0]]


@pytest.mark.parametrize("body", [b"", b"not arrow", Chunk.of(FLIGHTS).encoded()[4:300]])
def test_other_bytes_are_no_chunk(body: bytes) -> None:
    with pytest.raises(NotJson, match="not a chunk, so another program has written them"):
        _ = Chunk.decoded(chunk_with(10, body)).values


def test_a_wrong_number_of_items_is_noticed() -> None:
    with pytest.raises(NotJson, match="they have 10 items, and 11 were announced"):
        _ = Chunk.decoded(chunk_with(11, Chunk.of(FLIGHTS).encoded()[4:])).values


def test_cutting_by_size() -> None:
    chunks = [*cut(iter(FLIGHTS), 4, 10_000)]
    assert [[*chunk] for chunk in chunks] == [FLIGHTS[:4], FLIGHTS[4:8], FLIGHTS[8:]]
    assert [chunk.names("a")[0] for chunk in chunks] == ["a/0"] * 3
    assert [*cut([], 4, 10_000)] == []


def test_cutting_reads_no_more_than_asked_for() -> None:
    numbers = iter(range(1_000_000))
    assert [*next(cut(numbers, 3, 10_000))] == [0, 1, 2]
    assert next(numbers) == 3


def test_cutting_by_bytes(items: list[object]) -> None:
    whole = len(Chunk.of(items).encoded())
    chunks = [*map(stored, cut(items, 100, whole - 1))]
    assert [[*chunk] for chunk in chunks] == [items[:5], items[5:]]
    assert [chunk.names("a")[0] for chunk in chunks] == ["a/0", "a/0"]
    assert [len(chunk) for chunk in cut(items, 100, whole)] == [10]
    assert [*map(len, cut(items, 100, 100))] == [1] * 10


def test_a_single_item_that_is_too_large() -> None:
    items = ["x", "y" * 5_000, "z"]
    with pytest.raises(InvalidInput) as alone:
        Codec(max_payload=2_000).encode(items[1])
    with pytest.raises(InvalidInput) as among:
        [*cut(items, 1, 2_000)]
    assert str(among.value) == str(alone.value)


def test_what_can_not_be_cut() -> None:
    for given in ("text", b"bytes", {"a": 1}, 5):
        with pytest.raises(InvalidInput, match="has no items for a chunk; pass an iterable"):
            cut(given, 10, 10_000)
    with pytest.raises(InvalidInput, match="size"):
        cut([1], 0, 10_000)


def test_parts_that_are_too_large_are_halved_and_keep_their_names(items: list[object]) -> None:
    part = Chunk.of(items).rooted("a")[2:]
    found = [*map(stored, fitting(part, len(part.encoded()) - 1))]
    assert [chunk.names("b") for chunk in found] == [[f"a/{n}" for n in range(2, 6)], [f"a/{n}" for n in range(6, 10)]]
    assert [*fitting(part[:1], 1)] == [part[:1]]
    assert [*map(len, fitting(part, 1))] == [1] * 8


def test_without_arrow_the_number_is_known_and_the_extra_named() -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from stanchion.core.chunks.chunk import Chunk\n"
        "from stanchion.core.chunks import cutting\n"
        "chunk = Chunk.decoded(bytes([0, 0, 0, 7]) + b'...')\n"
        "print(len(chunk), chunk)\n"
        "try:\n    chunk[0]\nexcept ImportError as error:\n    print(type(error).__name__, error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "7 <Chunk of 7 items>",
        "MissingExtra a job of many items needs an optional dependency: pip install 'stanchion[chunks]'",
    ]


def test_chunks_load_arrow_only_when_items_are_needed() -> None:
    program = (
        "import sys\nfrom stanchion.core.chunks import chunk, cutting\nprint('pyarrow' in sys.modules)\n"
        "chunk.Chunk.of([1])\nprint('pyarrow' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert ran.stdout.split() == ["False", "True"]


def test_chunks_are_gathered_if_their_root_and_columns_are_the_same() -> None:
    one, two = Chunk.of([{"n": 1}]).named("job", [7]), Chunk.of([{"n": 2}]).named("job", [3])
    (both,) = Chunk.gathered([one, two])
    assert (list(both), both.names("other")) == ([{"n": 1}, {"n": 2}], ["job/7", "job/3"])
    for other in (two.named("another", [3]), Chunk.of([{"m": 2}]).named("job", [3]), Chunk.of([2]).named("job", [3])):
        assert Chunk.gathered([one, other]) == [one, other]
    assert Chunk.gathered([Chunk.of([1]), Chunk.of([2])]) == [Chunk.of([1]), Chunk.of([2])]
    assert (Chunk.gathered([one]), Chunk.gathered([])) == ([one], [])
