"""Splitting: an operator takes items out of a chunk that waits, or is dead, as jobs of their own.

Steps: (1) reserve the chunk by its id, (2) end it, with its parts as new jobs, in one step. A death between them
leaves the chunk reserved: it is back when the lease ends, and no attempt counts. Many items, or large ones, take
several rounds of these steps, each with the rest of the round before; so each item is in exactly one live job or dead
letter at all times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from stanchion.context.context import Context
from stanchion.context.queues.settings import settings_of
from stanchion.core.checks import several
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.item import no_such_item
from stanchion.core.ids import new_token
from stanchion.core.names.partition_names import logical_name
from stanchion.errors import InvalidInput, JobNotFound
from stanchion.jobs.lookup import acted
from stanchion.pipelines.chunks.division import Division
from stanchion.pipelines.chunks.parts import weight_of
from stanchion.pipelines.chunks.station import DividingStation
from stanchion.stores.records.claims import DIVIDED, Claim
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.stores.rules.lifecycle.jobs import items_of, state_of

MOST: Final = 10_000
"""Items that one call makes jobs of their own: each is a row, of which a store holds fewer than of items."""
AT_ONCE: Final = 1_000
"""Items of one step."""
BYTES_AT_ONCE: Final = 2 << 20
"""Bytes of the new jobs of one step. MongoDB writes it, with the chunk and its rest, as one document of 16 MiB."""
LEASE: Final = 60.0
"""Seconds for which a chunk is reserved while it is split."""


def split(
    context: Context, stations: Mapping[str, DividingStation], job_id: str, items: Iterable[int] | None
) -> list[str]:
    """Make jobs of their own of items of a chunk; return their ids: see `Pipeline.split`.

    `stations`: of the pipeline, by their queues.
    """
    row = context.store.fetch([acted(context, job_id)]).get(job_id)
    if row is None:
        raise JobNotFound(job_id)
    home = logical_name(row.dead_from or row.queue)
    if home not in stations:
        raise InvalidInput(
            f"job {job_id} is in queue {home!r}, which is no station of this pipeline: call split() of the pipeline "
            f"that has it"
        )
    _refuse_unfit(context, row)
    wanted = _wanted(row, _chunk_of(context, row), items)
    made = _Split(context, stations[home])
    made.take_out(row.id, wanted)
    return [*(made.alone[place] for place in wanted), *made.rest]


class _Split:
    """The jobs that items have become: `alone`, by the places of the items; `rest`, those of the other items."""

    def __init__(self, context: Context, station: DividingStation) -> None:
        self._context, self._station = context, station
        self.alone: dict[int, str] = {}
        self.rest: list[str] = []

    def take_out(self, job_id: str, wanted: Sequence[int]) -> None:
        """Take items out of a chunk, in as many steps as needed."""
        todo = [(job_id, wanted)]
        while todo:
            todo += self._step(*todo.pop())

    def _step(self, job_id: str, wanted: Sequence[int]) -> Iterable[tuple[str, Sequence[int]]]:
        """Take the first of these items out of a chunk; return the chunks that hold others, with these."""
        row = self._reserved(job_id)
        try:
            chunk = _chunk_of(self._context, row)
            places = list(chunk.positions)
            index_of = {place: index for index, place in enumerate(places)}
            now = _first_of(row, chunk, [index_of[place] for place in wanted])
            ended = Division(self._station, row, chunk).split(now)
        except BaseException:
            self._context.store.settle([Rollback(row.lease, 0.0, refund=True)])
            raise
        self._end(row, ended)
        for index, job in zip(now, ended.jobs, strict=False):
            self.alone[places[index]] = job.id
        taken, left = set(now), set(wanted[len(now) :])
        rest = [place for index, place in enumerate(places) if index not in taken]
        for job in ended.jobs[len(now) :]:
            here, rest = rest[: items_of(job)], rest[items_of(job) :]
            also = left.intersection(here)
            if len(here) == 1 and also:
                self.alone[here[0]] = job.id  # one item was left, and was to be alone
            elif also:
                yield job.id, [place for place in wanted if place in also]
            else:
                self.rest.append(job.id)

    def _reserved(self, job_id: str) -> JobRow:
        store = self._context.store
        before = store.fetch([job_id]).get(job_id)
        if before is not None:
            claim = Claim(before.queue, 1, new_token(), lease=LEASE, ids=((job_id, ""),), delivery=DIVIDED)
            for row in store.claim(claim).rows:
                return row
        now = store.fetch([job_id]).get(job_id)
        if now is None:
            raise JobNotFound(job_id)
        raise InvalidInput(f"{self._done()}{_unfit(now, state_of(now, store.now())) or _busy(now)}")

    def _end(self, row: JobRow, ended: Commit) -> None:
        if self._context.store.settle([ended]) != [JobState.DONE]:
            raise InvalidInput(
                f"{self._done()}job {row.id} was cancelled, or its lease of {LEASE:g} s ended, while it was split: "
                f"nothing was changed; look at it, then split it again"
            )
        self._context.upkeep.nudge()

    def _done(self) -> str:
        return f"{len(self.alone):,} items are jobs of their own now, but not all: " if self.alone else ""


def _chunk_of(context: Context, row: JobRow) -> Chunk:
    chunk = context.value_of(row.payload)
    assert isinstance(chunk, Chunk)  # noqa: S101 - of a job with items
    return chunk


def _refuse_unfit(context: Context, row: JobRow) -> None:
    """Raise InvalidInput for a job whose items can't be taken out of it."""
    if (told := _unfit(row, state_of(row, context.store.now()))) is not None:
        raise InvalidInput(told)
    if row.order_key is not None or settings_of(context.store, row.queue).ordered:
        raise InvalidInput(f"job {row.id} keeps its place in an order, which its parts would lose; let it run instead")
    if row.flow_root is not None:
        raise InvalidInput(f"job {row.id} belongs to flow {row.flow_root}, which would not wait for its parts")


def _unfit(row: JobRow, state: JobState) -> str | None:
    """Return why a job can't be split, by its state or its items; None if it can."""
    if row.items == 0:
        return f"job {row.id} was divided: its items are in other jobs, whose origin it is; split these"
    if row.items is None:
        return f"job {row.id} carries one item, so there is nothing to split: cancel or retry it as it is"
    if state is JobState.RUNNING:
        return (
            f"job {row.id} is running: pause its station, and wait; it ends, or the items that its worker has not "
            f"begun after 10 s come back as other jobs, which you can split"
        )
    if state is JobState.WAITING:
        slot = row.waits_for
        what = "a slot" if slot is None else f"{slot.kind} {slot.name!r}"
        return f"job {row.id} waits for {what}, so it can't be reserved: split it once it has that"
    if row.finished_at is None:
        return None
    if state is JobState.DEAD:
        return f"job {row.id} is dead in history: pause the station, retry the job, then split it"
    return f"job {row.id} is {state}: only chunks that wait or are dead can be split; to run it again, replay it"


def _busy(row: JobRow) -> str:
    return f"job {row.id} is held by another transaction, or waits for a slot: split it again"


def _wanted(row: JobRow, chunk: Chunk, items: Iterable[int] | None) -> list[int]:
    """Return the places to take out, each once, in the order given. Raises InvalidInput for an unknown one."""
    there = chunk.positions
    wanted = list(there if items is None else dict.fromkeys(several(items, "items", "[17, 18]")))
    known = set(there)
    for place in wanted:
        if isinstance(place, bool) or place not in known:
            raise no_such_item(row.id, chunk, place)
    if not wanted:
        raise InvalidInput("no items given: name some, as items=[17, 18], or leave items out for all")
    if len(wanted) > MOST:
        raise InvalidInput(
            f"{len(wanted):,} items would become {len(wanted):,} jobs, and a call makes up to {MOST:,}: name the items "
            f"that need a job of their own, as items=[17, 18]"
        )
    return wanted


def _first_of(row: JobRow, chunk: Chunk, indices: Sequence[int]) -> list[int]:
    """Return the first items, at least one, that fit into one step."""
    each, found, size = weight_of(row), list[int](), 0
    for index in indices[:AT_ONCE]:
        size += each + len(chunk.text(index))
        if found and size > BYTES_AT_ONCE:
            break
        found.append(index)
    return found
