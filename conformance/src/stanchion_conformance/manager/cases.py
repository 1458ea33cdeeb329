"""Cases of what managers need of a store."""

from stanchion_conformance.manager.by_id import TestAloneById, TestClaimsById, TestNotAfter, TestRepeatedClaimsById
from stanchion_conformance.manager.starts import TestPushAsRunning, TestRepeatedPushAsRunning

__all__ = [
    "TestAloneById",
    "TestClaimsById",
    "TestNotAfter",
    "TestPushAsRunning",
    "TestRepeatedClaimsById",
    "TestRepeatedPushAsRunning",
]
