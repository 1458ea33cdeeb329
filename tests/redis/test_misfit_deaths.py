"""A stream that buries misfits, whose driver dies at any call to the server: the outcomes of a call come one by one."""

from __future__ import annotations

import pytest

from stanchion.stores.cas.entries import STALE
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.redis.store import RedisStore
from stanchion_conformance.streams.stream_driver import Log
from tests.redis.conftest import Open
from tests.redis.deaths import at_every_call
from tests.spark.misfits import Orders, TypedDriver

GIVEN = "all that is taken out"


@pytest.mark.nightly
def test_each_job_ends_once_and_the_brake_holds(opened: Open, url: str) -> None:
    def prepare(store: RedisStore) -> tuple[Log, Orders]:
        log = Log()
        return log, Orders(store, log, "move", GIVEN)

    def act(store: RedisStore, made: tuple[Log, Orders]) -> None:
        TypedDriver(store, made[0], "move", GIVEN).stops()

    deaths = 0
    for scene in at_every_call(opened, url, "before", prepare, act):
        log, orders = scene.made
        if scene.died:
            act(scene.witness, scene.made)
            # In a cluster, a job on its way between two queues is in both until a worker looks after it.
            scene.witness.clock_offset += STALE / SECOND + 1
            scene.witness.recover(limit=0)
            deaths += 1
        orders.check_stopped()
        TypedDriver(scene.witness, log, "move", GIVEN, percent=100).work()
        orders.check_ended()
    assert deaths > 30
