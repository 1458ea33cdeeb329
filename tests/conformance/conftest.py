"""Which cases of the suite run on which store every day; the others do at night."""

from __future__ import annotations

from zlib import crc32

import pytest

from tests.conformance.variants import OF_ONE_SHARD
from tests.servers.redis import PACKAGED

MODEL = frozenset(
    (
        *("TestRefusedAtTheDoor", "TestFlowsAtTheDoor", "TestEncryption", "TestEvents", "TestTasks", "TestDeclaring"),
        *("TestTicks", "TestMissedTicks", "TestTheClock", "TestDeath", "TestWhatIsStored", "TestOperatingSchedules"),
        *("TestANewRelease", "TestLaneOfATenant", "TestLaneSettings", "TestResizing", "TestRatesOfTheModel"),
        *("TestChain", "TestTailCalls", "TestEventGroups", "TestGraph", "TestAWrongClockOfTheClient"),
        *("TestThereAndBack", "TestNoSpinning", "TestFailuresOfStations", "TestForks", "TestLoops", "TestStations"),
        *("TestWhatGoesAlong", "TestCancelAFlow", "TestFailure", "TestAwaiting", "TestLostSignals"),
        *("TestDrain", "TestActingOnAnotherQueue", "TestCirclesOfDeadLetters", "TestDeclaredAtTheCall", "TestShares"),
        *("TestExpiryAtTheDoor", "TestNonsense", "TestWhatWasTakenForSomethingElse", "TestUnknownOptions"),
        *("TestNoMembersOfAFlow", "TestDelayOfTheTask", "TestUnknownWork", "TestCancelledAwaits"),
        *("TestCheckpointsOfTasks", "TestFiguresOfPartitions", "TestOperatingPartitions", "TestCopyingPartitions"),
        *("TestWorkingOnPartitions", "TestDeathsInAResize"),
    )
)
"""What these try is the model; the verbs that it calls are tried by other cases. So memory and SQLite will do."""

STREAMS = frozenset(
    (
        *("TestDeathAtEachStep", "TestTwoDrivers", "TestPublishedAhead", "TestLostLeases", "TestPoison"),
        *("TestInnocentJobs", "TestStoppedStreams", "TestQueriesWithState"),
    )
)
"""The protocol of streams, over a few verbs: one database that joins transactions, and one that doesn't, will do."""

OVER_FEW_VERBS = frozenset(
    (
        *("TestTopics", "TestFilters", "TestRepeatedEvents", "TestLateSubscribers", "TestSubscriptionsMeanwhile"),
        *("TestSubscribedTasks", "TestTopicsAtTheDoor", "TestKeysOfEvents", "TestPayloadsInFlows"),
        *("TestFailingPayloads", "TestPayloadsAtTheDoor", "TestReplayOfItems", "TestReplaysOnce", "TestReplayInAFlow"),
        *("TestStreams", "TestOperatingStreams", "TestPartitionOfAJob", "TestConsumingPartitions"),
        *("TestResizingPartitions", "TestFindingInPartitions", "TestQueuePatterns", "TestWorkersOfLanes"),
        *("TestDeclaredLanes", "TestOrderOfQueues", "TestFeed", "TestReadersOfAFeed", "TestFeedResumed"),
        *("TestConsumers", "TestReplayOfWhatHasChanged", "TestManySchedulers", "TestHandles", "TestBands"),
    )
)
"""What these try is built of few verbs: one database with transactions, and one without, will do."""

HEAVY = frozenset(("TestAgainstTheReference", "TestPermitsAlongAnyPath", "TestLanesAgainstTheReference"))
"""Random sequences of steps."""

EACH_SCRIPT = frozenset(
    (
        *("TestPush", "TestUniqueKeys", "TestReserve", "TestReservedJobs", "TestFencing", "TestCommit", "TestRollback"),
        *("TestMove", "TestBuryAndAbandon", "TestRecovery", "TestHeartbeat", "TestCancel", "TestRetry", "TestReplay"),
        *("TestPop", "TestPurge", "TestDelete", "TestDeleteFinished", "TestDeleteQueued", "TestDeleteTogether"),
        *("TestAdopting", "TestValues", "TestFind"),
        *("TestScan", "TestSizes", "TestNextDue", "TestSlots", "TestKeyedRates", "TestMaxRunning", "TestRoundRobin"),
        *("TestLaneDepths", "TestGroup", "TestAFailedMember", "TestAnOpenNode", "TestFanOut", "TestPublishing"),
        *("TestOneWins", "TestPushSignal", "TestWaitingForASlot", "TestRepeatedClaimsById"),
    )
)
"""Each script of the Redis store, and what crosses its slots."""

MANY = ("thousands", "_many", "cancels_all_that_would_follow", "a_large_one")
"""Parts of the names of cases with very many jobs, which the MongoDB of the tests is slow with."""

SERVERS = frozenset(("test_postgres", "test_mariadb", "test_mongo", "test_redis"))
THROUGH_A_MANAGER = frozenset(
    (
        *("TestPush", "TestUniqueKeys", "TestReserve", "TestFencing", "TestRepeats", "TestOtherQueue", "TestRecovery"),
        *("TestHeartbeat", "TestPublishing", "TestConditions", "TestThereAndBack", "TestOpeningAFlow", "TestGroup"),
        *("TestContinuing", "TestLaneDepths", "TestValues", "TestRetry", "TestDelete"),
        *(
            "TestListener",
            "TestPushSignal",
            "TestSignalledEnds",
            "TestRefusing",
            "TestLargeBatches",
            "TestStrangeNames",
        ),
        *("TestSettings", "TestTheClock", "TestOneWins", "TestRepeatedPushAsRunning"),
    )
)
"""Each verb and record on its way through a manager, and what its clients do themselves: waiting, splitting,
repeating."""

MANAGERS = frozenset(
    (
        *("TestClaimsById", "TestRepeatedClaimsById", "TestNotAfter", "TestAloneById", "TestLimitsOfClaimsById"),
        *("TestSlotsOfClaimsById", "TestRacesOfClaimsById", "TestPushAsRunning", "TestRepeatedPushAsRunning"),
    )
)
"""What managers need of a store: on the servers one case of each statement."""

EACH_STATEMENT = (
    *("each_for_its_worker", "each_for_its_own", "what_the_token_holds", "past_it[{}-{}]", "in_the_order_of_the_ids"),
    *("a_known_job_is_left", "jobs_with_and_without", "an_ordered_queue", "max_running", "goes_to_one[plain]"),
    *("test_a_pause", "limits_of_the_queue[{'paused'", "past_the_bound", "would_not_get"),
)
"""Parts of the names of these cases."""

SHARDED = frozenset(
    (
        *("TestPush", "TestUniqueKeys", "TestCommit", "TestFencing", "TestLease", "TestRepeats", "TestOneWins"),
        *("TestEveryJobGoesToOne", "TestSizes", "TestNextDue", "TestMaintain"),
    )
)
"""Each verb that goes to one shard of several, or to all."""

VARIANTS = frozenset(("test_redis_cluster", "test_redis_others"))


def is_nightly(module: str, case: str, name: str) -> bool:
    """Tell whether a case of this name, in this class, is left to the night on the store of a module."""
    if module in VARIANTS:
        return case not in EACH_SCRIPT or "thousands" in name
    if module == "test_sharded":
        return case not in SHARDED
    if module == "test_grpc":
        return case not in THROUGH_A_MANAGER
    if module.startswith("test_mongo") and (case in HEAVY or any(part in name for part in MANY)):
        return True
    if module in ("test_mariadb", "test_mongo") and case in STREAMS | OVER_FEW_VERBS:
        return True
    if module in SERVERS and case in MANAGERS:
        return not any(part in name for part in EACH_STATEMENT)
    return module in SERVERS and case in MODEL


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is nightly, and leave out what shards refuse."""
    items[:] = [item for item in items if not _is_of_one_shard(item)]
    for item in items:
        module, case = getattr(item, "module", None), getattr(item, "cls", None)
        if module and case and is_nightly(module.__name__.rpartition(".")[2], case.__name__, item.name):
            item.add_marker("nightly")
        elif module and module.__name__.endswith("test_redis_others"):
            _leave_to_one(item)


def _is_of_one_shard(item: pytest.Item) -> bool:
    """Tell whether a case is about what is refused in a queue that is divided among shards."""
    module = getattr(item, "module", None)
    of_shards = module is not None and module.__name__.endswith("test_sharded")
    return of_shards and any(part in item.name for part in OF_ONE_SHARD)


def _leave_to_one(item: pytest.Item) -> None:
    """Leave a case to one of the servers, about as many to each; the others try it at night."""
    server: str = item.callspec.params["server"]  # type: ignore[attr-defined]
    servers: list[str] = list(PACKAGED)
    if servers.index(server) != crc32(item.nodeid.replace(server, "").encode()) % len(servers):
        item.add_marker("nightly")
