"""What a server says no to, and how the store takes it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from stanchion.core.ids import new_id
from stanchion.errors import StoreUnavailable
from stanchion.stores.records import calls
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState, Lease, NewJob
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.stores.redis.store import RedisStore
from stanchion_conformance.harness import counts_of, sizes_of
from tests.crash.scene import until
from tests.redis.conftest import QUEUE, Open, later, new_jobs
from tests.redis.keys import broken_rules
from tests.redis.load import Load
from tests.servers.redis import OtherServer, RedisServer

BIG = '{"text":"' + 10_000 * "x" + '"}'


@pytest.fixture
def short_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls give up soon."""
    monkeypatch.setattr(calls, "CALL_SECONDS", 0.3)


class TestScriptsForgotten:
    def test_they_are_sent_again(self, any_server: RedisServer, opened: Open) -> None:
        store = opened(any_server.url())
        with any_server.client() as admin:
            store.push(new_jobs(1))
            admin.script_flush()
            store.push(new_jobs(1))
            admin.script_flush()
            (row, other) = store.claim(Claim(QUEUE, 2, "t", lease=60.0)).rows
            admin.script_flush()
            assert store.settle([Commit(row.lease)]) == [JobState.DONE]
            admin.script_flush()
            assert store.settle([Rollback(other.lease, 0.0)]) == [JobState.READY]
            admin.script_flush()
            store.push([NewJob(new_id(), queue, "1") for queue in (QUEUE, "other", QUEUE)])
            assert (sizes_of(store, QUEUE).ready, sizes_of(store, "other").ready) == (3, 1)
        assert broken_rules(store, QUEUE) == []

    def test_under_load(self, own_redis_server: RedisServer, opened: Open) -> None:
        with (
            Load(lambda: opened(own_redis_server.url()), QUEUE) as load,
            own_redis_server.client() as admin,
        ):
            for _ in range(50):
                admin.script_flush()
                load.await_more(5)
        store = opened(own_redis_server.url())
        assert load.refused == 0
        assert broken_rules(store, QUEUE) == []
        assert counts_of(store, QUEUE).pushed == len(load.pushed)
        assert counts_of(store, QUEUE).committed == len(load.committed)


@pytest.mark.slow
class TestDemoted:
    """The server has become a replica, as in a failover, and refuses writes."""

    @pytest.fixture
    def promoted(self, request: pytest.FixtureRequest) -> Iterator[RedisServer]:
        """A server of the same kind, which takes the place of the one that is demoted."""
        kind: OtherServer | None = request.node.callspec.params["any_server"]
        with RedisServer(other=kind) as server:
            yield server

    @staticmethod
    def follow(replica: RedisServer, master: RedisServer) -> None:
        with replica.client() as admin:
            admin.replicaof("127.0.0.1", master.port)
            until(lambda: admin.info("replication")["master_link_status"] == "up", 120, "the replica follows")

    @staticmethod
    def promote(replica: RedisServer) -> None:
        with replica.client() as admin:
            admin.replicaof("NO", "ONE")

    def demote(self, server: RedisServer, successor: RedisServer) -> None:
        self.follow(successor, server)
        self.promote(successor)
        self.follow(server, successor)

    def test_calls_wait_until_it_is_master_again(
        self, any_server: RedisServer, promoted: RedisServer, store: RedisStore
    ) -> None:
        pushed = store.push(new_jobs(2))
        self.demote(any_server, promoted)
        with later(0.5, lambda: self.promote(any_server)):
            rows = store.claim(Claim(QUEUE, 1, "t", lease=60.0)).rows
        assert [row.id for row in rows] == [pushed[0].id]
        self.demote(any_server, promoted)
        with later(0.5, lambda: self.promote(any_server)):
            assert store.settle([Commit(Lease(QUEUE, pushed[0].id, "t"))]) == [JobState.DONE]
        assert broken_rules(store, QUEUE) == []

    @pytest.mark.usefixtures("short_deadlines")
    def test_a_replica_that_stays_one_is_told_of(
        self, any_server: RedisServer, promoted: RedisServer, store: RedisStore
    ) -> None:
        store.push(new_jobs(1))
        self.demote(any_server, promoted)
        for call in (
            lambda: store.push(new_jobs(1)),
            lambda: store.claim(Claim(QUEUE, 1, "t")),
            lambda: store.configure(QUEUE, {"paused": True}),
        ):
            with pytest.raises(StoreUnavailable, match="this server is a replica: give the address of the master"):
                call()
        assert sizes_of(store, QUEUE).ready == 1


@pytest.mark.slow
class TestLoading:
    """A server that has just started reads its data first."""

    @pytest.fixture
    def slow_server(self, own_redis_server: RedisServer) -> RedisServer:
        """A server that takes more than a second to load."""
        with own_redis_server.client() as admin, admin.pipeline(transaction=False) as pipeline:
            for number in range(1200):
                pipeline.set(f"other:{number}", 1000 * "x")
            pipeline.bgrewriteaof()
            pipeline.execute()
            until(lambda: not admin.info("persistence")["aof_rewrite_in_progress"], 120, "the log is compact")
        own_redis_server.configure(**{"key-load-delay": "1000", "loading-process-events-interval-bytes": "1024"})
        return own_redis_server

    def test_calls_wait_until_it_has_loaded(self, slow_server: RedisServer, opened: Open) -> None:
        store = opened(slow_server.url())
        jobs = store.push(new_jobs(3))
        slow_server.restart(loaded=False)
        began = time.monotonic()
        assert [row.id for row in store.claim(Claim(QUEUE, 3, "t")).rows] == [job.id for job in jobs]
        assert time.monotonic() - began > 0.5

    @pytest.mark.usefixtures("short_deadlines")
    def test_one_that_takes_too_long_is_told_of(self, slow_server: RedisServer, opened: Open) -> None:
        store = opened(slow_server.url())
        store.push(new_jobs(1))
        slow_server.restart(loaded=False)
        with pytest.raises(StoreUnavailable, match="loading"):
            store.push(new_jobs(1))


class TestOutOfMemory:
    @pytest.fixture
    def full(self, any_server: RedisServer, store: RedisStore) -> list[str]:
        """Have the server's memory be full of jobs; return some that run."""
        store.push(new_jobs(300, BIG))
        held = [row.id for row in store.claim(Claim(QUEUE, 100, "t", lease=3600.0)).rows]
        with any_server.client() as admin:
            any_server.configure(maxmemory=str(int(admin.info("memory")["used_memory"]) + 200_000))
        return held

    def test_pushes_are_refused_whole(self, any_server: RedisServer, store: RedisStore, full: list[str]) -> None:
        stored = len(full) + 200 + push_until_refused(store)
        assert sizes_of(store, QUEUE).total == counts_of(store, QUEUE).pushed == stored
        assert broken_rules(store, QUEUE) == []
        any_server.configure(maxmemory="0")
        store.push(new_jobs(7, BIG))
        assert sizes_of(store, QUEUE).total == stored + 7

    def test_what_runs_ends_or_goes_on(self, any_server: RedisServer, store: RedisStore, full: list[str]) -> None:
        push_until_refused(store)
        any_server.configure(maxmemory="1000000")
        done = 0
        for first in range(0, 100, 10):
            part = full[first : first + 10]
            try:
                states = store.settle(
                    [Commit(Lease(QUEUE, job, "t"), '"done"') for job in part[:8]]
                    + [Rollback(Lease(QUEUE, job, "t"), 60.0) for job in part[8:]]
                )
            except StoreUnavailable as error:
                assert "maxmemory" in str(error)  # noqa: PT017
            else:
                assert states == [JobState.DONE] * 8 + [JobState.SCHEDULED] * 2
                done += 8
            assert broken_rules(store, QUEUE) == []
        assert counts_of(store, QUEUE).committed == done
        any_server.configure(maxmemory="0")
        rest = [job for job in full if store.fetch([job])[job].state == JobState.RUNNING]
        assert set(store.settle([Commit(Lease(QUEUE, job, "t")) for job in rest])) <= {JobState.DONE}
        while rows := store.claim(Claim(QUEUE, 1000, "u", lease=60.0)).rows:
            assert set(store.settle([Commit(row.lease) for row in rows])) == {JobState.DONE}
        assert broken_rules(store, QUEUE) == []

    def test_claims_are_refused_whole(self, any_server: RedisServer, store: RedisStore, full: list[str]) -> None:
        any_server.configure(maxmemory="1000000")
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            store.claim(Claim(QUEUE, 10, "u"))
        assert sizes_of(store, QUEUE).running == len(full)
        assert broken_rules(store, QUEUE) == []
        any_server.configure(maxmemory="0")
        assert len(store.claim(Claim(QUEUE, 10, "u")).rows) == 10

    @pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random"])
    def test_a_server_that_would_delete_jobs_is_refused(
        self, any_server: RedisServer, store: RedisStore, policy: str
    ) -> None:
        any_server.configure(**{"maxmemory-policy": policy})
        with pytest.raises(StoreUnavailable, match=f"{policy}.*CONFIG SET maxmemory-policy noeviction"):
            store.check()
        any_server.configure(**{"maxmemory-policy": "noeviction"})
        store.check()


def push_until_refused(store: RedisStore) -> int:
    """Push until the server's memory is full; return how many jobs were stored."""
    for number in range(1000):
        try:
            store.push(new_jobs(7, BIG))
        except StoreUnavailable as error:
            assert "give the server more memory (maxmemory)" in str(error)  # noqa: PT017
            return 7 * number
    raise AssertionError("never refused")


class TestPasswords:
    SECRET = "se/cr:et@1"

    @pytest.fixture
    def guarded(self) -> Iterator[RedisServer]:
        with RedisServer(password=self.SECRET) as server:
            yield server

    def test_the_right_one_opens(self, guarded: RedisServer, opened: Open) -> None:
        store = opened(guarded.url())
        store.push(new_jobs(1))
        assert store.listen([QUEUE]).wait(0.01) is False
        assert sizes_of(store, QUEUE).ready == 1

    @pytest.mark.usefixtures("short_deadlines")
    def test_none_is_shown(self, guarded: RedisServer, opened: Open) -> None:
        right = guarded.url()
        errors = []
        for url in (right.replace("se%2Fcr", "wr%2Fong"), right.replace(":se", "user:se"), right):
            if url == right:
                guarded.stop()
            with pytest.raises(StoreUnavailable) as caught:
                opened(url).push(new_jobs(1))
            errors.append(f"{caught.value} {caught.value!r}")
        for text in errors:
            for secret in ("se%2F", "se/cr", "et@1", "et%401", "wr%2F", "wr/ong"):
                assert secret not in text
            assert f"127.0.0.1:{guarded.port}" in text


def test_what_breaks_the_rules_of_the_keys_shows(own_redis_server: RedisServer, opened: Open) -> None:
    store = opened(own_redis_server.url())
    (first, second) = store.push(new_jobs(2))
    prefix = store.server.keys.queue(QUEUE)
    with own_redis_server.client() as admin:
        admin.hdel(f"{prefix}body", first.id)
        admin.zrem(f"{prefix}ready:-0001:05000", second.id)
    assert [rule.partition(":")[0] for rule in broken_rules(store, QUEUE)] == [
        "jobs and bodies",
        "queued jobs and ready lists",
    ]
