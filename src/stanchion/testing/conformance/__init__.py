"""The behaviour that every store has, as pytest cases.

A test module that imports all of this, takes out what is not for its store, and has one fixture, runs them on it:

    from stanchion.testing.conformance import *

    del TestRefusing  # of a store that joins transactions; of one that doesn't, TestJoining
    del TestPushSignal  # of a store without push_wakeup

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
    "concurrency",
    "counting",
    "dead_letters",
    "encryption",
    "harness",
    "history",
    "leases",
    "model",
    "operating",
    "order",
    "outcomes",
    "pushing",
    "scheduling",
    "settings",
    "tasks",
    "transactions",
    "transferring",
    "wakeup",
    "workers",
)
pytest.register_assert_rewrite(*(f"{__name__}.{theme}" for theme in _THEMES))

from stanchion.testing.conformance.adopted import TestAdoptedJobs, TestAdoptedKeys
from stanchion.testing.conformance.attempts import TestAttempts
from stanchion.testing.conformance.bad_input import TestRefusedAtTheDoor
from stanchion.testing.conformance.concurrency import (
    TestEveryJobGoesToOne,
    TestLimits,
    TestOneWins,
    TestThreads,
    stores,
)
from stanchion.testing.conformance.counting import TestCounts, TestFind, TestSizes
from stanchion.testing.conformance.dead_letters import TestDeadLetters, letters
from stanchion.testing.conformance.encryption import TestEncryption, key, sealed
from stanchion.testing.conformance.harness import app, clock, new_store, other_app, other_q, other_store, q, store
from stanchion.testing.conformance.history import TestHistory, TestPurge
from stanchion.testing.conformance.leases import (
    TestFencing,
    TestLease,
    TestProgress,
    TestRepeatedClaim,
    TestRepeatedOutcome,
)
from stanchion.testing.conformance.model import TestAgainstTheReference
from stanchion.testing.conformance.operating import TestCancel, TestReplay, TestRetry
from stanchion.testing.conformance.order import TestOrder, TestScheduledJobsStandAside
from stanchion.testing.conformance.outcomes import TestBatches, TestBuryAndAbandon, TestCommit, TestMove, TestRollback
from stanchion.testing.conformance.pushing import TestLargeBatches, TestPop, TestPush, TestRepeats, TestUniqueKeys
from stanchion.testing.conformance.scheduling import TestAWrongClockOfTheClient, TestDue, TestNextDue, wrong_clock
from stanchion.testing.conformance.settings import TestDelete, TestMaxRate, TestMaxRunning, TestPause, TestSettings
from stanchion.testing.conformance.tasks import TestEvents, TestHandles, TestTasks
from stanchion.testing.conformance.transactions import TestJoining, TestRefusing
from stanchion.testing.conformance.transferring import TestAdopting, TestTaking, TestThereAndBack
from stanchion.testing.conformance.wakeup import TestListener, TestNoSpinning, TestPushSignal, TestWaiting
from stanchion.testing.conformance.workers import TestHeartbeat, TestRecovery

__all__ = [
    "TestAWrongClockOfTheClient",
    "TestAdoptedJobs",
    "TestAdoptedKeys",
    "TestAdopting",
    "TestAgainstTheReference",
    "TestAttempts",
    "TestBatches",
    "TestBuryAndAbandon",
    "TestCancel",
    "TestCommit",
    "TestCounts",
    "TestDeadLetters",
    "TestDelete",
    "TestDue",
    "TestEncryption",
    "TestEvents",
    "TestEveryJobGoesToOne",
    "TestFencing",
    "TestFind",
    "TestHandles",
    "TestHeartbeat",
    "TestHistory",
    "TestJoining",
    "TestLargeBatches",
    "TestLease",
    "TestLimits",
    "TestListener",
    "TestMaxRate",
    "TestMaxRunning",
    "TestMove",
    "TestNextDue",
    "TestNoSpinning",
    "TestOneWins",
    "TestOrder",
    "TestPause",
    "TestPop",
    "TestProgress",
    "TestPurge",
    "TestPush",
    "TestPushSignal",
    "TestRecovery",
    "TestRefusedAtTheDoor",
    "TestRefusing",
    "TestRepeatedClaim",
    "TestRepeatedOutcome",
    "TestRepeats",
    "TestReplay",
    "TestRetry",
    "TestRollback",
    "TestScheduledJobsStandAside",
    "TestSettings",
    "TestSizes",
    "TestTaking",
    "TestTasks",
    "TestThereAndBack",
    "TestThreads",
    "TestUniqueKeys",
    "TestWaiting",
    "app",
    "clock",
    "key",
    "letters",
    "new_store",
    "other_app",
    "other_q",
    "other_store",
    "q",
    "sealed",
    "store",
    "stores",
    "wrong_clock",
]
