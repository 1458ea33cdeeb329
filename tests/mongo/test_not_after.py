"""A claim whose process stood still between its steps gives back what it reserved past its bound."""

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.mongo.claims.reserve import Reservations
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND
from stanchion_conformance.harness import NewStore, StoreClock, new_job, row_of


@pytest.mark.parametrize("most", [None, 5])
def test_a_stop_behind_the_first_look(
    new_store: NewStore, clock: StoreClock, monkeypatch: pytest.MonkeyPatch, most: int | None
) -> None:
    store, queue = new_store(), new_id()
    store.configure(queue, {"max_running": most})
    job = new_job(queue=queue)
    store.push([job])
    wish = Claim(queue, 1, new_id(), ids=((job.id, "w"),), not_after=store.now() + 30 * SECOND)
    take = Reservations.take

    def stopped(*given: object) -> object:
        clock.advance(31)
        return take(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Reservations, "take", stopped)
        assert store.claim(wish).rows == []
    row = row_of(store, job.id)
    assert (row.state, row.attempts, row.worker) == ("queued", 0, None)
    assert len(store.claim(wish._replace(token=new_id(), not_after=None)).rows) == 1
