"""Staged jobs, invisible until they are published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stanchion.core.spark_errors import LeasesLost, StagedJobsLost
from stanchion.stores.memory.jobs import Jobs
from stanchion.stores.memory.push import Pushes
from stanchion.stores.memory.settle import Outcomes
from stanchion.stores.memory.values import Values
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Commit, Ending
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.rules.staging import KEPT_STAGED, WRITE_KIND, WRITES_KEPT, published_at, value_of_write


@dataclass
class _Write:
    """The staged jobs of a write, by attempt and id, and the time of its last use."""

    staged_at: int = 0
    attempts: dict[str, dict[str, NewJob]] = field(default_factory=dict)


class Staging:
    """Stages jobs by write and attempt, and publishes each write once."""

    def __init__(self, jobs: Jobs, pushes: Pushes, outcomes: Outcomes, values: Values) -> None:
        self._jobs, self._pushes, self._outcomes, self._values = jobs, pushes, outcomes, values
        self._staged: dict[str, _Write] = {}

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        """Store jobs under a write and an attempt."""
        staged = self._staged.setdefault(write, _Write())
        staged.staged_at = self._jobs.now()
        of_attempt = staged.attempts.setdefault(attempt, {})
        for job in jobs:
            of_attempt.setdefault(job.id, job)

    def publish(self, publication: Publication) -> bool:
        """Push staged jobs, write the value, commit reserved jobs: all in one step, or nothing."""
        value = publication.value or value_of_write(publication.write, self._jobs.now())
        if self._values.version(value.kind, value.name) != value.version:
            self.unstage(publication.write)
            return False
        jobs = self._to_publish(publication)
        ends = [] if publication.finish is None else self._to_finish(publication.finish)
        self._pushes.refuse_duplicates(jobs)
        self._values.compare_and_set(*value)
        self._outcomes.settle(ends)
        self._pushes.store(jobs)
        self.unstage(publication.write)
        return True

    def unstage(self, write: str) -> None:
        """Delete the staged jobs of a write."""
        self._staged.pop(write, None)

    def forget(self, now: int) -> None:
        """Delete writes unused for a day, and the values of writes published a month ago."""
        self._staged = {write: one for write, one in self._staged.items() if one.staged_at > now - KEPT_STAGED}
        self._values.forget(WRITE_KIND, lambda value: published_at(value) <= now - WRITES_KEPT)

    def _to_publish(self, publication: Publication) -> list[NewJob]:
        staged = self._staged.get(publication.write, _Write()).attempts
        jobs: list[NewJob] = []
        for attempt, expected in publication.attempts:
            found = staged.get(attempt, {})
            if len(found) != expected:
                raise StagedJobsLost(publication.write, expected, len(found))
            jobs += [found[job_id] for job_id in sorted(found)]
        return jobs

    def _to_finish(self, finish: Finish) -> list[Ending]:
        leases = [row.lease for row in self._jobs.reserved(finish.queue, finish.token)]
        ends = {end.lease: end for end in finish.ends}
        if len(leases) != finish.jobs or not ends.keys() <= set(leases):
            raise LeasesLost(finish.queue, finish.jobs, len(leases))
        return [ends.get(lease) or Commit(lease) for lease in leases]
