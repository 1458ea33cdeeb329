"""Sentinels name the master: of a URL, at first, and after a failover."""

from __future__ import annotations

import pytest

from stanchion import Stanchion
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.records import calls
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.redis.client.address import Watch, address_of
from stanchion.stores.registry import open_store, shown_url
from stanchion_conformance.harness import sizes_of
from tests.redis.conftest import QUEUE, Open, new_jobs
from tests.redis.keys import broken_rules
from tests.servers.redis_sentinel import PASSWORD, SENTINELS_PASSWORD, WatchedRedis


class TestAddresses:
    def test_name_sentinels_service_and_database(self) -> None:
        address = address_of("rediss+sentinel://u:p%40@one,two:2,[::1]:3/jobs?db=4&sentinel_password=s&prefix=shop")
        assert address.watch == Watch("jobs", (("one", 26379), ("two", 2), ("::1", 3)), None, "s")
        assert (address.url, address.prefix, address.cluster) == ("rediss://u:p%40@one/4", "shop", False)
        assert address.shown == "rediss+sentinel://u:***@one,two:2,[::1]:3/jobs"
        assert address.without_password("p@ and s") == "*** and ***"

    @pytest.mark.parametrize(
        ("url", "told"),
        [
            ("redis+sentinel://one,two", "name the sentinels and the service"),
            ("redis+sentinel:///jobs", "name the sentinels and the service"),
            ("redis+sentinel://one/jobs/0", "name the sentinels and the service"),
            ("redis+sentinel://one:x/jobs", "is no host of a sentinel"),
            ("redis+sentinel://one/jobs?db=x", "is a number"),
            ("redis+others://one/jobs", r"redis\+sentinel://"),
        ],
    )
    def test_that_lack_something_are_refused(self, url: str, told: str) -> None:
        with pytest.raises(InvalidInput, match=told):
            open_store(url)

    def test_are_shown_without_passwords(self) -> None:
        url = "redis+sentinel://u:secret@one:1,two:2/jobs?sentinel_password=watch"
        assert shown_url(url) == "redis+sentinel://u:***@one:1,two:2/jobs"
        assert "secret" not in repr(Stanchion(url)) + shown_url("redis+sentinel://u:secret@")


@pytest.mark.slow
def test_a_failover(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with WatchedRedis() as watched:
        store = opened(watched.url(3))
        store.check()
        jobs = store.push(new_jobs(3))
        (row,) = store.claim(Claim(QUEUE, 1, "t", lease=3600.0)).rows
        listener = store.listen([QUEUE])
        with (first := watched.master()).client(3) as client:
            client.wait(1, 10_000)
        first.kill()
        watched.await_failover(first)

        assert store.settle([Commit(row.lease)]) == [JobState.DONE]
        assert [row.id for row in store.claim(Claim(QUEUE, 9, "u", lease=3600.0)).rows] == [job.id for job in jobs[1:]]
        while listener.wait(0.1):
            pass
        store.push(new_jobs(1))
        assert listener.wait(60)
        listener.close()

        first.start()  # it comes back as a replica: it takes no writes
        assert sizes_of(opened(watched.url(3)), QUEUE).ready == 1
        watched.hand_over()  # the connections to it are there still
        assert watched.master() is first
        store.push(new_jobs(1))
        assert sizes_of(store, QUEUE).ready == 2
        assert broken_rules(store, QUEUE) == []
        for sentinel in watched.sentinels:
            sentinel.kill()
        store.server.close()
        monkeypatch.setattr(calls, "CALL_SECONDS", 0.3)
        with pytest.raises(StoreUnavailable) as caught:
            store.push(new_jobs(1))
        assert PASSWORD not in str(caught.value)
        assert SENTINELS_PASSWORD not in str(caught.value)
