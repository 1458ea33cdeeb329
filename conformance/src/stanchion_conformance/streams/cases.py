"""Cases of streams, staged jobs and pipelines."""

from stanchion_conformance.streams.backfills import (
    TestBackfills,
    TestBackfillsOnce,
    TestLongHistory,
    TestVersionsOfItems,
    rides,
)
from stanchion_conformance.streams.claims_ahead import TestClaimsAhead, eager
from stanchion_conformance.streams.expectations import (
    TestCountsOfExpectations,
    TestExpectations,
    TestExpectationsOfAsyncStations,
    expecting,
)
from stanchion_conformance.streams.holding import TestHeartbeats, TestHeldBatches
from stanchion_conformance.streams.kept_arrivals import TestKeptArrivals, kept
from stanchion_conformance.streams.outputs import TestOutputsByKey, bills
from stanchion_conformance.streams.pipelines import TestForks, TestLoops, TestStations, TestWhatGoesAlong, etl
from stanchion_conformance.streams.pipelines_failing import TestFailuresOfStations
from stanchion_conformance.streams.pipelines_known import TestKnownPipelines
from stanchion_conformance.streams.prepared import TestPreparedJobs
from stanchion_conformance.streams.publishing import (
    TestPublishingWithAValue,
    TestPublishingWithEnds,
    TestPublishingWithFinish,
)
from stanchion_conformance.streams.replays import TestFindItems, TestReplayOfItems, trips
from stanchion_conformance.streams.replays_later import (
    TestReplayAfterAChange,
    TestReplayInAFlow,
    TestReplayInAnotherStore,
    TestReplayOfEncryptedItems,
    TestReplayOfMovedItems,
)
from stanchion_conformance.streams.replays_of_chunks import TestBackfillOfChunks, TestReplayOfChunks, flights
from stanchion_conformance.streams.replays_once import TestReplaysOfOthers, TestReplaysOnce, lines
from stanchion_conformance.streams.reserved_jobs import TestReserve, TestReservedJobs
from stanchion_conformance.streams.scanning import TestConditions, TestScan
from stanchion_conformance.streams.splitting import (
    TestItemsOfChunks,
    TestSplit,
    TestSplitInSteps,
    TestSplitRaces,
    TestSplitRefused,
    split,
)
from stanchion_conformance.streams.staging import TestPublishing, TestStaged
from stanchion_conformance.streams.stream_deaths import (
    TestDeathAtEachStep,
    TestLostLeases,
    TestPublishedAhead,
    TestTwoDrivers,
)
from stanchion_conformance.streams.stream_driver import mode
from stanchion_conformance.streams.stream_failures import TestInnocentJobs, TestPoison, TestStoppedStreams
from stanchion_conformance.streams.stream_items import TestBacklogOfItems, TestBatchesOfItems
from stanchion_conformance.streams.stream_states import TestQueriesWithState, sink
from stanchion_conformance.streams.stream_times import TestTimesOfStreams
from stanchion_conformance.streams.streams import TestOperatingStreams, TestRefusedPositions, TestStreams

__all__ = [
    "TestBackfillOfChunks",
    "TestBackfills",
    "TestBackfillsOnce",
    "TestBacklogOfItems",
    "TestBatchesOfItems",
    "TestClaimsAhead",
    "TestConditions",
    "TestCountsOfExpectations",
    "TestDeathAtEachStep",
    "TestExpectations",
    "TestExpectationsOfAsyncStations",
    "TestFailuresOfStations",
    "TestFindItems",
    "TestForks",
    "TestHeartbeats",
    "TestHeldBatches",
    "TestInnocentJobs",
    "TestItemsOfChunks",
    "TestKeptArrivals",
    "TestKnownPipelines",
    "TestLongHistory",
    "TestLoops",
    "TestLostLeases",
    "TestOperatingStreams",
    "TestOutputsByKey",
    "TestPoison",
    "TestPreparedJobs",
    "TestPublishedAhead",
    "TestPublishing",
    "TestPublishingWithAValue",
    "TestPublishingWithEnds",
    "TestPublishingWithFinish",
    "TestQueriesWithState",
    "TestRefusedPositions",
    "TestReplayAfterAChange",
    "TestReplayInAFlow",
    "TestReplayInAnotherStore",
    "TestReplayOfChunks",
    "TestReplayOfEncryptedItems",
    "TestReplayOfItems",
    "TestReplayOfMovedItems",
    "TestReplaysOfOthers",
    "TestReplaysOnce",
    "TestReserve",
    "TestReservedJobs",
    "TestScan",
    "TestSplit",
    "TestSplitInSteps",
    "TestSplitRaces",
    "TestSplitRefused",
    "TestStaged",
    "TestStations",
    "TestStoppedStreams",
    "TestStreams",
    "TestTimesOfStreams",
    "TestTwoDrivers",
    "TestVersionsOfItems",
    "TestWhatGoesAlong",
    "bills",
    "eager",
    "etl",
    "expecting",
    "flights",
    "kept",
    "lines",
    "mode",
    "rides",
    "sink",
    "split",
    "trips",
]
