"""Cases of what managers need of a store."""

from stanchion_conformance.manager.by_id import TestAloneById, TestClaimsById, TestNotAfter, TestRepeatedClaimsById
from stanchion_conformance.manager.by_id_limits import TestLimitsOfClaimsById, TestSlotsOfClaimsById
from stanchion_conformance.manager.by_id_races import TestRacesOfClaimsById, both
from stanchion_conformance.manager.dividing import TestClaimsToDivide
from stanchion_conformance.manager.starts import TestPushAsRunning, TestRepeatedPushAsRunning

__all__ = [
    "TestAloneById",
    "TestClaimsById",
    "TestClaimsToDivide",
    "TestLimitsOfClaimsById",
    "TestNotAfter",
    "TestPushAsRunning",
    "TestRacesOfClaimsById",
    "TestRepeatedClaimsById",
    "TestRepeatedPushAsRunning",
    "TestSlotsOfClaimsById",
    "both",
]
