"""Feeds of what happens, and waiting for work without taking it."""

from stanchion_conformance.feed.events import TestCostOfAFeed, TestFeed
from stanchion_conformance.feed.readers import TestFeedWithinATick, TestReadersOfAFeed
from stanchion_conformance.feed.resuming import TestFeedInTransactions, TestFeedResumed
from stanchion_conformance.feed.waiting import TestWaitForWork

__all__ = [
    "TestCostOfAFeed",
    "TestFeed",
    "TestFeedInTransactions",
    "TestFeedResumed",
    "TestFeedWithinATick",
    "TestReadersOfAFeed",
    "TestWaitForWork",
]
