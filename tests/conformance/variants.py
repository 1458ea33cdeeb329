"""What need not run on each variant of a server.

The model and its reference runs do the same on all of them, by verbs that the other cases call there too.
"""

from typing import Any

_OF_THE_MODEL = (
    *(
        "TestRefusedAtTheDoor",
        "TestExpiryAtTheDoor",
        "TestFlowsAtTheDoor",
        "TestEncryption",
        "TestEvents",
        "TestHandles",
        "TestTasks",
    ),
    *("TestDeclaring", "TestTicks", "TestMissedTicks", "TestTheClock", "TestDeath", "TestWhatIsStored"),
    *("TestOperatingSchedules", "TestANewRelease"),
    *("TestLaneOfATenant", "TestLaneSettings", "TestResizing", "TestLanesAgainstTheReference"),
    *("TestRatesOfTheModel", "TestSemaphores", "TestPermitsAlongAnyPath"),
    *("TestChain", "TestContinuing", "TestTailCalls", "TestEventGroups"),
    *("TestAWrongClockOfTheClient", "TestThereAndBack"),
    *("TestAgainstTheReference", "TestNoSpinning"),
    *("TestAwaiting", "TestLostSignals"),
    *("TestDrain", "TestActingOnAnotherQueue", "TestUnknownOptions", "TestNoMembersOfAFlow"),
    *(
        "TestUnknownWork",
        "TestCirclesOfDeadLetters",
        "TestFittedNames",
        "TestNonsense",
        "TestWhatWasTakenForSomethingElse",
    ),
    *("TestDeathAtEachStep", "TestTwoDrivers", "TestPublishedAhead", "TestLostLeases", "TestPoison"),
    *("TestInnocentJobs", "TestStoppedStreams", "TestQueriesWithState"),
    *("TestPartitionOfAJob", "TestFiguresOfPartitions", "TestFindingInPartitions", "TestOperatingPartitions"),
    *("TestCopyingPartitions", "TestDeathsInAResize"),
)


OF_A_PARTITIONED_QUEUE = (
    *("TestPush", "TestUniqueKeys", "TestCommit", "TestRollback", "TestMove", "TestBuryAndAbandon", "TestRepeats"),
    *("TestFencing", "TestLease", "TestRepeatedOutcome", "TestProgress", "TestCancel", "TestReplay", "TestDrain"),
    *("TestEveryJobGoesToOne", "TestOneWins", "TestOrderInRaces", "TestRacesForSlots"),
    *("TestChain", "TestGroup", "TestContinuing", "TestTailCalls", "TestEventGroups", "TestFailure", "TestCancelAFlow"),
    *("TestDeadLetters", "TestDeadToThoseWhoLook", "TestFoundByTheQueueWhereTheyDied", "TestAreNoWork"),
    *("TestTicks", "TestManySchedulers"),
    *("TestStations", "TestForks", "TestLoops", "TestWhatGoesAlong", "TestFanOut"),
    *("TestSizes", "TestCounts", "TestNextDue", "TestPause", "TestPurge", "TestMaintain"),
    *("TestStreams", "TestDeathAtEachStep", "TestTwoDrivers"),
    *("TestFeed", "TestFeedWithinATick", "TestReadersOfAFeed", "TestFeedResumed"),
    *("TestCheckpointsOfTasks", "TestReplayOfWhatHasChanged", "TestUnreadableLimits"),
    *("TestChunkContents", "TestPartsOfChunks", "TestItemsAreCounted", "TestItemsByState", "TestPassingQueues"),
    "TestPassingToAnEnd",
)
"""The cases that hold across partitions; the others are about the order of a whole queue, or about its rows."""


OF_SHARDS = (
    *("TestPush", "TestUniqueKeys", "TestCommit", "TestRollback", "TestRepeats", "TestFencing", "TestLease"),
    *("TestRepeatedOutcome", "TestProgress", "TestCancel", "TestReplay", "TestDrain", "TestEveryJobGoesToOne"),
    *("TestOneWins", "TestOrderInRaces", "TestTicks", "TestManySchedulers", "TestSizes", "TestCounts", "TestNextDue"),
    *("TestPause", "TestPurge", "TestMaintain", "TestFeed", "TestReadersOfAFeed", "TestFeedResumed"),
    *("TestCheckpointsOfTasks", "TestChunkContents", "TestItemsAreCounted", "TestItemsByState"),
)
"""Those of them that hold for a queue whose partitions are in several shards, where there are no flows."""

OF_ONE_SHARD = (
    *("move", "next_queue", "another_queue", "dead_letter", "parts_of_a_flow", "no_other_outcome"),
    *("tell_what_happened", "adopted_by_another_store", "test_a_death_and_a_retry", "test_staged_and_published"),
    "test_of_jobs_with_slots",
)
"""Parts of the names of cases about a second queue, slots, streams or a flow, which such a queue refuses."""

OF_NEW_LANES = ("TestOrderOfQueues::test_across_lanes",)
"""A manager keeps the order of queues among the jobs of its share, and takes lanes that are new a moment later; the
order among lanes that it has is tried in tests/manager."""

OF_PARKED_JOBS = ("a_waiter_at_a_semaphore_with", "a_waiter_of_an_order_key")
"""Cases that store jobs as if a claim had parked them, which a manager takes from nobody."""

_OF_MANAGERS = (*OF_NEW_LANES, *OF_PARKED_JOBS)

OF_ONE_PARTITION = (
    *("a_rate_counts_them", "test_pushed_as_running", "test_reserved_unseen", "test_finished_by_a_publication"),
)
"""Cases about the rate of a whole queue, of which each partition gets a share, and of claims that name a physical queue
or take its jobs under one token."""

LEFT_OUT = {
    "test_partitioned": OF_ONE_PARTITION,
    "test_sharded": (*OF_ONE_SHARD, *OF_ONE_PARTITION),
    "test_grpc": _OF_MANAGERS,
    "test_grpc_postgres": _OF_MANAGERS,
}
"""Parts of the names of cases that are not for the store of a module."""


def leave_out_the_model(module: dict[str, Any]) -> None:
    """Take these cases out of a module's names."""
    for name in _OF_THE_MODEL:
        del module[name]


def leave_out_all_but(module: dict[str, Any], *names: str) -> None:
    """Take all other cases out of a module's names."""
    assert module.keys() >= set(names)
    for name in [name for name in module if name.startswith("Test") and name not in names]:
        del module[name]
