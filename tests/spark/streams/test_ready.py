"""A stream that ends once it has read what is ready."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.errors import StoreUnavailable
from stanchion.stores.memory import MemoryStore
from stanchion.streams import StreamSource
from stanchion_conformance.streams.stream_driver import NAME, SOURCE, fill


def test_it_reads_all_where_the_jobs_are_too_many_to_be_counted_in_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    fill(store, 5)

    def count(*_: Any) -> Any:
        raise StoreUnavailable("the store did not answer in time")

    source = StreamSource(store, NAME, SOURCE)
    start = source.initial()
    with monkeypatch.context() as patch:
        patch.setattr(store, "stats", count)
        source.stop_after_ready()
    assert "too many to count" in caplog.text
    first = source.latest(start, 3)
    second = source.latest(first, 3)
    assert source.latest(second, 3) == second
    assert store.stats([SOURCE], ["totals"])[SOURCE].totals.committed == 5
