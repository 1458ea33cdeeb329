"""UUIDs in Arrow become text, whatever type the driver gives them."""

from uuid import UUID, uuid4

import pyarrow as pa
import pytest

from stanchion.stores.sql.reading.arrow_ids import with_text_ids

NEWER = pa.uuid()
OLDER = pa.opaque(pa.binary(), "uuid", "PostgreSQL")


@pytest.fixture(params=[NEWER, OLDER], ids=["newer driver", "older driver"])
def kind(request: pytest.FixtureRequest) -> pa.DataType:
    found: pa.DataType = request.param
    return found


def in_text(given: list[UUID | None], kind: pa.BaseExtensionType, part: slice = slice(None)) -> list[str | None]:
    octets = pa.array([None if one is None else one.bytes for one in given], kind.storage_type)
    ids = pa.ExtensionArray.from_storage(kind, octets)
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(given))), ids], names=["n", "id"])
    found = with_text_ids(batch.slice(part.start or 0, None if part.stop is None else part.stop - (part.start or 0)))
    assert found.column("n").to_pylist() == list(range(len(given)))[part]
    assert found.column("id").type == pa.string()
    texts: list[str | None] = found.column("id").to_pylist()
    return texts


def test_as_python_writes_them(kind: pa.BaseExtensionType) -> None:
    ids = [UUID(int=0), UUID(int=2**128 - 1), *(uuid4() for _ in range(100))]
    assert in_text([*ids], kind) == [str(one) for one in ids]
    assert in_text([*ids], kind, slice(3, 9)) == [str(one) for one in ids[3:9]]


def test_those_that_are_null_stay_so(kind: pa.BaseExtensionType) -> None:
    one = uuid4()
    assert in_text([None, one, None], kind) == [None, str(one), None]
    assert in_text([None, one, None], kind, slice(1, 3)) == [str(one), None]
    assert in_text([None], kind) == [None]
    assert in_text([], kind) == []
