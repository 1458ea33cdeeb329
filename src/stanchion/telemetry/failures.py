"""Failed attempts, tallied by the workers for each queue and group of errors.

A worker tallies in memory, and with its heartbeat, if there is anything new, merges its tallies into one value per
queue by compare-and-set. So a failure costs no write, the values are bounded by the number of queues rather than the
number of workers over time, and one read returns all. A worker that loses the race reads the value again; after a few
times it keeps its tallies for its next heartbeat. A killed worker loses its tallies since the last heartbeat. A merge
whose reply is lost is made again, and its failures count twice, unless it names its batch: the value keeps the last
batch of each stream that was merged into it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from stanchion.core.names.partition_names import logical_name
from stanchion.core.text.error_kinds import group_in, kind_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.rules.lifecycle.dead_letters import is_letter
from stanchion.stores.rules.lifecycle.error_entries import entries_of

KIND: Final = "failures"
"""Kind of the versioned values, which are named by queue."""

UNMET: Final = "expectations"
"""Kind of the values that tally items of stations that did not meet an expectation, by its condition."""

OTHER: Final = "other"
"""The key of all groups beyond the first GROUPS_MAX, together."""

GROUPS_MAX: Final = 200
LOST: Final = "LeaseLost"
IDS: Final = 5
"""Jobs that are named with a group, the newest."""

MINUTE: Final = 60 * SECOND
STEP: Final = 10 * SECOND
"""Resolution of a worker's tally in microseconds, until it knows the time of the store."""

SHOWN: Final = 60
"""Minutes whose failures are counted one by one."""

KEPT: Final = 48 * 3600 * SECOND
"""Microseconds after its last failure for which a group is kept."""

TRIES: Final = 3

_BATCHES: Final = ""
"""The key of the batches in a stored value; no group has it."""


class Batch(NamedTuple):
    """The tallied batch, by its token, and its stream. Of a stream, the last one is kept."""

    stream: str
    token: str


@dataclass
class Failures:
    """The failures of a group. `error`: its kind; `failed`: attempts; `jobs`: first failures of jobs by it.

    `first`, `last`: times; `minutes`: failed attempts by the number of the minute since 1970; `ids`: the newest jobs.
    """

    error: str
    task: str
    failed: int = 0
    jobs: int = 0
    dead: int = 0
    first: int = 0
    last: int = 0
    minutes: dict[int, int] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)

    def add(self, other: Failures) -> None:
        """Add the failures of the same group."""
        if other.last >= self.last:
            self.error = other.error
        self.first = min(self.first, other.first) if self.failed else other.first
        self.last = max(self.last, other.last)
        self.failed, self.jobs, self.dead = self.failed + other.failed, self.jobs + other.jobs, self.dead + other.dead
        for minute, count in other.minutes.items():
            self.minutes[minute] = self.minutes.get(minute, 0) + count
        self.ids = list(dict.fromkeys([*other.ids, *self.ids]))[:IDS]

    def in_the_hour(self, now: int) -> list[int]:
        """Return the failed attempts of each of the last SHOWN minutes, oldest first."""
        last = now // MINUTE
        return [self.minutes.get(minute, 0) for minute in range(last - SHOWN + 1, last + 1)]


Groups = dict[str, Failures]


class FailureTally:
    """One worker's tallies of one kind. Any thread may call."""

    def __init__(self, kind: str = KIND) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._pending: dict[str, Groups] = {}
        self._merged_at = time.monotonic()

    @property
    def pending(self) -> bool:
        """Whether there is anything that is not in the store yet."""
        return bool(self._pending)

    def add(self, queue: str, task: str | None, group: str, error: str, job_id: str, *, new: bool, dead: bool) -> None:
        """Add a failed attempt. `new`: the first one of its job by this group of errors."""
        at = int(time.monotonic() * SECOND)  # the time of the store is not known here
        one = Failures(kind_of(error), task or "", 1, int(new), int(dead), at, at, {at - at % STEP: 1}, [job_id])
        with self._lock:
            _take(self._pending.setdefault(logical_name(queue), {}), group, one)

    def add_lost(self, rows: Sequence[JobRow]) -> None:
        """Add the lost leases of jobs that were taken back."""
        for row in rows:
            last = entries_of(row)[-1:]
            if row.state != JobState.CANCELLED and last and last[0]["error"].startswith(LOST):
                dead = row.state == JobState.DEAD or is_letter(row)
                group = group_in(last[0], row.task)
                new = (row.errors or "").count(f'"group":"{group}"') == 1
                queue = row.dead_from if is_letter(row) else row.queue
                self.add(queue or row.queue, row.task, group, last[0]["error"], row.id, new=new, dead=dead)

    def merge(self, store: Store, every: float = 0.0, batch: Batch | None = None) -> None:
        """Merge new tallies into the store, unless that was done within `every` seconds. Raises StanchionError.

        `batch`: all of it is of this batch, and is dropped if a process has merged the batch before.
        """
        if not self._pending or time.monotonic() - self._merged_at < every:
            return
        with self._lock:
            pending, self._pending, self._merged_at = self._pending, {}, time.monotonic()
        try:
            now = store.now()
            for _ in range(TRIES):
                if pending:
                    _merge_once(store, self._kind, pending, now, now - int(time.monotonic() * SECOND), batch)
        finally:
            with self._lock:
                for queue, groups in pending.items():
                    for key, one in groups.items():
                        _take(self._pending.setdefault(queue, {}), key, one)


def _merge_once(store: Store, kind: str, pending: dict[str, Groups], now: int, ahead: int, batch: Batch | None) -> None:
    """Merge pending tallies, and remove merged ones. `ahead`: of the store's clock."""
    known = {value.name: value for value in store.values(kind, list(pending))}
    for queue, groups in list(pending.items()):
        value = known.get(queue)
        found = {} if value is None else groups_in(value.text)
        merged = {} if value is None else _batches_in(value.text)
        if batch is not None:
            if merged.get(batch.stream, ("", 0))[0] == batch.token:
                del pending[queue]
                continue
            merged[batch.stream] = batch.token, now
        for key, one in groups.items():
            _take(found, key, _by_the_store(one, ahead))
        if store.compare_and_set(kind, queue, _text(found, merged, now), 0 if value is None else value.version):
            del pending[queue]
            if value is None:
                _forget_old(store, kind, now)


def _forget_old(store: Store, kind: str, now: int) -> None:
    """Delete the values of queues without recent failures; done when a value is new."""
    for value in store.values(kind):
        if all(now - one.last > KEPT for one in groups_in(value.text).values()):
            store.compare_and_set(kind, value.name, None, value.version)


def _by_the_store(one: Failures, ahead: int) -> Failures:
    found = Failures(**{**vars(one), "first": one.first + ahead, "last": one.last + ahead, "minutes": {}})
    for at, count in one.minutes.items():
        minute = (at + ahead) // MINUTE
        found.minutes[minute] = found.minutes.get(minute, 0) + count
    return found


def _take(groups: Groups, key: str, one: Failures) -> None:
    """Add failures to their group; to the other ones, if there are too many."""
    if key not in groups and key != OTHER and len(groups.keys() - {OTHER}) >= GROUPS_MAX:
        oldest = min(groups.keys() - {OTHER}, key=lambda known: groups[known].last)
        if one.last < groups[oldest].last:
            _take_other(groups, one)
            return
        _take_other(groups, groups.pop(oldest))
    if key in groups:
        groups[key].add(one)
    else:
        groups[key] = one


def _take_other(groups: Groups, one: Failures) -> None:
    groups.setdefault(OTHER, Failures("other errors", "")).add(one)
    groups[OTHER].error, groups[OTHER].task = "other errors", ""


def _text(groups: Mapping[str, Failures], merged: Mapping[str, tuple[str, int]], now: int) -> str:
    oldest = now // MINUTE - SHOWN
    kept: dict[str, object] = {
        key: [*list(vars(one).values())[:7], [[m, n] for m, n in one.minutes.items() if m > oldest], one.ids]
        for key, one in groups.items()
        if now - one.last <= KEPT
    }
    if batches := {stream: [token, at] for stream, (token, at) in merged.items() if now - at <= KEPT}:
        kept[_BATCHES] = batches
    return json.dumps(kept, separators=(",", ":"))


def groups_in(text: str) -> Groups:
    """Return the groups in a stored value."""
    stored: dict[str, list[Any]] = json.loads(text)
    found = {key: Failures(*plain) for key, plain in stored.items() if key != _BATCHES}
    for one in found.values():
        one.minutes = dict(one.minutes)
    return found


def _batches_in(text: str) -> dict[str, tuple[str, int]]:
    """Return the last batch of each stream that was merged into a stored value: its token, and when."""
    return {stream: (token, at) for stream, (token, at) in json.loads(text).get(_BATCHES, {}).items()}


def tallied(store: Store, queues: Iterable[str] | None = None, kind: str = KIND) -> dict[str, Groups]:
    """Return the workers' tallies, by queue and key; queues without any are missing."""
    return {value.name: groups_in(value.text) for value in store.values(kind, queues)}
