"""Cases of semaphores, order keys and rates."""

from stanchion_conformance.limits.declared_rates import TestDeclaredRates, TestDeclaringRates, TestRatesOfOtherTasks
from stanchion_conformance.limits.kept_declarations import TestCopiedDeclarations, TestKeptDeclarations
from stanchion_conformance.limits.many_waiting import TestManyWaiting
from stanchion_conformance.limits.order import TestOrder, TestScheduledJobsStandAside
from stanchion_conformance.limits.order_of_parts import TestItemsInOrder, TestOrderOfParts
from stanchion_conformance.limits.order_races import TestOrderAndSlots, TestOrderInRaces, TestWaitingForAnOrderKey
from stanchion_conformance.limits.order_succession import TestInASecondLife, TestTheNextOfAKey
from stanchion_conformance.limits.ordered_by_tenant import TestOrderedByTenant
from stanchion_conformance.limits.ordered_queues import TestOrderedQueues, TestWaysIntoAnOrderedQueue
from stanchion_conformance.limits.past_waits import (
    TestPastPauses,
    TestPastWaits,
    TestSeveralPastWaits,
    TestWaitsGoWithTheJob,
)
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
from stanchion_conformance.limits.unreadable import TestUnreadableLimits

__all__ = [
    "TestCopiedDeclarations",
    "TestDeclaredRates",
    "TestDeclaringRates",
    "TestEveryHolderLetsGo",
    "TestEverySlotIsFreed",
    "TestInASecondLife",
    "TestItemsInOrder",
    "TestKeptDeclarations",
    "TestKeyedRates",
    "TestManyWaiting",
    "TestOrder",
    "TestOrderAndSlots",
    "TestOrderInRaces",
    "TestOrderOfParts",
    "TestOrderedByTenant",
    "TestOrderedQueues",
    "TestPastPauses",
    "TestPastWaits",
    "TestPermitsAlongAnyPath",
    "TestRacesForSlots",
    "TestRatesAndOtherLimits",
    "TestRatesOfOtherTasks",
    "TestRatesOfTheModel",
    "TestScheduledJobsStandAside",
    "TestSemaphores",
    "TestSeveralPastWaits",
    "TestSeveralSemaphores",
    "TestSlots",
    "TestSlotsTakenAgain",
    "TestTheLine",
    "TestTheNextOfAKey",
    "TestUnreadableLimits",
    "TestWaitingForASlot",
    "TestWaitingForAnOrderKey",
    "TestWaitsGoWithTheJob",
    "TestWaysIntoAnOrderedQueue",
]
