"""A part of a batch is read in few pages, and in short ones where payloads are large."""

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.memory.store import MemoryStore
from stanchion.stores.paging import pages_by_size
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.query import Query


@pytest.mark.parametrize(
    ("payloads", "sizes"),
    [
        (["1"] * 11, [2, 9]),
        (["1"] * 30, [2, 20, 8]),
        (["1"] * 2, [2]),
        ([], []),
        (["1" * 24] * 7, [2, 4, 1]),
        (["1" * 24] * 2 + ["1" * 299] * 3, [2, 3]),
        (["1" * 24, "1" * 24, "1" * 24, "1" * 99, "1" * 1000, "1" * 1000, "1" * 1000], [2, 4, 1]),
        (["1" * 1000] * 4, [2, 1, 1]),
    ],
)
def test_pages_fit_the_sizes_of_those_before(payloads: list[str], sizes: list[int]) -> None:
    store = MemoryStore()
    store.push([NewJob(new_id(), "q", payload) for payload in payloads])
    read = list(pages_by_size(store, Query("live", order="id", limit=2), 20, characters=100))
    assert [len(page) for page in read] == sizes
    assert [row.payload for page in read for row in page] == payloads
