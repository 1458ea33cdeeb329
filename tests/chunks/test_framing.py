"""The bytes around a chunk."""

from stanchion.core.values.framing import MAX_ITEMS, body_of, chunk_with, items_in


def test_a_chunk_tells_its_items_without_its_body() -> None:
    assert [items_in(chunk_with(count, b"...")) for count in (0, 1, 70_000, MAX_ITEMS)] == [0, 1, 70_000, MAX_ITEMS]
    assert items_in(chunk_with(3, b"")) == 3


def test_other_payloads_have_no_count() -> None:
    assert items_in('{"n": 1}') is None
    assert items_in("") is None
    assert items_in(None) is None


def test_the_body_is_what_was_given() -> None:
    assert bytes(body_of(chunk_with(2, b"\0\1body"))) == b"\0\1body"
