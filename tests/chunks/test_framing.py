"""The bytes around a chunk."""

import sys
from base64 import b64encode
from collections.abc import Iterator

import pytest

from stanchion.core.values import framing
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


@pytest.fixture(params=["pybase64", "binascii"])
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Encode by one of the two codecs of Base64."""
    if request.param == "binascii":
        monkeypatch.setitem(sys.modules, "pybase64", None)
    framing._base64.cache_clear()
    yield
    framing._base64.cache_clear()


@pytest.mark.usefixtures("codec")
@pytest.mark.parametrize("chunk", [b"", b"\x00", b"\xff\xfe\xfd", bytes(range(256)) * 7])
def test_a_chunk_as_text_is_read_back(chunk: bytes) -> None:
    assert framing.as_text(chunk) == "~" + b64encode(chunk).decode()
    assert framing.as_content(framing.as_text(chunk)) == chunk


@pytest.mark.usefixtures("codec")
@pytest.mark.parametrize("text", ["~", "~AAA", "~A*AA", "~AAAA\n", "~é", '{"a": "~AAAA"}', ""])
def test_other_text_is_itself(text: str) -> None:
    assert framing.as_content(text) == (b"" if text == "~" else text)
