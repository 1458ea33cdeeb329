"""Physical queues for all that enters a store by the name of a partitioned queue."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

from stanchion.core.names.partition_names import logical_name
from stanchion.partitions.layouts import Layouts
from stanchion.stores.protocol import Store
from stanchion.stores.records.flows import CloseFlow, ExtendFlow, FlowChange, FlowNode, OpenFlow, StopFlow
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Commit, Continue, Extend, Move, Outcome, Pass, Progress, Tally
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.staging import Publication
from stanchion.stores.rules.flows import failure_job
from stanchion.stores.rules.lifecycle.outcomes import leaving_by, queues_of


class Placing:
    """Places jobs, by the layouts that this process knows."""

    def __init__(self, store: Store, layouts: Layouts) -> None:
        self._store, self._layouts = store, layouts

    def job(self, job: NewJob) -> NewJob:
        """Return a new job in its physical queue; the copy of a job may name one of an earlier layout."""
        there = job.id, job.tenant, job.key, job.order_key
        queue = self._of(job.queue, *there)
        if job.dead_from is not None:
            job = job._replace(dead_from=self._of(job.dead_from, *there))
        return job if queue == job.queue else job._replace(queue=queue)

    def jobs(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        """Return new jobs in their physical queues."""
        return [self.job(job) for job in jobs]

    def row(self, row: JobRow) -> JobRow:
        """Return the job of another store in its physical queue here; a dead letter returns to the one here, too."""
        there = row.id, row.tenant, row.key, row.order_key
        home = None if row.dead_from is None else self._of(row.dead_from, *there)
        return row._replace(queue=self._of(row.queue, *there), dead_from=home)

    def changes(self, changes: Sequence[FlowChange]) -> list[FlowChange]:
        """Return changes of flows with their jobs in physical queues."""
        return [self._change(change) for change in changes]

    def outcomes(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """Return outcomes with physical queues in their leases and in the jobs that continue."""
        known = self._layouts.known
        asked = [
            one.lease.id
            for one in outcomes
            if one.lease.queue in known or not known.keys().isdisjoint(map(logical_name, queues_of(one)))
        ]
        rows = self._store.fetch(asked) if asked else {}
        return [self._outcome(one, rows) for one in outcomes]

    def publication(self, publication: Publication) -> Publication:
        """Return a publication that finishes jobs in the physical queue where they are reserved."""
        finish = publication.finish
        if finish is None:
            return publication
        if finish.ends:
            placed = self.outcomes(finish.ends)
            finish = finish._replace(ends=tuple(one for one in placed if not isinstance(one, (Extend, Progress))))
            publication = publication._replace(finish=finish)
        if (layout := self._layouts.known.get(finish.queue)) is None:
            return publication
        where = (
            Condition("queue", "in", layout.names(finish.queue)),
            Condition("token", "=", finish.token),
        )
        found = self._store.select(Query("live", where, order="id", columns=("queue",), limit=1)).rows
        return publication._replace(finish=finish._replace(queue=found[0][0])) if found else publication

    def _of(self, queue: str, job_id: str, tenant: str | None, key: str | None, order_key: str | None) -> str:
        layout, name = self._layouts.of(queue), logical_name(queue)
        return name if layout is None else layout.place(name, job_id, tenant, key, order_key)

    def _change(self, change: FlowChange) -> FlowChange:
        match change:
            case OpenFlow(nodes=nodes, jobs=jobs):
                return OpenFlow([self._node(node) for node in nodes], self.jobs(jobs))
            case ExtendFlow(jobs=jobs):
                return change._replace(jobs=self.jobs(jobs))
            case CloseFlow() | StopFlow():
                return change

    def _node(self, node: FlowNode) -> FlowNode:
        job = failure_job(node)
        if job is None:
            return node
        fields = {name: value for name, value in self.job(job)._asdict().items() if value is not None}
        return node._replace(on_failure=json.dumps(fields))

    def _outcome(self, outcome: Outcome, rows: Mapping[str, JobRow]) -> Outcome:
        row = rows.get(outcome.lease.id)
        if row is not None and logical_name(row.queue) == outcome.lease.queue:  # a stream names the queue itself
            outcome = outcome._replace(lease=outcome.lease._replace(queue=row.queue))
        match outcome:
            case Move() if row is not None:
                queue = self._of(outcome.queue, row.id, row.tenant, None, row.order_key)  # its key does not go along
                return outcome._replace(queue=queue)
            case Continue(lease=lease, job=job, nodes=nodes, jobs=jobs):
                nodes, jobs = tuple(map(self._node, nodes)), tuple(map(self.job, jobs))
                # Within its queue it stays in its partition, so that it keeps its key.
                stays = logical_name(job.queue) == logical_name(lease.queue) and job.order_key is None
                job = job._replace(queue=lease.queue) if stays else self.job(job)
                return outcome._replace(job=job, nodes=nodes, jobs=jobs)
            case Commit(lease=lease, jobs=jobs, tallies=tallies) if jobs:
                tallies = tuple(_placed(tally, lease.queue) for tally in tallies)
                return outcome._replace(jobs=tuple(map(self.job, jobs)), tallies=tallies)
            case Pass(passages=passages, then=then):
                if row is not None:
                    place = partial(self._of, job_id=row.id, tenant=row.tenant, key=None, order_key=row.order_key)
                    passages = tuple(passage._replace(queue=place(passage.queue)) for passage in passages)
                there = then._replace(lease=outcome.lease._replace(queue=passages[-1].queue))
                return leaving_by(outcome._replace(passages=passages), self._outcome(there, rows))
        return outcome


def _placed(tally: Tally, queue: str) -> Tally:
    """Return what becomes of items in the physical queue where their job ends."""
    return tally._replace(queue=queue) if logical_name(tally.queue) == logical_name(queue) else tally
