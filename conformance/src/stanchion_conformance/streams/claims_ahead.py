"""Streams that claim the next batch while the current one is processed."""

from __future__ import annotations

import random
import sys
import time
from contextlib import suppress
from typing import Any, cast

import pytest

from stanchion.core.ids import new_id
from stanchion.core.spark_errors import StreamTaken
from stanchion.errors import StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import NewJob
from stanchion.streams import Position, StreamSource, ahead
from stanchion.streams.sink import rows
from stanchion.streams.state import has_unnumbered, known
from stanchion_conformance.harness import StoreClock, ids_reserved, sizes_of
from stanchion_conformance.streams.stream_driver import (
    NAME,
    SOURCE,
    TARGET,
    Died,
    Driver,
    Log,
    Mortal,
    Pausing,
    fill,
    nothing_left,
    outputs,
    work_to_the_end,
)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims begin with the batch before theirs, however quick they are."""
    monkeypatch.setattr(ahead, "QUICK", -1.0)
    monkeypatch.setattr(ahead, "EARLY", sys.float_info.max)


class Counting:
    """A store that counts the claims."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.claims = 0

    def __getattr__(self, name: str) -> Any:
        self.claims += name == "claim"
        return getattr(self._store, name)


class Reading:
    """A driver that reads batches of three."""

    def __init__(self, store: Any) -> None:
        self.store = cast("Store", store)
        self.source = StreamSource(self.store, NAME, SOURCE)
        self.place = self.source.initial()

    def next(self) -> list[str]:
        """Finish the batch before, and read the next one."""
        start, self.place = self.place, self.source.latest(self.place, 3)
        return self.batch(start)

    def batch(self, start: Position) -> list[str]:
        return [str(row.payload) for part in self.source.parts(start, self.place, 2) for row in rows(self.store, part)]

    def is_ahead(self) -> bool:
        """Wait until the next batch is claimed."""
        deadline = time.monotonic() + 60
        while not has_unnumbered(self.store, known(self.store, NAME)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return True


@pytest.mark.usefixtures("eager")
class TestClaimsAhead:
    def test_the_next_batch_is_reserved_before_the_current_one_ends(self, store: Store) -> None:
        fill(store, 9)
        reading = Reading(store)
        assert [reading.next(), reading.next()] == [["0", "1", "2"], ["3", "4", "5"]]
        assert reading.is_ahead()
        assert sizes_of(store, SOURCE).running == 6
        store.push([NewJob(new_id(), SOURCE, '"urgent"', priority=9)])
        assert [reading.next() for _ in range(3)] == [["6", "7", "8"], ['"urgent"'], []]
        assert nothing_left(store)

    def test_a_new_driver_gives_it_back(self, store: Store) -> None:
        fill(store, 9)
        reading = Reading(store)
        assert [len(reading.next()) for _ in range(2)] == [3, 3]
        assert reading.is_ahead()
        other = Reading(store)
        assert sizes_of(store, SOURCE).running == 3
        with pytest.raises(StreamTaken):
            reading.next()
        assert [other.next() for _ in range(3)] == [["3", "4", "5"], ["6", "7", "8"], []]
        assert nothing_left(store)

    def test_one_claimed_after_another_driver_has_come_goes_back(self, store: Store) -> None:
        fill(store, 9)
        pausing = Pausing(store, "claim")
        reading = Reading(pausing)
        reading.next()
        start, reading.place = reading.place, reading.source.latest(reading.place, 3)
        token = known(store, NAME).next_token
        others: list[Reading] = []
        pausing.hold_up("claim", lambda: others.append(Reading(store)))
        reading.batch(start)
        with pytest.raises(StreamTaken):
            reading.next()
        assert ids_reserved(store, SOURCE, token) == []
        assert [others[0].next() for _ in range(3)] == [["3", "4", "5"], ["6", "7", "8"], []]

    def test_a_claim_that_fails_is_made_when_its_batch_is_needed(self, store: Store) -> None:
        fill(store, 9)
        pausing = Pausing(store, "claim")
        reading = Reading(pausing)
        reading.next()
        start, reading.place = reading.place, reading.source.latest(reading.place, 3)
        pausing.hold_up("claim", _unavailable)
        assert reading.batch(start) == ["3", "4", "5"]
        assert reading.next() == ["6", "7", "8"]

    def test_none_is_claimed_behind_a_batch_that_is_not_full(self, store: Store) -> None:
        fill(store, 5)
        counting = Counting(store)
        reading = Reading(counting)
        assert [reading.next() for _ in range(3)] == [["0", "1", "2"], ["3", "4"], []]
        assert counting.claims == 3

    def test_none_is_claimed_behind_the_last_batch_of_a_run(self, store: Store) -> None:
        fill(store, 6)
        counting = Counting(store)
        reading = Reading(counting)
        reading.source.stop_after_ready()
        fill(store, 3)
        assert [reading.next() for _ in range(3)] == [["0", "1", "2"], ["3", "4", "5"], []]
        assert counting.claims == 2
        assert sizes_of(store, SOURCE).ready == 3

    def test_a_whole_queue_goes_through(self, store: Store, mode: str) -> None:
        fill(store, 30)
        counting = Counting(store)
        Driver(cast("Store", counting), Log(), mode, limit=4).work()
        assert outputs(store) == list(range(30))
        assert nothing_left(store)
        assert counting.claims == 9 + 6  # 9 batches, with the empty one; ahead, behind the second to the seventh

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_nothing_is_lost_or_doubled_by_deaths(
        self, store: Store, mode: str, clock: StoreClock, after: bool
    ) -> None:
        for dies_at in random.sample(range(1, 75), 6):
            store.drop_queue(SOURCE)
            store.drop_queue(TARGET)
            for value in store.values("stream"):
                store.compare_and_set("stream", value.name, None, value.version)
            fill(store, 6)
            log, mortal = Log(), Mortal(store, dies_at, after=after)
            with suppress(Died):
                Driver(cast("Store", mortal), log, mode, limit=2).work()
            work_to_the_end(store, log, mode, clock)
            assert (dies_at, outputs(store)) == (dies_at, list(range(6)))
            assert nothing_left(store)


def _unavailable() -> None:
    raise StoreUnavailable("the store did not answer in time")
