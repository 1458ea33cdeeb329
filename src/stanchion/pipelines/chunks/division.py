"""The outcome of a chunk: it stays whole where all of its items end alike, and is divided where they part.

A chunk that stays whole has the outcome that one item would have. A divided one ends, and its parts are new jobs,
stored in the same step: one for each way, one for the retried items, dead letters, and the items that were not begun.
Each item is in exactly one part, under its name, even if the worker or the database dies.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from stanchion.context.queues.settings import settings_of
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.cutting import fitting
from stanchion.core.chunks.stored import passing, stored
from stanchion.core.ids import new_id
from stanchion.core.values.framing import Content
from stanchion.core.values.plain import plain_model
from stanchion.errors import InvalidInput
from stanchion.jobs.outcome import UNCHANGED
from stanchion.pipelines.chunks.ends import Ends, Failed, Values, Way
from stanchion.pipelines.chunks.folder_items import check_items
from stanchion.pipelines.chunks.in_order import cut_behind, in_line, placed, tried_by
from stanchion.pipelines.chunks.parts import unrun
from stanchion.pipelines.chunks.station import DividingStation
from stanchion.pipelines.chunks.table_rows import RowsOfChunk, storable
from stanchion.pipelines.route import headers_after
from stanchion.stores.records.jobs import SECOND, JobRow, NewJob
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Ending, Rollback, TableRows, Tally
from stanchion.stores.rules.lifecycle.error_entries import with_error
from stanchion.stores.rules.lifecycle.outcomes import commit_of
from stanchion.stores.rules.lifecycle.trail import arrived, cut_trail, split_trail

LETTERS_MOST: Final = 100
"""Items of one chunk that become dead letters of their own; more become one letter."""
PARTS_MOST: Final = 32
"""Parts that the rest of a chunk is cut into."""
WAYS_MOST: Final = 16
"""Ways on which the items of one chunk may part."""


class LeftBehind(NamedTuple):
    """The items of a chunk that did not pass a station with it: the jobs that they are in, and what they count as."""

    jobs: tuple[NewJob, ...] = ()
    tallies: tuple[Tally, ...] = ()


NOBODY: Final = LeftBehind()


class Division:
    """Makes the outcome of a chunk at a station of the ends of its items.

    `behind`: of stations that the chunk has passed in the same attempt.
    """

    def __init__(self, station: DividingStation, row: JobRow, items: Chunk, behind: LeftBehind = NOBODY) -> None:
        self._station, self._row, self._items = station, row, items
        self._codec = station.context.codec
        self._jobs, self._tallies = [*behind.jobs], [*behind.tallies]
        self._alone = not self._tallies
        """All items that the chunk had when it was claimed are still in it."""
        self._rows: tuple[TableRows, ...] = ()
        self._in_order = row.order_key is not None and station.keeps_order
        self._written: Sequence[int] = ()
        """The places of the items that became rows."""

    def outcome(self, ends: Ends, *, in_memory: bool = False) -> Ending:
        """Return the outcome. Raises InvalidInput if the items part on too many ways.

        `in_memory`: a chunk that moves as a whole need not be encoded yet.
        """
        if self._in_order:
            cut_behind(self._items, ends)
        if self._station.tables:
            self._rows, self._written = RowsOfChunk(self._station, self._row, self._items).taken(ends)
        if self._station.folders:
            check_items(self._station, self._row, self._items, ends)
        going_on = self._going_on(ends)
        together = self._alone and not ends.failed and ends.left is None and not ends.several
        if together and not going_on and len(self._written) in (0, len(self._items)):
            return commit_of(self._row, self._result(ends))._replace(rows=self._rows)
        if together and len(going_on) == 1 and not self._written and not ends.dropped:
            ((way, parts),) = going_on.items()
            if len(parts) == 1 and len(parts[0]) == len(self._items):
                whole = passing(self._codec, parts[0]) if in_memory else self._stored(parts[0])
                return self._station.moved(self._row, way, whole)
        if self._alone and (alike := self._alike(ends)) is not None:
            return alike
        return self._divided(ends, going_on)

    def split(self, alone: Sequence[int]) -> Commit:
        """Return the outcome that makes a job of each of these items, and leaves the others together in one.

        None was run, so each keeps the time, the attempts and the errors of the chunk; one of a dead chunk is dead.
        """
        row, taken = self._row, set(alone)
        rest = [index for index in range(len(self._items)) if index not in taken]
        for indices in (*([index] for index in alone), *([rest] if rest else ())):
            for part in self._of_items(indices):
                self._add(unrun(row, self._kept(row.queue, part)), part, cut_trail(row))
        return commit_of(row, jobs=tuple(self._jobs))._replace(tallies=tuple(self._tallies))

    def left_behind(self, ends: Ends) -> LeftBehind:
        """Return the items that do not pass the station with the chunk. `ends`: without those that do."""
        self._divide(ends, self._going_on(ends))
        # The chunk itself counts as moved, with all of its items.
        self._count("moved", -len(ends.failed) - self._finished(ends) - self._unbegun(ends))
        return LeftBehind(tuple(self._jobs), tuple(self._tallies))

    # -- items that move to other stations

    def _going_on(self, ends: Ends) -> dict[Way, list[Chunk]]:
        """Return the chunks for each way, each small enough to be stored."""
        ways: dict[Way, list[Chunk]] = {}
        for way, values in list(ends.values.items()):
            ways.setdefault(way, []).extend(self._parts(self._of_values(values, ends)))
        for way, chunks in ends.tables.items():
            for chunk in Chunk.gathered([one.rooted(self._row.id) for one in chunks]):
                ways.setdefault(way, []).extend(self._parts(chunk))
        for way, several in ends.several.items():
            made = Chunk.of(several, to_plain=self._codec.to_plain(plain_model))
            ways.setdefault(way, []).extend(self._parts(made))
        found = {way: parts for way, parts in ways.items() if parts}
        if self._in_order:
            lined = in_line(found)
            found = {way: [one for part in parts for one in self._parts(part)] for way, parts in lined.items()}
        if len(found) > WAYS_MOST:
            raise InvalidInput(
                f"the items of one chunk at station {self._station.station!r} part on {len(found)} ways, by station, "
                f"delay and priority: {WAYS_MOST} are the most; round the delays, or push the items one by one"
            )
        return found

    def _of_values(self, values: Values, ends: Ends) -> Chunk | None:
        """Return values under the names of their items; items whose values JSON can't hold become dead letters."""
        if not values.indices:
            return None
        named = self._items if len(values.indices) == len(self._items) else self._items.take(values.indices)
        if all(value is UNCHANGED for value in values.values):
            return named
        new = [
            self._items.values[index] if value is UNCHANGED else value
            for index, value in zip(values.indices, values.values, strict=True)
        ]
        try:
            made = Chunk.of(new, to_plain=self._codec.to_plain(plain_model))
        except InvalidInput:
            return self._of_values(storable(self._codec, self._row, values, new, ends), ends)
        return made.named(named.root, None if named.content().positions is None else named.positions)

    def _parts(self, chunk: Chunk | None) -> Iterable[Chunk]:
        """Yield a chunk in parts that can be stored, under the names of their items."""
        return () if chunk is None else fitting(chunk.rooted(self._row.id), self._codec.max_payload)

    def _result(self, ends: Ends) -> Content | None:
        """Return the results of the items of an end station; None if no item has one."""
        if ends.result_tables:
            return stored(self._codec, Chunk.joined(ends.result_tables), "result")
        values = ends.results
        if all(value is None for value in values.values):
            return None
        made = Chunk.of(values.values, "result", self._codec.to_plain(plain_model))
        if len(values.indices) == len(self._items) and self._items.content().positions is None:
            return stored(self._codec, made, "result")
        places = self._items.positions
        return stored(self._codec, made.named(self._row.id, [places[index] for index in values.indices]), "result")

    # -- failed items

    def _alike(self, ends: Ends) -> Ending | None:
        """Return the outcome of the whole chunk if all items failed alike; None if they did not."""
        first = ends.failed[0].outcome if ends.failed else None
        if self._in_order and isinstance(first, Rollback) and not ends.failed[0].place:
            return self._of_all(ends.failed)
        if first is None or len(ends.failed) < len(self._items):
            return None
        if {_kind(one.outcome) for one in ends.failed} != {_kind(first)}:
            return None
        if isinstance(first, Bury) and 1 < len(self._items) <= LETTERS_MOST:
            return None
        return self._of_all(ends.failed)

    def _of_all(self, failed: Sequence[Failed]) -> Rollback | Bury | Abandon:
        """Return one outcome for items that failed alike: with the first error, and the longest delay."""
        first = failed[0].outcome
        if isinstance(first, Abandon):
            reasons = [one.outcome.reason for one in failed if isinstance(one.outcome, Abandon)]
            return first._replace(reason=_told(first.reason, reasons))
        errors = [one.outcome.error for one in failed if isinstance(one.outcome, Rollback | Bury)]
        if first.error is None:
            return first
        told = _told(first.error, errors)
        if isinstance(first, Bury):
            return first._replace(error=told)
        delay = max(one.outcome.delay for one in failed if isinstance(one.outcome, Rollback))
        return first._replace(error=told, delay=delay, payload=None)

    # -- a division

    def _divided(self, ends: Ends, going_on: dict[Way, list[Chunk]]) -> Ending:
        self._divide(ends, going_on)
        self._count("moved", len(self._items) - len(ends.failed) - self._finished(ends) - self._unbegun(ends))
        ended = commit_of(self._row, jobs=tuple(self._jobs))._replace(tallies=tuple(self._tallies), rows=self._rows)
        finished = self._written or ends.finished_places()
        if not len(finished):
            return ended if self._jobs else ended._replace(payload=self._stored(self._items))  # all were dropped
        # The items with results, and those that became rows, stay with the job that ends.
        return ended._replace(result=self._result(ends), payload=self._stored(self._items.take(finished)))

    def _divide(self, ends: Ends, going_on: dict[Way, list[Chunk]]) -> None:
        """Make the jobs of the parts, and count them."""
        row, station = self._row, self._station
        for way, parts in going_on.items():
            headers = headers_after(row, station.station, counting=station.loops, forking=True)
            jobs = [station.part_for(row, way, self._stored(part), headers) for part in parts]
            for job, part in zip(jobs, parts, strict=True):
                self._add(job, part, self._arriving(split_trail(row), job.queue))
            if new := len(ends.several.get(way, ())):  # they never came anywhere before
                self._tallies.append(Tally(jobs[0].queue, "pushed", new))
        for failed in _groups(ends.failed):
            self._add_failed(failed, ends.left)
        if ends.left is not None and not (self._in_order and any(map(_goes_again, ends.failed))):
            self._give_back(ends.left)
        self._count("committed", self._finished(ends))

    def _finished(self, ends: Ends) -> int:
        return len(ends.results.indices) + ends.dropped + sum(map(len, ends.result_tables))

    def _unbegun(self, ends: Ends) -> int:
        return 0 if ends.left is None else len(self._items) - ends.left

    def _add_failed(self, failed: Sequence[Failed], left: int | None) -> None:
        outcome = self._of_all(failed)
        indices = [one.place for one in failed]
        match outcome:
            case Abandon():
                self._count("cancelled", len(failed))
            case Rollback():
                self._count("rolled_back", len(failed))
                tried = self._tried(indices[0])
                if self._in_order and left is not None:  # they stay behind it
                    self._count("rolled_back", len(self._items) - left)
                    indices += range(left, len(self._items))
                if outcome.refund:
                    self._stay(indices, tried.attempts - 1, outcome.delay, tried.errors)
                else:
                    self._stay(indices, tried.attempts, outcome.delay, self._errors(tried, outcome))
            case Bury():
                self._count("buried", len(failed))
                self._bury(failed, outcome)

    def _give_back(self, first: int) -> None:
        """Return the items that were not begun, in parts as large as the finished part."""
        left = len(self._items) - first
        self._count("rolled_back", left)
        tried = self._tried(first)
        # Nobody else takes what is in line behind a part: after a slice, one part is enough.
        size = left if self._in_order and first else max(first, -(-left // PARTS_MOST))
        for start in range(first, len(self._items), size):
            stop = min(start + size, len(self._items))
            self._stay(range(start, stop), tried.attempts - 1, 0.0, tried.errors)

    def _stay(self, indices: Sequence[int], attempts: int, delay: float, errors: str | None) -> None:
        """Add a part that stays at the station."""
        for part in self._of_items(indices):
            job = self._kept(self._row.queue, part)
            self._add(job._replace(delay=delay, attempts=attempts, errors=errors), part, cut_trail(self._row))

    def _bury(self, failed: Sequence[Failed], outcome: Bury) -> None:
        dead = settings_of(self._station.context.store, self._row.queue).dead_letter or self._row.queue
        groups: Sequence[Sequence[Failed]] = [failed] if len(failed) > LETTERS_MOST else [[one] for one in failed]
        for group in groups:
            ended = outcome if len(group) > 1 else group[0].outcome
            assert isinstance(ended, Bury)  # noqa: S101 - of a group of burials
            tried = self._tried(group[0].place)
            errors = self._errors(tried, ended)
            for part in self._of_items([one.place for one in group]):
                letter = self._kept(dead, part)
                letter = letter._replace(attempts=tried.attempts, errors=errors, dead_from=self._row.queue)
                away = dead != self._row.queue
                trail = cut_trail(self._row, left=away)
                self._add(letter, part, self._arriving(trail, dead) if away else trail)

    def _tried(self, place: int) -> JobRow:
        return tried_by(self._row, place) if self._in_order else self._row

    def _of_items(self, indices: Sequence[int]) -> Iterator[Chunk]:
        """Yield the unchanged items under their names: the results of a failed attempt are not stored."""
        yield from fitting(self._items.take(indices).rooted(self._row.id), self._codec.max_payload)

    def _errors(self, tried: JobRow, outcome: Rollback | Bury) -> str | None:
        error, trace = outcome.error or "", outcome.traceback
        return with_error(tried, error, trace, int(time.time() * SECOND), outcome.group, outcome.type).errors

    def _kept(self, queue: str, part: Chunk) -> NewJob:
        return self._station.part_of(self._row, queue, self._stored(part))

    def _stored(self, chunk: Chunk) -> Content:
        return stored(self._codec, chunk)

    def _add(self, job: NewJob, part: Chunk, trail: str) -> None:
        """Add a part. Its items were counted on arrival, so they don't count as pushed."""
        job = job._replace(id=new_id(), origin=self._row.id, trail=trail)
        if self._in_order:
            job = placed(self._row, job, part)
        self._jobs.append(job)
        self._tallies.append(Tally(job.queue, "pushed", -len(part)))

    def _arriving(self, trail: str, queue: str) -> str:
        """Return the trail of a part that comes to another queue: in order, it counts as enqueued with its chunk."""
        return arrived(trail, queue, int(time.time() * SECOND)) if self._in_order else trail

    def _count(self, event: str, items: int) -> None:
        if items:
            self._tallies.append(Tally(self._row.queue, event, items))


def _goes_again(failed: Failed) -> bool:
    return isinstance(failed.outcome, Rollback)


def _kind(outcome: Rollback | Bury | Abandon) -> tuple[object, ...]:
    """Return the group of an outcome: failures are retried together, snoozed items by their delay."""
    if not isinstance(outcome, Rollback):
        return (type(outcome),)
    return Rollback, outcome.refund, outcome.delay if outcome.refund else 0.0


def _groups(failed: Iterable[Failed]) -> Iterator[list[Failed]]:
    groups: dict[tuple[object, ...], list[Failed]] = {}
    for one in sorted(failed):
        groups.setdefault(_kind(one.outcome), []).append(one)
    yield from groups.values()


def _told(first: str, all_of_them: Sequence[str | None]) -> str:
    """Return the first error, and how many items failed with it or with another one."""
    if len(all_of_them) == 1:
        return first
    others = len({error for error in all_of_them if error != first})
    more = f", of {others} more kinds" if others > 1 else ", of another kind too" if others else ""
    return f"{first} ({len(all_of_them):,} items{more})"
