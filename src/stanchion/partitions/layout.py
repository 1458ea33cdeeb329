"""The layout of a partitioned queue: its physical queues, and which of them gets a job.

    key, order_key    the partition of its hash, among `keys` partitions: fixed for the life of the queue
    tenant            one of the partitions of its shuffle shard, by the hash of the job's id
    otherwise         the partition of the hash of the job's id

A key must be unique, and an order key in order, within the whole queue. So a key must always lead to one partition, in
every process: also in one that has read the layout before it was changed and stores the job much later, or whose
transaction is still open. Therefore `keys` never changes. If the queue had jobs before it was partitioned, it is 0:
keys stay in the queue itself. Other jobs may go anywhere, and a repeated call leads to the same partition as the first.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple, Self

from stanchion.core.names.hashing import bucket, shuffle_shard
from stanchion.core.names.partition_names import partition_name
from stanchion.errors import InvalidInput

KIND: Final = "partitions"
"""The kind of the versioned values that hold the layouts of partitioned queues."""

READ_SECONDS = 10.0
"""Seconds after which a process that maintains its queues reads the layouts again."""

PARTITIONS_PER_TENANT = 6
"""The partitions that a tenant's jobs are spread over, if the queue has so many."""


class Layout(NamedTuple):
    """Numbers of partitions: for new jobs, for jobs with keys, and for reads (the most there ever were).

    With `partitions` 1, new jobs without keys go to the queue itself.
    """

    partitions: int
    keys: int
    read: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the layout in a stored value; fields of newer releases are ignored."""
        stored = json.loads(text)
        return cls(*(stored[name] for name in cls._fields))

    @property
    def text(self) -> str:
        """The layout as it is stored."""
        return json.dumps(self._asdict(), separators=(",", ":"))

    def names(self, queue: str) -> tuple[str, ...]:
        """Return the physical queues that may have jobs: the queue itself, and its partitions."""
        return (queue, *(partition_name(queue, number) for number in range(self.read)))

    def place(self, queue: str, job_id: str, tenant: str | None, key: str | None, order_key: str | None) -> str:
        """Return the physical queue for a job. Raises InvalidInput if its key and its order key lead to two."""
        if key is not None and order_key is not None and key != order_key and self.keys:
            raise InvalidInput(
                f"a job of the partitioned queue {queue!r} has key={key!r} and order_key={order_key!r}, but each of "
                f"them decides its partition: give one of them, or the same text as both"
            )
        if (text := key if key is not None else order_key) is not None:
            return partition_name(queue, bucket(text, self.keys)) if self.keys else queue
        if self.partitions == 1:
            return queue
        if tenant is None:
            return partition_name(queue, bucket(job_id, self.partitions))
        shard = shuffle_shard(tenant, self.partitions, min(PARTITIONS_PER_TENANT, self.partitions))
        return partition_name(queue, shard[bucket(job_id, len(shard))])
