"""Cases of operation."""

from stanchion_conformance.operate.adopted import TestAdoptedJobs, TestAdoptedKeys
from stanchion_conformance.operate.alerts import TestAlerts, TestMonitor, TestOfJobsThatWaited, TestReads
from stanchion_conformance.operate.audit_log import TestAuditLog
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
from stanchion_conformance.operate.failure_tallies import TestFailureTallies
from stanchion_conformance.operate.ghosts import TestGhostQueues
from stanchion_conformance.operate.long_names import TestFittedNames, TestLongNames
from stanchion_conformance.operate.notes import TestNotes
from stanchion_conformance.operate.odd_queries import TestOddQueries, TestStrangeValues
from stanchion_conformance.operate.of_a_rank import TestOfOneRank
from stanchion_conformance.operate.operating import TestCancel, TestNoIds, TestReplay, TestRetry
from stanchion_conformance.operate.queue_schemas import TestQueueSchemas, TestSchemaEvolution, orders, release
from stanchion_conformance.operate.repair import TestRepair
from stanchion_conformance.operate.rollups import TestRollups
from stanchion_conformance.operate.searching_inside import TestSearchByContents, TestSearchByTheEnd
from stanchion_conformance.operate.selecting import TestColumns, TestOrders, TestPages, TestPartition, TestSelect
from stanchion_conformance.operate.set_back import TestClockSetBack
from stanchion_conformance.operate.settings import TestDelete, TestMaxRate, TestMaxRunning, TestPause, TestSettings
from stanchion_conformance.operate.shapes import TestEachWayForEachShape, TestShapes
from stanchion_conformance.operate.signalled_ends import TestSignalledEnds
from stanchion_conformance.operate.times import TestTimes
from stanchion_conformance.operate.transferring import TestAdopting, TestThereAndBack
from stanchion_conformance.operate.upkeep import TestMaintain, TestSetup, TestShares
from stanchion_conformance.operate.values import TestValues
from stanchion_conformance.operate.waits import TestAwaiting, TestCancelledAwaits, TestLostSignals, TestTogether
from stanchion_conformance.operate.wakeup import TestListener, TestNoSpinning, TestPushSignal, TestWaiting
from stanchion_conformance.operate.worker_lanes import TestQueuePatterns, TestWorkersOfLanes
from stanchion_conformance.operate.workers import TestHeartbeat, TestRecovery, TestSharedPolling

__all__ = [
    "TestAdoptedJobs",
    "TestAdoptedKeys",
    "TestAdopting",
    "TestAlerts",
    "TestAuditLog",
    "TestAwaiting",
    "TestBestHeads",
    "TestCancel",
    "TestCancelledAwaits",
    "TestClockSetBack",
    "TestColumns",
    "TestCounts",
    "TestDeclaredAtTheCall",
    "TestDeclaredInATransaction",
    "TestDeclaredLanes",
    "TestDeclaredSemaphores",
    "TestDeclaredSettings",
    "TestDelete",
    "TestDeleteFinished",
    "TestDeleteQueued",
    "TestDeleteTogether",
    "TestEachWayForEachShape",
    "TestExpiryAtTheDoor",
    "TestFailureTallies",
    "TestFind",
    "TestFittedNames",
    "TestGhostQueues",
    "TestHeartbeat",
    "TestListener",
    "TestLongNames",
    "TestLostSignals",
    "TestMaintain",
    "TestMaxRate",
    "TestMaxRunning",
    "TestMonitor",
    "TestNoIds",
    "TestNoSpinning",
    "TestNotes",
    "TestOddQueries",
    "TestOfJobsThatWaited",
    "TestOfOneRank",
    "TestOrderOfQueues",
    "TestOrders",
    "TestPages",
    "TestPartition",
    "TestPause",
    "TestPushSignal",
    "TestQueuePatterns",
    "TestQueueSchemas",
    "TestQueuesThatExpire",
    "TestQueuesThatExpireWithJobs",
    "TestReads",
    "TestRecovery",
    "TestRepair",
    "TestReplay",
    "TestRetry",
    "TestRollups",
    "TestSchemaEvolution",
    "TestSearchByContents",
    "TestSearchByTheEnd",
    "TestSelect",
    "TestSettings",
    "TestSetup",
    "TestShapes",
    "TestSharedPolling",
    "TestShares",
    "TestSignalledEnds",
    "TestSizes",
    "TestStats",
    "TestStrangeValues",
    "TestThereAndBack",
    "TestTimes",
    "TestTogether",
    "TestValues",
    "TestWaiting",
    "TestWorkersOfLanes",
    "orders",
    "passing",
    "release",
    "start",
    "three",
]
