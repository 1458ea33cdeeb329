"""Cases of what managers need of a store."""

from stanchion_conformance.manager.by_id import TestAloneById, TestClaimsById, TestNotAfter, TestRepeatedClaimsById

__all__ = ["TestAloneById", "TestClaimsById", "TestNotAfter", "TestRepeatedClaimsById"]
