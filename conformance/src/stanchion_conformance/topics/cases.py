"""Topics and their subscriptions."""

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
    "TestFilters",
    "TestKeysOfEvents",
    "TestLateSubscribers",
    "TestRepeatedEvents",
    "TestSubscribedTasks",
    "TestSubscriptionsMeanwhile",
    "TestTermsThatHarmNobody",
    "TestTopics",
    "TestTopicsAtTheDoor",
    "TestTopicsInTransactions",
    "apps",
    "topic",
    "uncached",
]
