"""What `stanchion copy` is made of, on stores that fail and meddle at chosen calls."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from stanchion.copying.guard import CopyRefused, Guard
from stanchion.copying.transfer import Transfer, Watcher
from stanchion.core.ids import new_id
from stanchion.errors import StoreUnavailable
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRef, JobState, NewJob
from stanchion.stores.records.outcomes import Bury, Commit, Rollback
from stanchion.stores.records.query import Page, Query
from stanchion.stores.records.workers import WorkerRow
from tests.cli.test_copy import rows


class Meddler:
    """A store that does something else on the way to one of its verbs, once."""

    def __init__(self, store: Store, verb: str, instead: Callable[..., Any]) -> None:
        self._store, self._verb, self._instead = store, verb, instead

    def __getattr__(self, name: str) -> Any:
        if name != self._verb:
            return getattr(self._store, name)
        self._verb = ""
        return self._instead


class Always(Meddler):
    """A store that does something else in place of one of its verbs."""

    def __getattr__(self, name: str) -> Any:
        return self._instead if name == self._verb else getattr(self._store, name)


def meddled(store: Store, verb: str, instead: Callable[..., Any]) -> Store:
    return cast(Store, Meddler(store, verb, instead))


def transfer(source: Store, destination: Store, **options: Any) -> Transfer:
    return Transfer(source, destination, ["q"], **{"settle": 0, "heartbeat": 0.1, "wait": 0, **options})


@pytest.fixture
def here() -> MemoryStore:
    """A source with five jobs, whose queue keeps no history."""
    store = MemoryStore()
    store.configure("q", {"history_ttl": 0.0})
    store.push([NewJob(new_id(), "q", json.dumps(n)) for n in range(5)])
    return store


@pytest.fixture
def elsewhere() -> MemoryStore:
    return MemoryStore()


def finish_all(store: Store) -> list[str]:
    """Do all jobs; return their payloads."""
    store.clock_offset += 1  # a job that was rolled back elsewhere is due by another clock
    token = new_id()
    claimed = store.claim(Claim("q", 100, token)).rows
    store.settle([Commit(row.lease) for row in claimed])
    return sorted(str(row.payload) for row in claimed)


ALL = ["0", "1", "2", "3", "4"]


class TestBroken:
    @pytest.mark.parametrize("side", ["source", "destination"])
    @pytest.mark.parametrize("verb", ["configure", "select", "adopt", "delete", "stats", "beat", "workers"])
    @pytest.mark.parametrize("done", [True, False])
    def test_after_any_call_the_next_copy_goes_on(
        self, here: MemoryStore, elsewhere: MemoryStore, side: str, verb: str, done: bool
    ) -> None:
        stores: dict[str, Store] = {"source": here, "destination": elsewhere}
        store = stores[side]

        def fail(*args: Any) -> None:
            if done:
                getattr(store, verb)(*args)
            raise StoreUnavailable("gone")

        stores[side] = meddled(store, verb, fail)
        used = (side, verb) not in {("source", "adopt"), ("destination", "select"), ("destination", "stats")}
        if used and (side, verb) != ("destination", "delete"):
            with pytest.raises(StoreUnavailable):
                transfer(*stores.values()).run()
        assert transfer(here, elsewhere).run()[0].resumed
        assert finish_all(elsewhere) == ALL
        assert rows(here) == {}

    def test_what_somebody_else_has_deleted_is_in_the_destination(
        self, here: MemoryStore, elsewhere: MemoryStore
    ) -> None:
        def twice(refs: Sequence[JobRef]) -> list[bool]:
            here.delete(refs)
            return here.delete(refs)

        (copied,) = transfer(meddled(here, "delete", twice), elsewhere).run()
        assert (copied.live, copied.resumed) == (5, True)
        assert finish_all(elsewhere) == ALL

    def test_a_job_that_the_source_hands_out_after_all_stays_there(
        self, here: MemoryStore, elsewhere: MemoryStore
    ) -> None:
        token = new_id()

        def after_a_claim(refs: Sequence[JobRef]) -> list[bool]:
            here.configure("q", {"paused": False})
            here.claim(Claim("q", 1, token))
            here.configure("q", {"paused": True})
            return here.delete(refs)

        (copied,) = transfer(meddled(here, "delete", after_a_claim), elsewhere).run()
        assert copied.live == 4
        (running,) = rows(here).values()
        assert len(rows(elsewhere)) == 4
        here.settle([Rollback(running.lease, 0.0)])
        transfer(here, elsewhere).run()
        assert finish_all(elsewhere) == ALL

    def test_dead_jobs_that_are_kept_go_with_history(self, here: MemoryStore, elsewhere: MemoryStore) -> None:
        here.configure("q", {"history_ttl": 60.0})
        (row,) = here.claim(Claim("q", 1, "t")).rows
        here.settle([Bury(row.lease, "broken")])
        (copied,) = transfer(here, elsewhere, history=True).run()
        assert (copied.live, copied.history) == (4, 1)
        assert elsewhere.fetch([row.id])[row.id].state == JobState.DEAD

    def test_a_dead_job_that_is_retried_meanwhile_stays(self, here: MemoryStore, elsewhere: MemoryStore) -> None:
        here.configure("q", {"history_ttl": 60.0})
        (row,) = here.claim(Claim("q", 1, "t")).rows
        here.settle([Bury(row.lease, "broken")])

        def after_a_retry(refs: Sequence[JobRef]) -> list[bool]:
            if row.id not in [ref.id for ref in refs]:
                return here.delete(refs)
            here.retry([row.id])
            return here.delete(refs)

        source = cast(Store, Always(here, "delete", after_a_retry))
        (copied,) = transfer(source, elsewhere, history=True).run()
        assert (copied.live, copied.history) == (4, 0)
        assert list(rows(here)) == [row.id]
        assert len(rows(elsewhere)) == 4


class Standing(Watcher):
    """Remembers whom it stood by."""

    def __init__(self) -> None:
        self.rivals: list[WorkerRow] = []

    def standing_by(self, rival: WorkerRow) -> None:
        self.rivals.append(rival)


class TestOneAtATime:
    def test_the_second_is_refused(self, here: MemoryStore, elsewhere: MemoryStore) -> None:
        watcher = Standing()
        for source, destination in ((here, elsewhere), (here, MemoryStore()), (elsewhere, here)):
            destination.configure("q", {})
            with Guard(source, destination, ["other", "q"], heartbeat=60).hold(watcher.standing_by):
                with pytest.raises(CopyRefused, match="is copying other, q; wait"):
                    transfer(here, elsewhere).run(watcher)
                assert len(rows(here)) == 5
                assert rows(elsewhere) == {}
        assert watcher.rivals
        assert here.workers() == elsewhere.workers() == []

    def test_one_that_has_read_jobs_is_not_overtaken(self, here: MemoryStore, elsewhere: MemoryStore) -> None:
        """Else it would adopt them once more, after the other one has resumed their queue and they have run."""

        def select(query: Query) -> Page:
            found = here.select(query)
            with pytest.raises(CopyRefused):
                transfer(here, elsewhere).run()
            assert finish_all(elsewhere) == []
            return found

        transfer(meddled(here, "select", select), elsewhere, heartbeat=60).run()
        assert finish_all(elsewhere) == ALL

    def test_others_may_copy_other_queues(self, here: MemoryStore, elsewhere: MemoryStore) -> None:
        with Guard(here, elsewhere, ["other"], heartbeat=60).hold(Watcher().standing_by):
            assert transfer(here, elsewhere).run()[0].live == 5

    def test_one_that_died_is_waited_for(self, here: MemoryStore, elsewhere: MemoryStore) -> None:
        watcher = Standing()
        for store in (here, elsewhere):
            store.beat([WorkerRow("copy-dead", "host", 1, ("q",), 0, heartbeat=0.1)])
        assert transfer(here, elsewhere).run(watcher)[0].live == 5
        assert {rival.id for rival in watcher.rivals} <= {"copy-dead"}

    @pytest.mark.parametrize("side", ["source", "destination"])
    def test_one_that_stood_still_writes_nothing(
        self, here: MemoryStore, elsewhere: MemoryStore, side: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stanchion.copying.guard._PROOF", 0.0)
        stalled = {"source": here, "destination": elsewhere}[side]

        def select(query: Query) -> Page:
            found = here.select(query)
            stalled.clock_offset += 1.0
            return found

        with pytest.raises(CopyRefused, match="suspended"):
            transfer(meddled(here, "select", select), elsewhere).run()
        assert rows(elsewhere) == {}

    def test_many_at_once_do_no_harm(self, here: MemoryStore, elsewhere: MemoryStore) -> None:
        ended: list[object] = []

        def one() -> None:
            try:
                ended.append(transfer(here, elsewhere, heartbeat=0.5).run())
            except CopyRefused as error:
                ended.append(error)

        threads = [threading.Thread(target=one) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(ended) == 6
        assert any(not isinstance(end, CopyRefused) for end in ended)
        assert finish_all(elsewhere) == ALL
        assert rows(here) == {}
