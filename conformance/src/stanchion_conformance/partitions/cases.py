"""Cases of partitioned queues."""

from stanchion_conformance.partitions.consuming import TestConsumingPartitions, TestWorkingOnPartitions
from stanchion_conformance.partitions.operating import (
    TestCopyingPartitions,
    TestFiguresOfPartitions,
    TestFindingInPartitions,
    TestOperatingPartitions,
)
from stanchion_conformance.partitions.placing import (
    TestKeysStay,
    TestPartitionOfAJob,
    elsewhere_parted,
    elsewhere_q,
    parted,
)
from stanchion_conformance.partitions.resizing import TestDeathsInAResize, TestResizingPartitions, at_once

__all__ = [
    "TestConsumingPartitions",
    "TestCopyingPartitions",
    "TestDeathsInAResize",
    "TestFiguresOfPartitions",
    "TestFindingInPartitions",
    "TestKeysStay",
    "TestOperatingPartitions",
    "TestPartitionOfAJob",
    "TestResizingPartitions",
    "TestWorkingOnPartitions",
    "at_once",
    "elsewhere_parted",
    "elsewhere_q",
    "parted",
]
