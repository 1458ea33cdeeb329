"""The behaviour of every store, as pytest cases.

A test module imports all of this, deletes the cases that do not apply to its store, and has one fixture:

    from stanchion_conformance import *

    del TestRefusing  # of a store that joins transactions; of one that doesn't, TestJoining and TestAnotherDatabase,
    # and TestFeedInTransactions
    del TestPushSignal, TestSignalledEnds  # of a store without push_wakeup

    @pytest.fixture
    def store_factory():
        ...  # yield a function; close what it has opened

Each call of the function opens the database of the case, which is empty at first, as another process would,
and returns a store that is set up. Only a store within one process may return the same object each time. The
cases move the clocks of the stores by their `clock_offset`. Needs pytest and hypothesis.
"""

import pytest

from stanchion_conformance.themes import THEMES

pytest.register_assert_rewrite(*(f"{__name__}.{theme}" for theme in THEMES))

from stanchion_conformance.cron.cron import TestManySchedulers, TestTicks
from stanchion_conformance.cron.cron_clock import TestMissedTicks, TestTheClock
from stanchion_conformance.cron.cron_deaths import TestDeath
from stanchion_conformance.cron.cron_declaring import TestDeclaring, TestWhatIsStored
from stanchion_conformance.cron.cron_operating import TestANewRelease, TestOperatingSchedules
from stanchion_conformance.cron.schedules import calendar
from stanchion_conformance.feed.events import TestCostOfAFeed, TestFeed
from stanchion_conformance.feed.readers import TestFeedWithinATick, TestReadersOfAFeed
from stanchion_conformance.feed.resuming import TestFeedInTransactions, TestFeedResumed
from stanchion_conformance.feed.waiting import TestWaitForWork
from stanchion_conformance.flows.added_once import TestAddedOnce, TestAddedOnceInTransactions, TestExtendedOnce
from stanchion_conformance.flows.fan_out import TestFanOut, TestFanOutInTransactions, TestHeadersOfAMove, parent
from stanchion_conformance.flows.flow_ends import TestAFailedMember, TestAStoppedFlow, TestContinuing
from stanchion_conformance.flows.flow_failures import TestCancelAFlow, TestFailure
from stanchion_conformance.flows.flow_growth import TestEventGroups, TestTailCalls
from stanchion_conformance.flows.flow_nodes import (
    TestAnOpenNode,
    TestFlowsInTransactions,
    TestMembersOfANode,
    TestOpeningAFlow,
)
from stanchion_conformance.flows.flow_payloads import (
    TestFailingPayloads,
    TestPayloadsAtTheDoor,
    TestPayloadsInFlows,
    plain,
)
from stanchion_conformance.flows.flow_views import TestFlowsAtTheDoor, TestFlowsOfACallersTransaction, TestGraph
from stanchion_conformance.flows.flows import TestChain, TestGroup, small_steps, work
from stanchion_conformance.harness import app, clock, new_store, other_app, other_q, other_store, q, store
from stanchion_conformance.jobs.attempts import TestAttempts
from stanchion_conformance.jobs.bad_input import TestRefusedAtTheDoor
from stanchion_conformance.jobs.bands import TestBands
from stanchion_conformance.jobs.boundaries import TestActingOnAnotherQueue, TestDrain
from stanchion_conformance.jobs.checkpoints import TestCheckpoints, TestCheckpointsOfTasks, TestReplayOfWhatHasChanged
from stanchion_conformance.jobs.concurrency import TestEveryJobGoesToOne, TestLimits, TestOneWins, TestThreads, stores
from stanchion_conformance.jobs.consumers import TestConsumers
from stanchion_conformance.jobs.dead_letters import (
    TestCirclesOfDeadLetters,
    TestDeadLetters,
    TestDeadToThoseWhoLook,
    letters,
)
from stanchion_conformance.jobs.encryption import TestEncryption, key, sealed
from stanchion_conformance.jobs.held_keys import TestHeldKeys
from stanchion_conformance.jobs.history import TestHistory, TestPurge
from stanchion_conformance.jobs.holders import TestHolders, TestLeaseOfAHolder, TestListOfHolders
from stanchion_conformance.jobs.leases import TestFencing, TestLease, TestRepeatedClaim, TestRepeatedOutcome
from stanchion_conformance.jobs.lost_claims import TestAfterTheBlock, TestLostClaims, TestSuspended
from stanchion_conformance.jobs.lost_leases import TestAlone, TestCharges, TestDelayOfTheTask
from stanchion_conformance.jobs.nonsense import TestNonsense, TestWhatWasTakenForSomethingElse
from stanchion_conformance.jobs.ordering import TestOneAtATime, TestTheFirstIsWaitedFor
from stanchion_conformance.jobs.other_queues import TestOtherQueue
from stanchion_conformance.jobs.outcomes import TestBatches, TestBuryAndAbandon, TestCommit, TestMove, TestRollback
from stanchion_conformance.jobs.pushing import TestLargeBatches, TestPop, TestPush, TestRepeats, TestUniqueKeys
from stanchion_conformance.jobs.ranks import TestHeads, TestMinRank
from stanchion_conformance.jobs.renewals import TestProgress, TestRenewals
from stanchion_conformance.jobs.scheduling import TestAWrongClockOfTheClient, TestDue, TestNextDue, wrong_clock
from stanchion_conformance.jobs.strange_names import TestStrangeNames
from stanchion_conformance.jobs.tasks import TestEvents, TestHandles, TestTasks
from stanchion_conformance.jobs.together import TestBatch, TestEndedElsewhere, TestSettle, TestTogetherInTransactions
from stanchion_conformance.jobs.trails import TestPassed, TestPayloadOfTheEntry, TestTrail
from stanchion_conformance.jobs.transactions import TestAnotherDatabase, TestJoining, TestRefusing
from stanchion_conformance.jobs.unknown_options import TestNoMembersOfAFlow, TestUnknownOptions
from stanchion_conformance.jobs.unknown_work import TestPutOff, TestUnknownWork
from stanchion_conformance.lanes.lanes import TestFairness, TestInsideALane, TestRoundRobin, laned
from stanchion_conformance.lanes.lanes_beside import (
    TestLaneDepths,
    TestLanesAndLimits,
    TestLanesElsewhere,
    TestRangesOfLanes,
)
from stanchion_conformance.lanes.lanes_model import TestLanesAgainstTheReference, TestRoundRobinAgainstTheReference
from stanchion_conformance.lanes.lanes_of_tenants import TestLaneOfATenant, TestLaneSettings, TestResizing
from stanchion_conformance.limits.many_waiting import TestManyWaiting
from stanchion_conformance.limits.order import TestOrder, TestScheduledJobsStandAside
from stanchion_conformance.limits.order_races import TestOrderAndSlots, TestOrderInRaces, TestWaitingForAnOrderKey
from stanchion_conformance.limits.order_succession import TestInASecondLife, TestTheNextOfAKey
from stanchion_conformance.limits.ordered_by_tenant import TestOrderedByTenant
from stanchion_conformance.limits.ordered_queues import TestOrderedQueues, TestWaysIntoAnOrderedQueue
from stanchion_conformance.limits.rates import TestKeyedRates, TestRatesAndOtherLimits, TestRatesOfTheModel
from stanchion_conformance.limits.semaphore_machine import TestPermitsAlongAnyPath
from stanchion_conformance.limits.semaphore_races import TestRacesForSlots, TestSeveralSemaphores, TestWaitingForASlot
from stanchion_conformance.limits.semaphores import TestSemaphores
from stanchion_conformance.limits.slots import TestSlots
from stanchion_conformance.limits.slots_freed import (
    TestEveryHolderLetsGo,
    TestEverySlotIsFreed,
    TestSlotsTakenAgain,
    TestTheLine,
)
from stanchion_conformance.model import TestAgainstTheReference
from stanchion_conformance.operate.adopted import TestAdoptedJobs, TestAdoptedKeys
from stanchion_conformance.operate.best_heads import TestBestHeads
from stanchion_conformance.operate.claim_order import TestOrderOfQueues, three
from stanchion_conformance.operate.counting import TestCounts, TestFind, TestSizes, TestStats
from stanchion_conformance.operate.declared import (
    TestDeclaredAtTheCall,
    TestDeclaredInATransaction,
    TestDeclaredLanes,
    TestDeclaredSemaphores,
    TestDeclaredSettings,
    start,
)
from stanchion_conformance.operate.deleting import TestDeleteFinished, TestDeleteQueued, TestDeleteTogether
from stanchion_conformance.operate.expiring import (
    TestExpiryAtTheDoor,
    TestQueuesThatExpire,
    TestQueuesThatExpireWithJobs,
    passing,
)
from stanchion_conformance.operate.operating import TestCancel, TestReplay, TestRetry
from stanchion_conformance.operate.repair import TestRepair
from stanchion_conformance.operate.searching_inside import TestSearchByContents, TestSearchByTheEnd
from stanchion_conformance.operate.selecting import TestColumns, TestOrders, TestPages, TestPartition, TestSelect
from stanchion_conformance.operate.settings import TestDelete, TestMaxRate, TestMaxRunning, TestPause, TestSettings
from stanchion_conformance.operate.shapes import TestEachWayForEachShape, TestShapes
from stanchion_conformance.operate.signalled_ends import TestSignalledEnds
from stanchion_conformance.operate.transferring import TestAdopting, TestThereAndBack
from stanchion_conformance.operate.upkeep import TestMaintain, TestSetup, TestShares
from stanchion_conformance.operate.values import TestValues
from stanchion_conformance.operate.waits import TestAwaiting, TestCancelledAwaits, TestLostSignals, TestTogether
from stanchion_conformance.operate.wakeup import TestListener, TestNoSpinning, TestPushSignal, TestWaiting
from stanchion_conformance.operate.worker_lanes import TestQueuePatterns, TestWorkersOfLanes
from stanchion_conformance.operate.workers import TestHeartbeat, TestRecovery, TestSharedPolling
from stanchion_conformance.partitions.consuming import TestConsumingPartitions, TestWorkingOnPartitions
from stanchion_conformance.partitions.operating import (
    TestCopyingPartitions,
    TestFiguresOfPartitions,
    TestFindingInPartitions,
    TestOperatingPartitions,
)
from stanchion_conformance.partitions.placing import (
    TestKeysStay,
    TestPartitionOfAJob,
    elsewhere_parted,
    elsewhere_q,
    parted,
)
from stanchion_conformance.partitions.resizing import TestDeathsInAResize, TestResizingPartitions, at_once
from stanchion_conformance.streams.pipelines import TestForks, TestLoops, TestStations, TestWhatGoesAlong, etl
from stanchion_conformance.streams.pipelines_failing import TestFailuresOfStations
from stanchion_conformance.streams.publishing import TestPublishingWithAValue, TestPublishingWithFinish
from stanchion_conformance.streams.replays import TestFindItems, TestReplayOfItems, trips
from stanchion_conformance.streams.replays_later import (
    TestReplayAfterAChange,
    TestReplayInAFlow,
    TestReplayInAnotherStore,
    TestReplayOfEncryptedItems,
    TestReplayOfMovedItems,
)
from stanchion_conformance.streams.replays_once import TestReplaysOfOthers, TestReplaysOnce, lines
from stanchion_conformance.streams.reserved_jobs import TestReserve, TestReservedJobs
from stanchion_conformance.streams.scanning import TestConditions, TestScan
from stanchion_conformance.streams.staging import TestPublishing, TestStaged
from stanchion_conformance.streams.stream_deaths import (
    TestDeathAtEachStep,
    TestLostLeases,
    TestPublishedAhead,
    TestTwoDrivers,
)
from stanchion_conformance.streams.stream_driver import mode
from stanchion_conformance.streams.stream_failures import TestInnocentJobs, TestPoison, TestStoppedStreams
from stanchion_conformance.streams.stream_states import TestQueriesWithState, sink
from stanchion_conformance.streams.streams import TestOperatingStreams, TestRefusedPositions, TestStreams
from stanchion_conformance.topics.filters import TestFilters
from stanchion_conformance.topics.late import TestLateSubscribers
from stanchion_conformance.topics.meanwhile import TestSubscriptionsMeanwhile, TestTermsThatHarmNobody, apps
from stanchion_conformance.topics.repeats import TestRepeatedEvents
from stanchion_conformance.topics.topics import (
    TestKeysOfEvents,
    TestSubscribedTasks,
    TestTopics,
    TestTopicsAtTheDoor,
    TestTopicsInTransactions,
    topic,
    uncached,
)

__all__ = [
    "TestAFailedMember",
    "TestANewRelease",
    "TestAStoppedFlow",
    "TestAWrongClockOfTheClient",
    "TestActingOnAnotherQueue",
    "TestAddedOnce",
    "TestAddedOnceInTransactions",
    "TestAdoptedJobs",
    "TestAdoptedKeys",
    "TestAdopting",
    "TestAfterTheBlock",
    "TestAgainstTheReference",
    "TestAlone",
    "TestAnOpenNode",
    "TestAnotherDatabase",
    "TestAttempts",
    "TestAwaiting",
    "TestBands",
    "TestBatch",
    "TestBatches",
    "TestBestHeads",
    "TestBuryAndAbandon",
    "TestCancel",
    "TestCancelAFlow",
    "TestCancelledAwaits",
    "TestChain",
    "TestCharges",
    "TestCheckpoints",
    "TestCheckpointsOfTasks",
    "TestCirclesOfDeadLetters",
    "TestColumns",
    "TestCommit",
    "TestConditions",
    "TestConsumers",
    "TestConsumingPartitions",
    "TestContinuing",
    "TestCopyingPartitions",
    "TestCostOfAFeed",
    "TestCounts",
    "TestDeadLetters",
    "TestDeadToThoseWhoLook",
    "TestDeath",
    "TestDeathAtEachStep",
    "TestDeathsInAResize",
    "TestDeclaredAtTheCall",
    "TestDeclaredInATransaction",
    "TestDeclaredLanes",
    "TestDeclaredSemaphores",
    "TestDeclaredSettings",
    "TestDeclaring",
    "TestDelayOfTheTask",
    "TestDelete",
    "TestDeleteFinished",
    "TestDeleteQueued",
    "TestDeleteTogether",
    "TestDrain",
    "TestDue",
    "TestEachWayForEachShape",
    "TestEncryption",
    "TestEndedElsewhere",
    "TestEventGroups",
    "TestEvents",
    "TestEveryHolderLetsGo",
    "TestEveryJobGoesToOne",
    "TestEverySlotIsFreed",
    "TestExpiryAtTheDoor",
    "TestExtendedOnce",
    "TestFailingPayloads",
    "TestFailure",
    "TestFailuresOfStations",
    "TestFairness",
    "TestFanOut",
    "TestFanOutInTransactions",
    "TestFeed",
    "TestFeedInTransactions",
    "TestFeedResumed",
    "TestFeedWithinATick",
    "TestFencing",
    "TestFiguresOfPartitions",
    "TestFilters",
    "TestFind",
    "TestFindItems",
    "TestFindingInPartitions",
    "TestFlowsAtTheDoor",
    "TestFlowsInTransactions",
    "TestFlowsOfACallersTransaction",
    "TestForks",
    "TestGraph",
    "TestGroup",
    "TestHandles",
    "TestHeadersOfAMove",
    "TestHeads",
    "TestHeartbeat",
    "TestHeldKeys",
    "TestHistory",
    "TestHolders",
    "TestInASecondLife",
    "TestInnocentJobs",
    "TestInsideALane",
    "TestJoining",
    "TestKeyedRates",
    "TestKeysOfEvents",
    "TestKeysStay",
    "TestLaneDepths",
    "TestLaneOfATenant",
    "TestLaneSettings",
    "TestLanesAgainstTheReference",
    "TestLanesAndLimits",
    "TestLanesElsewhere",
    "TestLargeBatches",
    "TestLateSubscribers",
    "TestLease",
    "TestLeaseOfAHolder",
    "TestLimits",
    "TestListOfHolders",
    "TestListener",
    "TestLoops",
    "TestLostClaims",
    "TestLostLeases",
    "TestLostSignals",
    "TestMaintain",
    "TestManySchedulers",
    "TestManyWaiting",
    "TestMaxRate",
    "TestMaxRunning",
    "TestMembersOfANode",
    "TestMinRank",
    "TestMissedTicks",
    "TestMove",
    "TestNextDue",
    "TestNoMembersOfAFlow",
    "TestNoSpinning",
    "TestNonsense",
    "TestOneAtATime",
    "TestOneWins",
    "TestOpeningAFlow",
    "TestOperatingPartitions",
    "TestOperatingSchedules",
    "TestOperatingStreams",
    "TestOrder",
    "TestOrderAndSlots",
    "TestOrderInRaces",
    "TestOrderOfQueues",
    "TestOrderedByTenant",
    "TestOrderedQueues",
    "TestOrders",
    "TestOtherQueue",
    "TestPages",
    "TestPartition",
    "TestPartitionOfAJob",
    "TestPassed",
    "TestPause",
    "TestPayloadOfTheEntry",
    "TestPayloadsAtTheDoor",
    "TestPayloadsInFlows",
    "TestPermitsAlongAnyPath",
    "TestPoison",
    "TestPop",
    "TestProgress",
    "TestPublishedAhead",
    "TestPublishing",
    "TestPublishingWithAValue",
    "TestPublishingWithFinish",
    "TestPurge",
    "TestPush",
    "TestPushSignal",
    "TestPutOff",
    "TestQueriesWithState",
    "TestQueuePatterns",
    "TestQueuesThatExpire",
    "TestQueuesThatExpireWithJobs",
    "TestRacesForSlots",
    "TestRangesOfLanes",
    "TestRatesAndOtherLimits",
    "TestRatesOfTheModel",
    "TestReadersOfAFeed",
    "TestRecovery",
    "TestRefusedAtTheDoor",
    "TestRefusedPositions",
    "TestRefusing",
    "TestRenewals",
    "TestRepair",
    "TestRepeatedClaim",
    "TestRepeatedEvents",
    "TestRepeatedOutcome",
    "TestRepeats",
    "TestReplay",
    "TestReplayAfterAChange",
    "TestReplayInAFlow",
    "TestReplayInAnotherStore",
    "TestReplayOfEncryptedItems",
    "TestReplayOfItems",
    "TestReplayOfMovedItems",
    "TestReplayOfWhatHasChanged",
    "TestReplaysOfOthers",
    "TestReplaysOnce",
    "TestReserve",
    "TestReservedJobs",
    "TestResizing",
    "TestResizingPartitions",
    "TestRetry",
    "TestRollback",
    "TestRoundRobin",
    "TestRoundRobinAgainstTheReference",
    "TestScan",
    "TestScheduledJobsStandAside",
    "TestSearchByContents",
    "TestSearchByTheEnd",
    "TestSelect",
    "TestSemaphores",
    "TestSettings",
    "TestSettle",
    "TestSetup",
    "TestSeveralSemaphores",
    "TestShapes",
    "TestSharedPolling",
    "TestShares",
    "TestSignalledEnds",
    "TestSizes",
    "TestSlots",
    "TestSlotsTakenAgain",
    "TestStaged",
    "TestStations",
    "TestStats",
    "TestStoppedStreams",
    "TestStrangeNames",
    "TestStreams",
    "TestSubscribedTasks",
    "TestSubscriptionsMeanwhile",
    "TestSuspended",
    "TestTailCalls",
    "TestTasks",
    "TestTermsThatHarmNobody",
    "TestTheClock",
    "TestTheFirstIsWaitedFor",
    "TestTheLine",
    "TestTheNextOfAKey",
    "TestThereAndBack",
    "TestThreads",
    "TestTicks",
    "TestTogether",
    "TestTogetherInTransactions",
    "TestTopics",
    "TestTopicsAtTheDoor",
    "TestTopicsInTransactions",
    "TestTrail",
    "TestTwoDrivers",
    "TestUniqueKeys",
    "TestUnknownOptions",
    "TestUnknownWork",
    "TestValues",
    "TestWaitForWork",
    "TestWaiting",
    "TestWaitingForASlot",
    "TestWaitingForAnOrderKey",
    "TestWaysIntoAnOrderedQueue",
    "TestWhatGoesAlong",
    "TestWhatIsStored",
    "TestWhatWasTakenForSomethingElse",
    "TestWorkersOfLanes",
    "TestWorkingOnPartitions",
    "app",
    "apps",
    "at_once",
    "calendar",
    "clock",
    "elsewhere_parted",
    "elsewhere_q",
    "etl",
    "key",
    "laned",
    "letters",
    "lines",
    "mode",
    "new_store",
    "other_app",
    "other_q",
    "other_store",
    "parent",
    "parted",
    "passing",
    "plain",
    "q",
    "sealed",
    "sink",
    "small_steps",
    "start",
    "store",
    "stores",
    "three",
    "topic",
    "trips",
    "uncached",
    "work",
    "wrong_clock",
]
