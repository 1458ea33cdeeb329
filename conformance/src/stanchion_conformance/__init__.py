"""The behaviour of every store, as pytest cases.

A test module imports all of this, deletes the cases that do not apply to its store, and has one fixture:

    from stanchion_conformance import *

    del TestRefusing  # of a store that joins transactions; of one that doesn't, TestJoining and TestAnotherDatabase,
    # and TestFeedInTransactions
    del TestPushSignal, TestSignalledEnds  # of a store without push_wakeup
    del TestPreparedJobs  # of a store without prepared_jobs
    del TestResultTables, TestRefusedRows  # of a store without tables for results; of one with them, TestNoTables

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

from stanchion_conformance.cron.cases import *
from stanchion_conformance.feed.cases import *
from stanchion_conformance.flows.cases import *
from stanchion_conformance.harness import app as app
from stanchion_conformance.harness import clock as clock
from stanchion_conformance.harness import new_store as new_store
from stanchion_conformance.harness import other_app as other_app
from stanchion_conformance.harness import other_q as other_q
from stanchion_conformance.harness import other_store as other_store
from stanchion_conformance.harness import q as q
from stanchion_conformance.harness import store as store
from stanchion_conformance.jobs.cases import *
from stanchion_conformance.lanes.cases import *
from stanchion_conformance.limits.cases import *
from stanchion_conformance.manager.cases import *
from stanchion_conformance.model import TestAgainstTheReference as TestAgainstTheReference
from stanchion_conformance.operate.cases import *
from stanchion_conformance.partitions.cases import *
from stanchion_conformance.streams.cases import *
from stanchion_conformance.topics.cases import *
