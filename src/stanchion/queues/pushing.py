"""Pushing jobs into a queue."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Unpack, overload

from stanchion.core.checks import brief, several
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.ids import new_id, new_ids
from stanchion.core.types import Transaction
from stanchion.errors import InvalidInput
from stanchion.jobs import lookup
from stanchion.jobs.insert import batches, insert, store_batches
from stanchion.jobs.job import FreshJob, Job
from stanchion.jobs.options import Push, PushOptions, checked
from stanchion.queues.part import QueuePart
from stanchion.stores.records.jobs import NewJob


class Pushing(QueuePart):
    """Pushes jobs into a queue."""

    def push(self, payload: object, *, tx: Transaction | None = None, **options: Unpack[PushOptions]) -> Job:
        """Store one job; with `tx`, in that transaction. For a duplicate `key`, return the live job that has it."""
        codec = self._context.codec
        fields = checked(options, codec, queue=self.name, declared=self._context.declared_rate) if options else {}
        jobs = [NewJob(new_id(), self.name, codec.encode(payload), **fields)]
        (pushed,) = insert(self._context, jobs, tx)
        if pushed.duplicate:
            return lookup.jobs_of(self._context, jobs, [pushed])[0]
        return FreshJob(self._context, jobs[0], pushed)

    @overload
    def push_many(self, items: Collection[object], *, tx: Transaction | None = None) -> list[Job]: ...
    @overload
    def push_many(self, items: Iterator[object], *, tx: Transaction | None = None) -> int: ...
    def push_many(self, items: Iterable[object], *, tx: Transaction | None = None) -> list[Job] | int:
        """Store many jobs, given as payloads or as `Push(payload, **options)`, in batches of 2000.

        Returns the jobs of a collection. An iterator, which may be endless, is streamed in bounded memory; returns
        the number of new jobs. Each batch is atomic; with `tx`, all together are.
        """
        several(items, "the payloads", "[{'id': 1}, {'id': 2}]")
        stored = store_batches(self._context, (self._new(batch) for batch in batches(items)), tx)
        if isinstance(items, Collection):
            return [job for new, pushed in stored for job in lookup.jobs_of(self._context, new, pushed)]
        return sum(not one.duplicate for _, pushed in stored for one in pushed)

    def _new(self, items: Sequence[object]) -> list[NewJob]:
        encode, codec, declared = self._context.codec.encode, self._context.codec, self._context.declared_rate
        return [
            NewJob(
                job_id,
                self._own(item),
                encode(item.payload),
                **checked(item.options, codec, queue=self.name, declared=declared),
            )
            if isinstance(item, Push)
            else NewJob(job_id, self.name, encode(item))
            for job_id, item in zip(new_ids(len(items)), items, strict=True)
        ]

    def _own(self, item: Push) -> str:
        if item.queue not in (None, self.name):
            raise InvalidInput(
                f"{brief(item)} names another queue than {self.name!r}: push it there, with app.queue({item.queue!r})"
            )
        return self.name

    apush = off_loop(push)
    apush_many = off_loop(push_many)
