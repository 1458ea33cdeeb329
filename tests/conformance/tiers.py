"""Which cases of the suite run on which store every day; the others do at night.

On memory all run every day, and on SQLite all that reach the store. On servers those run whose statements or scripts
are the store's own: of a class one case in two, on the variants of a server one in six, and of a case with many
parameters one in eight.

At night all run that are left, but for the stores that differ from another one only in what is before or behind it: of
their cases one in NIGHTS runs in a night, others in the next. STANCHION_NIGHT names the night, from 0; else it is the
date's.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from zlib import crc32

NIGHTS = 4
IN_ROTATION = frozenset(
    (
        *("test_redis_cluster", "test_redis_others", "test_mongo_standalone"),
        *("test_postgres_schema", "test_grpc_postgres", "test_partitioned", "test_sharded"),
        *("test_sqlite_general", "test_sqlite_mixed"),
    )
)
"""Stores whose own statements or scripts other stores try whole each night."""

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
        *("TestWorkingOnPartitions", "TestDeathsInAResize", "TestHiding", "TestPastPauses"),
    )
)
"""What these try is the model; the verbs that it calls are tried by other cases. So memory will do."""

HEAVY = frozenset(("TestAgainstTheReference", "TestPermitsAlongAnyPath", "TestLanesAgainstTheReference"))
"""Random sequences of steps."""

PUSHES = frozenset(("TestPush", "TestRepeats", "TestOneWins", "TestEveryJobGoesToOne", "TestCounts", "TestSettings"))
"""What plain pushes do another way; the other cases of SQLite push so, too, and go the general way at night."""

EACH_SCRIPT = frozenset(
    (
        *("TestPush", "TestUniqueKeys", "TestReserve", "TestReservedJobs", "TestFencing", "TestCommit", "TestRollback"),
        *("TestMove", "TestMovesAtOnce", "TestBuryAndAbandon", "TestRecovery", "TestHeartbeat", "TestCancel"),
        *("TestRetry", "TestReplay", "TestResultTables", "TestRefusedRows"),
        *("TestPop", "TestPurge", "TestDelete", "TestDeleteFinished", "TestDeleteQueued", "TestDeleteTogether"),
        *("TestAdopting", "TestValues", "TestFind"),
        *("TestScan", "TestSizes", "TestNextDue", "TestSlots", "TestKeyedRates", "TestMaxRunning", "TestRoundRobin"),
        *("TestLaneDepths", "TestGroup", "TestAFailedMember", "TestAnOpenNode", "TestFanOut", "TestPublishing"),
        *("TestOneWins", "TestPushSignal", "TestWaitingForASlot", "TestRepeatedClaimsById"),
        *("TestPastWaits", "TestSeveralPastWaits", "TestWaitsGoWithTheJob", "TestExpiryOfJobs"),
        *("TestHistoryByOutcome", "TestHistoryMax"),
        *(
            "TestChunkContents",
            "TestPartsOfChunks",
            "TestOrderOfParts",
            "TestItemsAreCounted",
            "TestItemsByState",
            "TestPassingQueues",
            "TestPassingToAnEnd",
        ),
    )
)
"""Each script of the Redis store, and what crosses its slots; each statement of other stores, with `OF_DATABASES`."""

OF_DATABASES = frozenset(
    (
        *("TestJoining", "TestAnotherDatabase", "TestFeedInTransactions", "TestAddedOnceInTransactions"),
        *("TestFanOutInTransactions", "TestFlowsInTransactions", "TestFlowsOfACallersTransaction"),
        *("TestTogetherInTransactions", "TestTopicsInTransactions", "TestDeclaredInATransaction"),
        *("TestStrangeNames", "TestHeldKeys", "TestAdoptedKeys", "TestRacesForSlots", "TestOrderInRaces"),
        *("TestOneAtATime", "TestLimits", "TestEveryJobGoesToOne", "TestEachWayForEachShape", "TestShapes"),
        *("TestSelect", "TestStats", "TestSearchByContents", "TestRepair", "TestMaintain", "TestSettle", "TestRepeats"),
        *("TestLostClaims", "TestOrderedQueues", "TestSeveralSemaphores", "TestLargeBatches", "TestColumns"),
        *("TestListener", "TestAlerts", "TestMonitor", "TestLongNames"),
        "TestFoundByTheQueueWhereTheyDied",
    )
)
"""Transactions, locks, the comparison of texts, shapes and searches: where databases differ most."""

OF_REDIS = frozenset(
    (
        *("TestFeed", "TestFeedResumed", "TestFeedWithinATick", "TestOrderOfQueues", "TestConsumers", "TestAddedOnce"),
        *("TestWaitForWork", "TestSignalledEnds", "TestTopics", "TestSubscriptionsMeanwhile", "TestResizingPartitions"),
        *("TestDeadToThoseWhoLook", "TestQueuesThatExpire", "TestOrderedByTenant", "TestWorkersOfLanes"),
    )
)
"""Streams, channels and keys that no statement of another store stands for."""

MANY = ("thousands", "_many", "cancels_all_that_would_follow", "a_large_one", "large_batch", "any_number")
"""Parts of the names of cases with very many jobs: by day they run on memory and SQLite."""

RACES = frozenset(("TestEveryJobGoesToOne", "TestSeveralSemaphores", "TestOrderInRaces", "TestKeyedRates"))
"""Races of many threads, which that server is slow with too; `TestRacesForSlots` stands for them there by day."""

SERVERS = frozenset(("test_postgres", "test_mariadb", "test_mongo", "test_redis"))
THROUGH_A_MANAGER = frozenset(
    (
        *("TestPush", "TestUniqueKeys", "TestReserve", "TestFencing", "TestRepeats", "TestOtherQueue", "TestRecovery"),
        *("TestHeartbeat", "TestPublishing", "TestConditions", "TestThereAndBack", "TestOpeningAFlow", "TestGroup"),
        *("TestContinuing", "TestLaneDepths", "TestValues", "TestRetry", "TestDelete", "TestOrderOfParts"),
        *(
            "TestListener",
            "TestPushSignal",
            "TestSignalledEnds",
            "TestRefusing",
            "TestLargeBatches",
            "TestStrangeNames",
        ),
        *("TestSettings", "TestTheClock", "TestOneWins", "TestRepeatedPushAsRunning", "TestMonitor"),
        *("TestWaitsGoWithTheJob", "TestExpiryOfJobs", "TestHistoryByOutcome", "TestHistoryMax"),
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
        *("TestEveryJobGoesToOne", "TestSizes", "TestNextDue", "TestMaintain", "TestMonitor"),
    )
)
"""Each verb that goes to one shard of several, or to all."""

VARIANTS = frozenset(("test_redis_cluster", "test_redis_others", "test_mongo_standalone", "test_postgres_schema"))


def is_left_to_the_night(module: str, case: str) -> bool:
    """Tell whether all cases of a class are left to the night on the store of a module."""
    match module:
        case "test_grpc_postgres" | "test_partitioned" | "test_sqlite_mixed":
            return True
        case "test_sqlite_general":
            return case not in PUSHES
        case _ if module in VARIANTS:
            return case not in EACH_SCRIPT
        case "test_sharded":
            return case not in SHARDED
        case "test_grpc":
            return case not in THROUGH_A_MANAGER
        case "test_postgres" | "test_mariadb" | "test_mongo":
            return case not in EACH_SCRIPT | OF_DATABASES | MANAGERS or (module == "test_mongo" and case in RACES)
        case "test_redis":
            return case not in EACH_SCRIPT | OF_DATABASES | MANAGERS | OF_REDIS
        case "test_sqlite":
            return case in MODEL | HEAVY
    return False


def is_named(case: str, keyword: str) -> bool:
    """Tell whether a run with `-k` may want cases of a class; True if that can't be told from names of classes."""
    choices = [re.findall(r"\bTest\w+", choice) for choice in keyword.split(" or ")]
    if re.search(r"\bnot\b|[()]", keyword) or not all(choices):
        return True
    return any(all(name.lower() in case.lower() for name in names) for names in choices)


def is_one_of_many(module: str, case: str, name: str) -> bool:
    """Tell whether a case is left to the night as others of its class do for it on the store of a module."""
    if module in SERVERS and case in MANAGERS:
        return not any(part in name for part in EACH_STATEMENT)
    slow = module in SERVERS or module in VARIANTS
    return slow and any(part in name for part in MANY)


def night() -> int:
    """Return which of the NIGHTS this is."""
    given = os.environ.get("STANCHION_NIGHT")
    return (datetime.now(UTC).toordinal() if given is None else int(given)) % NIGHTS


def is_of_another_night(module: str, name: str, tonight: int) -> bool:
    """Tell whether a case that is left to the night runs in another one. `name`: that of the case, and its class."""
    return module in IN_ROTATION and crc32(name.encode()) % NIGHTS != tonight


def one_in(module: str, case: str) -> int:
    """Return how many cases that differ in their parameters alone stand for one another on the store of a module."""
    if module == "test_memory" or (module in SERVERS and case in MANAGERS):
        return 1
    if case == "TestEachWayForEachShape":
        return 1 if module == "test_sqlite" else 4
    return 8


def one_in_a_class(module: str) -> int:
    """Return how many cases of a class one stands for on the store of a module."""
    if module in SERVERS or module == "test_grpc":
        return 2
    return 6 if module in VARIANTS else 1


def of_the_day(names: list[str], one_in: int) -> set[str]:
    """Return one of so many, and at least one: others in each group, and always the same."""
    first = crc32(names[0].encode()) % min(one_in, len(names))
    return set(names[first::one_in])
