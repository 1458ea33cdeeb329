"""Cases of jobs."""

from stanchion_conformance.jobs.attempts import TestAttempts
from stanchion_conformance.jobs.bad_input import TestRefusedAtTheDoor
from stanchion_conformance.jobs.bands import TestBands
from stanchion_conformance.jobs.batch_tasks import TestBatchesInFlows, TestBatchTasks, TestLimitsOfBatches
from stanchion_conformance.jobs.boundaries import TestActingOnAnotherQueue, TestDrain
from stanchion_conformance.jobs.checkpoints import TestCheckpoints, TestCheckpointsOfTasks, TestReplayOfWhatHasChanged
from stanchion_conformance.jobs.chunk_contents import TestChunkContents, TestPartsOfChunks
from stanchion_conformance.jobs.concurrency import TestEveryJobGoesToOne, TestLimits, TestOneWins, TestThreads, stores
from stanchion_conformance.jobs.consumers import TestConsumers
from stanchion_conformance.jobs.counted_items import TestItemsAreCounted, TestItemsByState
from stanchion_conformance.jobs.dead_letters import (
    TestCirclesOfDeadLetters,
    TestDeadLetters,
    TestDeadToThoseWhoLook,
    letters,
)
from stanchion_conformance.jobs.earlier_attempts import TestEarlierAttempts
from stanchion_conformance.jobs.encryption import TestEncryption, key, sealed
from stanchion_conformance.jobs.error_groups import TestErrorGroups
from stanchion_conformance.jobs.error_types import TestErrorTypes, TestOutcomesFromErrors
from stanchion_conformance.jobs.expiry import TestExpiryOfJobs as TestExpiryOfJobs
from stanchion_conformance.jobs.held_keys import TestHeldKeys
from stanchion_conformance.jobs.hiding import TestHiding
from stanchion_conformance.jobs.history import TestHistory, TestPurge
from stanchion_conformance.jobs.holders import TestHolders, TestLeaseOfAHolder, TestListOfHolders
from stanchion_conformance.jobs.kept_models import TestKeptDataclasses, TestKeptModels, TestKeptResults, echo, p
from stanchion_conformance.jobs.kept_payloads import TestKeptPayloads
from stanchion_conformance.jobs.leases import TestFencing, TestLease, TestRepeatedClaim, TestRepeatedOutcome
from stanchion_conformance.jobs.letters_found import TestAreNoWork, TestFoundByTheQueueWhereTheyDied
from stanchion_conformance.jobs.lost_claims import TestAfterTheBlock, TestLostClaims, TestSuspended
from stanchion_conformance.jobs.lost_leases import TestAlone, TestCharges, TestDelayOfTheTask
from stanchion_conformance.jobs.moves import TestMovesAtOnce
from stanchion_conformance.jobs.nonsense import TestNonsense, TestWhatWasTakenForSomethingElse
from stanchion_conformance.jobs.ordering import TestOneAtATime, TestTheFirstIsWaitedFor
from stanchion_conformance.jobs.other_queues import TestOtherQueue
from stanchion_conformance.jobs.outcomes import (
    TestBatches,
    TestBuryAndAbandon,
    TestCommit,
    TestLongReasons,
    TestMove,
    TestRollback,
)
from stanchion_conformance.jobs.passing_queues import TestPassingQueues
from stanchion_conformance.jobs.passing_to_an_end import TestPassingToAnEnd
from stanchion_conformance.jobs.peeking import TestClear, TestPeek
from stanchion_conformance.jobs.pushing import TestLargeBatches, TestPop, TestPush, TestRepeats, TestUniqueKeys
from stanchion_conformance.jobs.ranks import TestHeads, TestMinRank
from stanchion_conformance.jobs.renewals import TestProgress, TestRenewals
from stanchion_conformance.jobs.result_tables import TestNoTables, TestRefusedRows, TestResultTables
from stanchion_conformance.jobs.retention import TestHistoryByOutcome, TestHistoryMax
from stanchion_conformance.jobs.retrying import TestRetryByError
from stanchion_conformance.jobs.scheduling import TestAWrongClockOfTheClient, TestDue, TestNextDue, wrong_clock
from stanchion_conformance.jobs.stories import TestStories
from stanchion_conformance.jobs.strange_names import TestStrangeNames
from stanchion_conformance.jobs.task_models import TestTaskModels, bill, calls
from stanchion_conformance.jobs.tasks import TestEvents, TestHandles, TestTasks
from stanchion_conformance.jobs.together import (
    TestBatch,
    TestEndedElsewhere,
    TestReservationsOfOthers,
    TestSettle,
    TestTogetherInTransactions,
)
from stanchion_conformance.jobs.trails import TestPassed, TestPayloadOfTheEntry, TestTrail
from stanchion_conformance.jobs.transactions import TestAnotherDatabase, TestJoining, TestRefusing
from stanchion_conformance.jobs.unknown_options import TestNoMembersOfAFlow, TestUnknownOptions
from stanchion_conformance.jobs.unknown_work import TestPutOff, TestUnknownWork

__all__ = [
    "TestAWrongClockOfTheClient",
    "TestActingOnAnotherQueue",
    "TestAfterTheBlock",
    "TestAlone",
    "TestAnotherDatabase",
    "TestAreNoWork",
    "TestAttempts",
    "TestBands",
    "TestBatch",
    "TestBatchTasks",
    "TestBatches",
    "TestBatchesInFlows",
    "TestBuryAndAbandon",
    "TestCharges",
    "TestCheckpoints",
    "TestCheckpointsOfTasks",
    "TestChunkContents",
    "TestCirclesOfDeadLetters",
    "TestClear",
    "TestCommit",
    "TestConsumers",
    "TestDeadLetters",
    "TestDeadToThoseWhoLook",
    "TestDelayOfTheTask",
    "TestDrain",
    "TestDue",
    "TestEarlierAttempts",
    "TestEncryption",
    "TestEndedElsewhere",
    "TestErrorGroups",
    "TestErrorTypes",
    "TestEvents",
    "TestEveryJobGoesToOne",
    "TestExpiryOfJobs",
    "TestFencing",
    "TestFoundByTheQueueWhereTheyDied",
    "TestHandles",
    "TestHeads",
    "TestHeldKeys",
    "TestHiding",
    "TestHistory",
    "TestHistoryByOutcome",
    "TestHistoryMax",
    "TestHolders",
    "TestItemsAreCounted",
    "TestItemsByState",
    "TestJoining",
    "TestKeptDataclasses",
    "TestKeptModels",
    "TestKeptPayloads",
    "TestKeptResults",
    "TestLargeBatches",
    "TestLease",
    "TestLeaseOfAHolder",
    "TestLimits",
    "TestLimitsOfBatches",
    "TestListOfHolders",
    "TestLongReasons",
    "TestLostClaims",
    "TestMinRank",
    "TestMove",
    "TestMovesAtOnce",
    "TestNextDue",
    "TestNoMembersOfAFlow",
    "TestNoTables",
    "TestNonsense",
    "TestOneAtATime",
    "TestOneWins",
    "TestOtherQueue",
    "TestOutcomesFromErrors",
    "TestPartsOfChunks",
    "TestPassed",
    "TestPassingQueues",
    "TestPassingToAnEnd",
    "TestPayloadOfTheEntry",
    "TestPeek",
    "TestPop",
    "TestProgress",
    "TestPurge",
    "TestPush",
    "TestPutOff",
    "TestRefusedAtTheDoor",
    "TestRefusedRows",
    "TestRefusing",
    "TestRenewals",
    "TestRepeatedClaim",
    "TestRepeatedOutcome",
    "TestRepeats",
    "TestReplayOfWhatHasChanged",
    "TestReservationsOfOthers",
    "TestResultTables",
    "TestRetryByError",
    "TestRollback",
    "TestSettle",
    "TestStories",
    "TestStrangeNames",
    "TestSuspended",
    "TestTaskModels",
    "TestTasks",
    "TestTheFirstIsWaitedFor",
    "TestThreads",
    "TestTogetherInTransactions",
    "TestTrail",
    "TestUniqueKeys",
    "TestUnknownOptions",
    "TestUnknownWork",
    "TestWhatWasTakenForSomethingElse",
    "bill",
    "calls",
    "echo",
    "key",
    "letters",
    "p",
    "sealed",
    "stores",
    "wrong_clock",
]
