"""The behaviour that every store has, as pytest cases.

A test module that imports all of this, takes out what is not for its store, and has one fixture, runs them on it:

    from stanchion.testing.conformance import *

    del TestRefusing  # of a store that joins transactions; of one that doesn't, TestJoining and TestAnotherDatabase
    del TestPushSignal, TestSignalledEnds  # of a store without push_wakeup

    @pytest.fixture
    def store_factory():
        ...  # yield a function; close what it has opened

The function opens the database of the case, which is empty at first, once more at each call, as another process would,
and returns a store that is set up. Only a store that lives in one process may be the same object each time. The
cases move the clocks of the stores by their `skew`. Needs pytest and hypothesis.
"""

import pytest

_THEMES = (
    "adopted",
    "attempts",
    "bad_input",
    "boundaries",
    "concurrency",
    "counting",
    "cron",
    "cron_clock",
    "cron_deaths",
    "cron_declaring",
    "cron_operating",
    "dead_letters",
    "declared",
    "discarding",
    "encryption",
    "expiring",
    "fan_out",
    "flow_ends",
    "flow_failures",
    "flow_growth",
    "flow_nodes",
    "flow_views",
    "flows",
    "harness",
    "history",
    "in_hand",
    "lanes",
    "lanes_beside",
    "lanes_model",
    "lanes_of_tenants",
    "leases",
    "lost_leases",
    "long_lines",
    "model",
    "nonsense",
    "notes",
    "operating",
    "order",
    "order_races",
    "order_turns",
    "ordering",
    "outcomes",
    "pipelines",
    "pipelines_failing",
    "publishing",
    "pushing",
    "rates",
    "scanning",
    "schedules",
    "scheduling",
    "semaphore_machine",
    "semaphore_races",
    "semaphores",
    "settings",
    "signalled_ends",
    "slots_freed",
    "staging",
    "strange_names",
    "stream_deaths",
    "stream_driver",
    "stream_failures",
    "stream_states",
    "streams",
    "sweeping",
    "tasks",
    "transactions",
    "transferring",
    "upkeep",
    "unknown_options",
    "unknown_work",
    "waits",
    "wakeup",
    "workers",
)
pytest.register_assert_rewrite(*(f"{__name__}.{theme}" for theme in _THEMES))

from stanchion.testing.conformance.adopted import TestAdoptedJobs, TestAdoptedKeys
from stanchion.testing.conformance.attempts import TestAttempts
from stanchion.testing.conformance.bad_input import TestRefusedAtTheDoor
from stanchion.testing.conformance.boundaries import TestActingOnAnotherQueue, TestDrain
from stanchion.testing.conformance.concurrency import (
    TestEveryJobGoesToOne,
    TestLimits,
    TestOneWins,
    TestThreads,
    stores,
)
from stanchion.testing.conformance.counting import TestCounts, TestFind, TestSizes
from stanchion.testing.conformance.cron import TestManySchedulers, TestTicks
from stanchion.testing.conformance.cron_clock import TestMissedTicks, TestTheClock
from stanchion.testing.conformance.cron_deaths import TestDeath
from stanchion.testing.conformance.cron_declaring import TestDeclaring, TestWhatIsStored
from stanchion.testing.conformance.cron_operating import TestANewRelease, TestOperatingSchedules
from stanchion.testing.conformance.dead_letters import (
    TestCirclesOfDeadLetters,
    TestDeadLetters,
    TestDeadToThoseWhoLook,
    letters,
)
from stanchion.testing.conformance.declared import (
    TestDeclaredAtTheCall,
    TestDeclaredInATransaction,
    TestDeclaredLanes,
    TestDeclaredSemaphores,
    TestDeclaredSettings,
    start,
)
from stanchion.testing.conformance.discarding import TestDiscard
from stanchion.testing.conformance.encryption import TestEncryption, key, sealed
from stanchion.testing.conformance.expiring import (
    TestExpiryAtTheDoor,
    TestQueuesThatExpire,
    TestQueuesThatExpireWithJobs,
    passing,
)
from stanchion.testing.conformance.fan_out import TestFanOut, TestFanOutInTransactions, TestHeadersOfAMove, parent
from stanchion.testing.conformance.flow_ends import TestAFailedMember, TestAStoppedFlow, TestContinuing
from stanchion.testing.conformance.flow_failures import TestCancelAFlow, TestFailure
from stanchion.testing.conformance.flow_growth import TestEventGroups, TestTailCalls
from stanchion.testing.conformance.flow_nodes import (
    TestAnOpenNode,
    TestFlowsInTransactions,
    TestMembersOfANode,
    TestOpeningAFlow,
)
from stanchion.testing.conformance.flow_views import TestFlowsAtTheDoor, TestFlowsOfACallersTransaction, TestGraph
from stanchion.testing.conformance.flows import TestChain, TestGroup, small_steps, work
from stanchion.testing.conformance.harness import app, clock, new_store, other_app, other_q, other_store, q, store
from stanchion.testing.conformance.history import TestHistory, TestPurge
from stanchion.testing.conformance.in_hand import TestInHand, TestReserve
from stanchion.testing.conformance.lanes import TestFairness, TestInsideALane, TestTurns, laned
from stanchion.testing.conformance.lanes_beside import (
    TestLaneDepths,
    TestLanesAndLimits,
    TestLanesElsewhere,
    TestRangesOfLanes,
)
from stanchion.testing.conformance.lanes_model import TestLanesAgainstTheReference
from stanchion.testing.conformance.lanes_of_tenants import TestLaneOfATenant, TestLaneSettings, TestResizing
from stanchion.testing.conformance.leases import (
    TestFencing,
    TestLease,
    TestProgress,
    TestRepeatedClaim,
    TestRepeatedOutcome,
)
from stanchion.testing.conformance.long_lines import TestLongLines
from stanchion.testing.conformance.lost_leases import TestAlone, TestCharges, TestDelayOfTheTask
from stanchion.testing.conformance.model import TestAgainstTheReference
from stanchion.testing.conformance.nonsense import TestNonsense, TestWhatWasTakenForSomethingElse
from stanchion.testing.conformance.notes import TestNotes
from stanchion.testing.conformance.operating import TestCancel, TestReplay, TestRetry
from stanchion.testing.conformance.order import TestOrder, TestScheduledJobsStandAside
from stanchion.testing.conformance.order_races import TestOrderAndSlots, TestOrderInRaces, TestWaitingForATurn
from stanchion.testing.conformance.order_turns import TestInASecondLife, TestTheNextHasItsTurn
from stanchion.testing.conformance.ordering import TestOneAtATime, TestTheFirstIsWaitedFor
from stanchion.testing.conformance.outcomes import TestBatches, TestBuryAndAbandon, TestCommit, TestMove, TestRollback
from stanchion.testing.conformance.pipelines import TestForks, TestLoops, TestStations, TestWhatGoesAlong, etl
from stanchion.testing.conformance.pipelines_failing import TestFailuresOfStations
from stanchion.testing.conformance.publishing import TestPublishingWithANote, TestPublishingWithFinish
from stanchion.testing.conformance.pushing import TestLargeBatches, TestPop, TestPush, TestRepeats, TestUniqueKeys
from stanchion.testing.conformance.rates import TestKeyedRates, TestRatesAndOtherLimits, TestRatesOfTheModel
from stanchion.testing.conformance.scanning import TestConditions, TestScan, TestSplit
from stanchion.testing.conformance.schedules import calendar
from stanchion.testing.conformance.scheduling import TestAWrongClockOfTheClient, TestDue, TestNextDue, wrong_clock
from stanchion.testing.conformance.semaphore_machine import TestPermitsAlongAnyPath
from stanchion.testing.conformance.semaphore_races import TestRacesForSlots, TestSeveralSemaphores, TestWaitingForASlot
from stanchion.testing.conformance.semaphores import TestSemaphores, TestSlots
from stanchion.testing.conformance.settings import TestDelete, TestMaxRate, TestMaxRunning, TestPause, TestSettings
from stanchion.testing.conformance.signalled_ends import TestSignalledEnds
from stanchion.testing.conformance.slots_freed import (
    TestEveryHolderLetsGo,
    TestEverySlotIsFreed,
    TestSlotsTakenAgain,
    TestTheLine,
)
from stanchion.testing.conformance.staging import TestPublishing, TestStaged
from stanchion.testing.conformance.strange_names import TestStrangeNames
from stanchion.testing.conformance.stream_deaths import (
    TestDeathAtEachStep,
    TestLostLeases,
    TestPublishedAhead,
    TestTwoDrivers,
)
from stanchion.testing.conformance.stream_driver import mode
from stanchion.testing.conformance.stream_failures import TestInnocentJobs, TestPoison, TestStoppedStreams
from stanchion.testing.conformance.stream_states import TestQueriesWithState, sink
from stanchion.testing.conformance.streams import TestOperatingStreams, TestRefusedPositions, TestStreams
from stanchion.testing.conformance.sweeping import TestSweep
from stanchion.testing.conformance.tasks import TestEvents, TestHandles, TestTasks
from stanchion.testing.conformance.transactions import TestAnotherDatabase, TestJoining, TestRefusing
from stanchion.testing.conformance.transferring import TestAdopting, TestTaking, TestThereAndBack
from stanchion.testing.conformance.unknown_options import TestNoMembersOfAFlow, TestUnknownOptions
from stanchion.testing.conformance.unknown_work import TestPutOff, TestUnknownWork
from stanchion.testing.conformance.upkeep import TestMaintain, TestShares
from stanchion.testing.conformance.waits import (
    TestAwaiting,
    TestCancelledAwaits,
    TestLostSignals,
    TestTogether,
)
from stanchion.testing.conformance.wakeup import TestListener, TestNoSpinning, TestPushSignal, TestWaiting
from stanchion.testing.conformance.workers import TestHeartbeat, TestRecovery, TestSharedPolling

__all__ = [
    "TestAFailedMember",
    "TestANewRelease",
    "TestAStoppedFlow",
    "TestAWrongClockOfTheClient",
    "TestActingOnAnotherQueue",
    "TestAdoptedJobs",
    "TestAdoptedKeys",
    "TestAdopting",
    "TestAgainstTheReference",
    "TestAlone",
    "TestAnOpenNode",
    "TestAnotherDatabase",
    "TestAttempts",
    "TestAwaiting",
    "TestBatches",
    "TestBuryAndAbandon",
    "TestCancel",
    "TestCancelAFlow",
    "TestCancelledAwaits",
    "TestChain",
    "TestCharges",
    "TestCirclesOfDeadLetters",
    "TestCommit",
    "TestConditions",
    "TestContinuing",
    "TestCounts",
    "TestDeadLetters",
    "TestDeadToThoseWhoLook",
    "TestDeath",
    "TestDeathAtEachStep",
    "TestDeclaredAtTheCall",
    "TestDeclaredInATransaction",
    "TestDeclaredLanes",
    "TestDeclaredSemaphores",
    "TestDeclaredSettings",
    "TestDeclaring",
    "TestDelayOfTheTask",
    "TestDelete",
    "TestDiscard",
    "TestDrain",
    "TestDue",
    "TestEncryption",
    "TestEventGroups",
    "TestEvents",
    "TestEveryHolderLetsGo",
    "TestEveryJobGoesToOne",
    "TestEverySlotIsFreed",
    "TestExpiryAtTheDoor",
    "TestFailure",
    "TestFailuresOfStations",
    "TestFairness",
    "TestFanOut",
    "TestFanOutInTransactions",
    "TestFencing",
    "TestFind",
    "TestFlowsAtTheDoor",
    "TestFlowsInTransactions",
    "TestFlowsOfACallersTransaction",
    "TestForks",
    "TestGraph",
    "TestGroup",
    "TestHandles",
    "TestHeadersOfAMove",
    "TestHeartbeat",
    "TestHistory",
    "TestInASecondLife",
    "TestInHand",
    "TestInnocentJobs",
    "TestInsideALane",
    "TestJoining",
    "TestKeyedRates",
    "TestLaneDepths",
    "TestLaneOfATenant",
    "TestLaneSettings",
    "TestLanesAgainstTheReference",
    "TestLanesAndLimits",
    "TestLanesElsewhere",
    "TestLargeBatches",
    "TestLease",
    "TestLimits",
    "TestListener",
    "TestLongLines",
    "TestLoops",
    "TestLostLeases",
    "TestLostSignals",
    "TestMaintain",
    "TestManySchedulers",
    "TestMaxRate",
    "TestMaxRunning",
    "TestMembersOfANode",
    "TestMissedTicks",
    "TestMove",
    "TestNextDue",
    "TestNoMembersOfAFlow",
    "TestNoSpinning",
    "TestNonsense",
    "TestNotes",
    "TestOneAtATime",
    "TestOneWins",
    "TestOpeningAFlow",
    "TestOperatingSchedules",
    "TestOperatingStreams",
    "TestOrder",
    "TestOrderAndSlots",
    "TestOrderInRaces",
    "TestPause",
    "TestPermitsAlongAnyPath",
    "TestPoison",
    "TestPop",
    "TestProgress",
    "TestPublishedAhead",
    "TestPublishing",
    "TestPublishingWithANote",
    "TestPublishingWithFinish",
    "TestPurge",
    "TestPush",
    "TestPushSignal",
    "TestPutOff",
    "TestQueriesWithState",
    "TestQueuesThatExpire",
    "TestQueuesThatExpireWithJobs",
    "TestRacesForSlots",
    "TestRangesOfLanes",
    "TestRatesAndOtherLimits",
    "TestRatesOfTheModel",
    "TestRecovery",
    "TestRefusedAtTheDoor",
    "TestRefusedPositions",
    "TestRefusing",
    "TestRepeatedClaim",
    "TestRepeatedOutcome",
    "TestRepeats",
    "TestReplay",
    "TestReserve",
    "TestResizing",
    "TestRetry",
    "TestRollback",
    "TestScan",
    "TestScheduledJobsStandAside",
    "TestSemaphores",
    "TestSettings",
    "TestSeveralSemaphores",
    "TestSharedPolling",
    "TestShares",
    "TestSignalledEnds",
    "TestSizes",
    "TestSlots",
    "TestSlotsTakenAgain",
    "TestSplit",
    "TestStaged",
    "TestStations",
    "TestStoppedStreams",
    "TestStrangeNames",
    "TestStreams",
    "TestSweep",
    "TestTailCalls",
    "TestTaking",
    "TestTasks",
    "TestTheClock",
    "TestTheFirstIsWaitedFor",
    "TestTheLine",
    "TestTheNextHasItsTurn",
    "TestThereAndBack",
    "TestThreads",
    "TestTicks",
    "TestTogether",
    "TestTurns",
    "TestTwoDrivers",
    "TestUniqueKeys",
    "TestUnknownOptions",
    "TestUnknownWork",
    "TestWaiting",
    "TestWaitingForASlot",
    "TestWaitingForATurn",
    "TestWhatGoesAlong",
    "TestWhatIsStored",
    "TestWhatWasTakenForSomethingElse",
    "app",
    "calendar",
    "clock",
    "etl",
    "key",
    "laned",
    "letters",
    "mode",
    "new_store",
    "other_app",
    "other_q",
    "other_store",
    "parent",
    "passing",
    "q",
    "sealed",
    "sink",
    "small_steps",
    "start",
    "store",
    "stores",
    "work",
    "wrong_clock",
]
