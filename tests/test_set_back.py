"""What was written before the database's clock was set back, by the rules; see the suite's TestClockSetBack."""

import pytest

from stanchion.stores.cas.entries import STALE, is_stale
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.rules.set_back import AHEAD, Watch, is_ahead

NOW = 1_000_000 * SECOND


@pytest.mark.parametrize(("at", "ahead"), [(None, False), (NOW, False), (NOW + AHEAD, False), (NOW + AHEAD + 1, True)])
def test_a_time_is_ahead_by_more_than_a_call_takes(at: int | None, ahead: bool) -> None:
    assert is_ahead(at, NOW) is ahead


@pytest.mark.parametrize(
    ("written_at", "stale"),
    [(NOW - STALE - 1, True), (NOW - STALE, False), (NOW, False), (NOW + AHEAD, False), (NOW + AHEAD + 1, True)],
)
def test_an_outbox_entry_from_the_future_is_stale(written_at: int, stale: bool) -> None:
    assert is_stale(written_at, NOW - STALE) is stale


def test_a_process_looks_at_first_and_once_the_clock_was_set_back() -> None:
    watch = Watch()
    readings = [NOW, NOW + SECOND, NOW, NOW - AHEAD, NOW - 2 * AHEAD - 1, NOW - 2 * AHEAD, NOW]
    assert [watch.set_back(now) for now in readings] == [True, False, False, False, True, False, False]
