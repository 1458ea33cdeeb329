"""Waiting for work, also when the keys are deleted meanwhile."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from functools import partial

from stanchion.stores.protocol import Listener
from stanchion.stores.records.claims import Claim
from stanchion_conformance.harness import in_threads
from tests.redis.conftest import QUEUE, Open, later, new_jobs
from tests.redis.keys import broken_rules
from tests.redis.load import Load
from tests.servers.redis import RedisServer

DELETE_ALL = "for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('DEL', key) end"


class TestForgetting:
    """The keys are deleted while processes work, and wait for work."""

    def test_all_go_on_with_what_comes(self, own_redis_server: RedisServer, opened: Open) -> None:
        store = opened(own_redis_server.url())
        with Load(lambda: opened(own_redis_server.url()), QUEUE) as load, own_redis_server.client() as admin:
            for forget in (
                admin.flushall,
                lambda: store.drop_queue(QUEUE),
                lambda: admin.eval(DELETE_ALL, 0, store.server.keys.queue(QUEUE)),
            ):
                load.await_more(50)
                forget()
            load.await_more(50)
        assert load.refused == 0
        assert broken_rules(store, QUEUE) == []
        assert [settings.name for settings in store.queues()] == [QUEUE]

    def test_a_worker_that_waits_is_woken_by_the_next_job(self, own_redis_server: RedisServer, opened: Open) -> None:
        store = opened(own_redis_server.url())
        store.push(new_jobs(1))
        with closing(store.listen([QUEUE])) as listener, own_redis_server.client() as admin:
            admin.flushall()
            with later(0.3, lambda: store.push(new_jobs(1))):
                assert listener.wait(60)


def wait_and_note(listener: Listener, woken: list[bool]) -> None:
    woken.append(listener.wait(60))


class TestWaking:
    def test_two_pushes_wake_two_that_wait(self, own_redis_server: RedisServer, opened: Open) -> None:
        stores = [opened(own_redis_server.url()) for _ in range(2)]
        with ExitStack() as stack:
            listeners = [stack.enter_context(closing(store.listen([QUEUE]))) for store in stores]
            woken: list[bool] = []
            with in_threads([partial(wait_and_note, listener, woken) for listener in listeners]):
                time.sleep(0.2)
                for store in stores:
                    store.push(new_jobs(1))
            assert woken == [True, True]
            taken = [store.claim(Claim(QUEUE, 1, f"t{number}")).rows for number, store in enumerate(stores)]
            assert [len(rows) for rows in taken] == [1, 1]
