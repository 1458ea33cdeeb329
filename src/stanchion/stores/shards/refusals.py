"""What does not hold across shards, and is refused for jobs of a queue that is divided among them.

A slot, a node of a flow and a job that waits for one of them are rows of one database. A partition may be in another
one, and no step is atomic in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stanchion.core.names.partition_names import logical_name
from stanchion.errors import CannotJoin, InvalidInput
from stanchion.stores.records.flows import ExtendFlow, FlowChange, OpenFlow
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Continue, Outcome
from stanchion.stores.records.staging import Publication
from stanchion.stores.rules.flows import failure_job
from stanchion.stores.rules.lifecycle.outcomes import ends_in, jobs_with, last_of, queues_of
from stanchion.stores.shards.known_map import KnownMap


class Refusals:
    """Refuses operations that the map of shards does not allow."""

    def __init__(self, known_map: KnownMap) -> None:
        self._known_map = known_map

    def joining(self, tx: object) -> None:
        """Refuse a transaction: it is of one database."""
        if tx is not None:
            raise CannotJoin(
                "a store of several shards can't take part in your transaction, which is of one database; leave tx out"
            )

    def jobs(self, jobs: Iterable[NewJob | JobRow]) -> None:
        """Refuse semaphores, rates and flows in divided queues."""
        for job in jobs:
            if job.limits is not None or job.flow_root is not None or job.flow_after is not None:
                self._refuse([job.queue], "jobs with semaphores or rates, and members of flows,")

    def staged(self, jobs: Iterable[NewJob]) -> None:
        """Refuse staged jobs of divided queues: they are published in one step."""
        self._refuse((job.queue for job in jobs), "staged jobs, such as jobs of topics, streams and replays,")

    def publication(self, publication: Publication) -> None:
        """Refuse to finish jobs of a divided queue together with a publication."""
        if publication.finish is not None:
            self._refuse([publication.finish.queue], "streams")
            self.outcomes(publication.finish.ends)

    def changes(self, changes: Sequence[FlowChange]) -> None:
        """Refuse flows with jobs in divided queues."""
        for change in changes:
            opened = change.opens if isinstance(change, ExtendFlow) else change
            jobs = [*change.jobs] if isinstance(change, ExtendFlow) else []
            if isinstance(opened, OpenFlow):
                failing = (failure_job(node) for node in opened.nodes)
                jobs += [*opened.jobs, *(job for job in failing if job is not None)]
            self._refuse((job.queue for job in jobs), "members of flows")

    def outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Refuse outcomes that touch a second queue, if one of both is divided."""
        for outcome in outcomes:
            queue = outcome.lease.queue
            if to := queues_of(outcome):
                self._refuse([queue, *to], "moves to another queue")
            if jobs := jobs_with(outcome):
                self._refuse([queue, *(job.queue for job in jobs)], "commits with new jobs")
            match last_of(outcome):
                case Continue(job=job, nodes=nodes, jobs=jobs):
                    if nodes or jobs or logical_name(job.queue) != logical_name(ends_in(outcome)):
                        self._refuse([queue, job.queue, *(one.queue for one in jobs)], "continuations as flows")
                    self.jobs([job])

    def settings(self, queue: str, changes: Mapping[str, object]) -> None:
        """Refuse dead-letter queues that may be in another shard than the job."""
        if isinstance(letters := changes.get("dead_letter"), str):
            self._refuse([queue, letters], "dead letters")

    def batch(self, queue: str) -> None:
        """Refuse a claim of a batch that a stream reads later, by its token."""
        self._refuse([queue], "streams")

    def _refuse(self, queues: Iterable[str], what: str) -> None:
        for queue in queues:
            if self._known_map.current().divides(queue):
                raise InvalidInput(
                    f"{what} can't be in the queue {logical_name(queue)!r}, whose partitions are in several shards; "
                    f"use a queue that the map of shards does not divide"
                )
