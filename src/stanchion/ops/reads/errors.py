"""Errors in groups: the tallies of the workers, and the jobs that are dead now."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple

from stanchion.context.context import Context
from stanchion.core.text.error_kinds import group_in, kind_of
from stanchion.core.times import moment
from stanchion.jobs.job import Job, JobState
from stanchion.ops.reads.filters import JobFilter
from stanchion.ops.reads.lists import page_of
from stanchion.ops.words import number
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.telemetry.failures import IDS, MINUTE, OTHER, Failures, tallied

READ: Final = 2000
"""Dead jobs that are read, the newest."""

FAILED: Final = 5000
"""Failed attempts that are counted where the workers have tallied none, the newest."""

NO_ERROR: Final = "buried without an error"


@dataclass
class Group:
    """Failures by one error in one task. `key`: empty for jobs without an error; `queues`: where they failed.

    `dead`: jobs that are dead by it now; `ids`: some of the jobs, the dead ones first.
    """

    key: str
    failures: Failures
    queues: list[str] = field(default_factory=list)
    dead: int = 0
    ids: list[str] = field(default_factory=list)

    @property
    def error(self) -> str:
        """The error without what varies."""
        return self.failures.error

    @property
    def task(self) -> str:
        """The name of the task; empty for bare payloads."""
        return self.failures.task

    @property
    def first(self) -> datetime:
        """When it was first seen, as far as that is known."""
        return moment(self.failures.first)

    @property
    def last(self) -> datetime:
        """When it was last seen."""
        return moment(self.failures.last)

    @property
    def named(self) -> bool:
        """Whether its key names it: jobs without an error, and all groups beyond the bound of tallies, have none."""
        return self.key not in ("", OTHER)

    @property
    def command(self) -> str:
        """The command that re-drives its dead jobs."""
        queue = f" --queue {shlex.quote(self.queues[0])}" if len(self.queues) == 1 else ""
        task = f" --task {shlex.quote(self.task)}" if self.task else ""
        return f"stanchion retry{queue}{task} --error {self.key}"

    def minutes(self, now: int) -> list[tuple[int, float]]:
        """Return the failed attempts of each minute of the last hour, by time."""
        counts = self.failures.in_the_hour(now)
        begin = now // MINUTE - len(counts) + 1
        return [((begin + place) * MINUTE, float(count)) for place, count in enumerate(counts)]

    def in_the_hour(self, now: int) -> int:
        """Return the failed attempts of the last hour."""
        return sum(self.failures.in_the_hour(now))


class Errors(NamedTuple):
    """The groups of errors, most dead jobs first, and the sources of their counts.

    `dead`: number of dead jobs read; `whole`: no dead job was left out. `tallied`: workers counted the failed attempts.
    `retried`: without such tallies, the errors of jobs in back-off are counted as well.
    """

    groups: list[Group]
    dead: int
    whole: bool
    tallied: bool
    retried: bool = True


def read_errors(
    context: Context,
    store: Store,
    wanted: JobFilter,
    now: int,
    most: int = READ,
    *,
    retried: bool = True,
    known: dict[str, Failures] | None = None,
) -> Errors:
    """Read the groups of errors, of the jobs that a filter finds: of the tallies, by queue and task.

    `most`: dead jobs that are read, the newest. `retried`: without tallies, also read jobs that back off. `known`: the
    tallies of the queue of the filter.
    """
    dead = page_of(context, store, wanted.with_states(JobState.DEAD).query(now), now, None, most)
    by_queue = _tallies(store, wanted, known)
    found: dict[str, Group] = {}
    if by_queue:
        for queue, groups in by_queue.items():
            for key, failures in groups.items():
                if not wanted.task or failures.task == wanted.task:
                    _add(found, key, queue, failures)
    else:
        backing_off = wanted.with_states(JobState.SCHEDULED).query(now)
        more = page_of(context, store, backing_off, now, None, most).jobs if retried else []
        for key, queue, failures in _newest_failures([*dead.jobs, *more]):
            _add(found, key, queue, failures)
    _add_dead(found, dead.jobs)
    for group in found.values():
        group.ids = list(dict.fromkeys([*group.ids, *group.failures.ids]))[:IDS]
    ordered = sorted(found.values(), key=lambda one: (-one.dead, -one.in_the_hour(now), -one.failures.last, one.key))
    return Errors(ordered, len(dead.jobs), dead.next is None, bool(by_queue), retried)


def hidden(found: Errors, hide: Callable[[str], str]) -> Errors:
    """Return the groups with secrets in their errors hidden."""
    for group in found.groups:
        group.failures = replace(group.failures, error=hide(group.failures.error))
    return found


def source_of(found: Errors) -> str:
    """Name the sources of the counts."""
    dead = "all dead jobs that are still in history" if found.whole else f"the newest {number(found.dead)} dead jobs"
    if found.tallied:
        return f"{dead}; failed attempts as the workers tally them, up to a heartbeat late"
    if not found.retried:
        return f"{dead}, as no worker has tallied failed attempts"
    return (
        f"{dead}; failed attempts from the newest {number(FAILED)} of these and of jobs that back off, as no worker "
        "has tallied any"
    )


def _tallies(store: Store, wanted: JobFilter, known: dict[str, Failures] | None) -> dict[str, dict[str, Failures]]:
    """Return the tallies, by queue, where they are of all jobs that a filter finds."""
    if _beyond_tallies(wanted):
        return {}
    if known is not None:
        return {wanted.queue: known} if known else {}
    return tallied(store, [wanted.queue] if wanted.queue else None)


def _beyond_tallies(wanted: JobFilter) -> bool:
    return any((wanted.tenant, wanted.band, wanted.since, wanted.until, wanted.text))


def _add(found: dict[str, Group], key: str, queue: str, failures: Failures) -> None:
    group = found.setdefault(key, Group(key, Failures(failures.error, failures.task)))
    group.failures.add(failures)
    if queue not in group.queues:
        group.queues.append(queue)


def _newest_failures(jobs: Iterable[Job]) -> Iterator[tuple[str, str, Failures]]:
    """Yield the newest failed attempts of these jobs."""
    entries = [(float(entry["at"]), entry, job) for job in jobs for entry in job.errors if "times" not in entry]
    for at, entry, job in sorted(entries, key=lambda one: -one[0])[:FAILED]:
        error, when = str(entry.get("error", "")), int(at * SECOND)
        one = Failures(kind_of(error), job.task or "", 1, 0, 0, when, when, {when // MINUTE: 1}, [job.id])
        yield group_in(entry, job.task), job.died_in or job.queue, one


def _add_dead(found: dict[str, Group], jobs: Iterable[Job]) -> None:
    for job in jobs:
        key, at = job.error_group or "", int((job.finished_at or job.run_at).timestamp() * SECOND)
        if key not in found:
            error = kind_of(str(job.errors[-1].get("error", ""))) if key else NO_ERROR
            found[key] = Group(key, Failures(error, job.task or "", first=at, last=at))
        group = found[key]
        group.dead += 1
        if len(group.ids) < IDS:
            group.ids.append(job.id)
        if (queue := job.died_in or job.queue) not in group.queues:
            group.queues.append(queue)
        group.failures.first = min(group.failures.first, at)
