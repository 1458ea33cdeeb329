"""Cases of flows."""

from stanchion_conformance.flows.added_once import TestAddedOnce, TestAddedOnceInTransactions, TestExtendedOnce
from stanchion_conformance.flows.canvas import TestHandlesAsAWhole, TestImmutableCalls, TestPipes
from stanchion_conformance.flows.fan_out import TestFanOut, TestFanOutInTransactions, TestHeadersOfAMove, parent
from stanchion_conformance.flows.flow_ends import TestAFailedMember, TestAStoppedFlow, TestContinuing
from stanchion_conformance.flows.flow_failures import TestCancelAFlow, TestFailure, TestFailureOfAPart
from stanchion_conformance.flows.flow_growth import TestEventGroups, TestTailCalls
from stanchion_conformance.flows.flow_nodes import (
    TestAnOpenNode,
    TestFlowsInTransactions,
    TestMembersOfANode,
    TestOpeningAFlow,
)
from stanchion_conformance.flows.flow_payloads import (
    TestFailingPayloads,
    TestPayloadsAtTheDoor,
    TestPayloadsInFlows,
    plain,
)
from stanchion_conformance.flows.flow_views import TestFlowsAtTheDoor, TestFlowsOfACallersTransaction, TestGraph
from stanchion_conformance.flows.flows import TestChain, TestGroup, small_steps, work

__all__ = [
    "TestAFailedMember",
    "TestAStoppedFlow",
    "TestAddedOnce",
    "TestAddedOnceInTransactions",
    "TestAnOpenNode",
    "TestCancelAFlow",
    "TestChain",
    "TestContinuing",
    "TestEventGroups",
    "TestExtendedOnce",
    "TestFailingPayloads",
    "TestFailure",
    "TestFailureOfAPart",
    "TestFanOut",
    "TestFanOutInTransactions",
    "TestFlowsAtTheDoor",
    "TestFlowsInTransactions",
    "TestFlowsOfACallersTransaction",
    "TestGraph",
    "TestGroup",
    "TestHandlesAsAWhole",
    "TestHeadersOfAMove",
    "TestImmutableCalls",
    "TestMembersOfANode",
    "TestOpeningAFlow",
    "TestPayloadsAtTheDoor",
    "TestPayloadsInFlows",
    "TestPipes",
    "TestTailCalls",
    "parent",
    "plain",
    "small_steps",
    "work",
]
