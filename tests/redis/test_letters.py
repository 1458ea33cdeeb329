"""The index of the dead letters of a queue has exactly these."""

from __future__ import annotations

import pytest

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Bury, Commit, Move
from stanchion.stores.redis.store import RedisStore
from tests.redis.conftest import QUEUE, Open, new_jobs
from tests.redis.keys import broken_rules

HOW = ("retry", "cancel", "commit", "move", "bury", "delete", "purge")


@pytest.mark.parametrize("history_ttl", [0, 3600])
@pytest.mark.parametrize("how", HOW)
def test_whatever_is_done_with_them(opened: Open, redis_url: str, how: str, history_ttl: int) -> None:
    store = opened(redis_url)
    assert isinstance(store, RedisStore)
    store.configure(QUEUE, {"dead_letter": "letters"})
    store.configure("letters", {"history_ttl": history_ttl})
    store.push(new_jobs(3))
    store.settle([Bury(row.lease, "bad") for row in store.claim(Claim(QUEUE, 3, "t")).rows])
    ids = sorted(store.server.client.zrange(store.server.keys.queue("letters") + "letters", 0, -1))
    assert len(ids) == 3
    first = ids[0].decode()

    def reserved() -> JobRow:
        return store.claim(Claim("letters", 1, "t")).rows[0]

    match how:
        case "retry":
            store.retry([first])
        case "cancel":
            store.cancel([first])
        case "commit":
            store.settle([Commit(reserved().lease)])
        case "move":
            store.settle([Move(reserved().lease, "elsewhere")])
        case "bury":
            store.settle([Bury(reserved().lease, "again")])
        case "delete":
            store.delete([store.fetch([first])[first].ref])
        case "purge":
            store.settle([Commit(reserved().lease)])
            store.configure("letters", {"history_ttl": 0})
            store.maintain(1)
    for queue in (QUEUE, "letters", "elsewhere"):
        assert broken_rules(store, queue) == []
