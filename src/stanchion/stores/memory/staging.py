"""Jobs in hand for readers elsewhere, and jobs that are laid aside in memory until they are published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stanchion.errors import LeasesLost, StagedJobsLost
from stanchion.stores.memory.claim import Reserving
from stanchion.stores.memory.values import Values
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules.staging import KEPT_STAGED, WRITE_KIND, WRITES_KEPT, published_at, value_of_write


@dataclass
class _Write:
    """What is staged under a write, by attempt and id, and when it was added to."""

    staged_at: int = 0
    attempts: dict[str, dict[str, NewJob]] = field(default_factory=dict)


class Staging(Reserving):
    """The verbs for those who take and give whole batches."""

    def __init__(self, *, frozen: bool = False) -> None:
        super().__init__(frozen=frozen)
        self._staged: dict[str, _Write] = {}
        self._values = Values()

    # -- versioned values

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        """Return the values of a kind, by name: all of them, or those of these names that there are."""
        with self._lock:
            return self._values.values(kind, names)

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write, or with None delete, a value whose version is still the given one; 0: it is absent."""
        with self._lock:
            return self._values.compare_and_set(kind, name, text, version)

    # -- in hand

    def reserve(self, claim: Claim) -> int:
        """Reserve due jobs as `claim` does; return how many are in hand under the token then."""
        with self._lock:
            self._claim(claim)
            return len(self._in_hand(claim.queue, claim.token))

    def ids_in_hand(self, queue: str, token: str) -> list[str]:
        """Return the ids of the jobs in hand under a token, in their order."""
        with self._lock:
            return [row.id for row in self._in_hand(queue, token)]

    def in_hand(self, queue: str, token: str, first: str | None = None, last: str | None = None) -> list[JobRow]:
        """Return the jobs in hand under a token, with ids from `first` to `last`, by their ids."""
        with self._lock:
            return [
                row
                for row in self._in_hand(queue, token)
                if (first is None or first <= row.id) and (last is None or row.id <= last)
            ]

    def _in_hand(self, queue: str, token: str) -> list[JobRow]:
        now, line = self.now(), self._line_or_empty(queue)
        rows = (line.live[job_id] for job_id in sorted(line.running))
        return [row for row in rows if claim_rules.holds(row, token, now)]

    # -- staged

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        """Lay jobs aside under a write and an attempt."""
        with self._lock:
            staged = self._staged.setdefault(write, _Write())
            staged.staged_at = self.now()
            of_attempt = staged.attempts.setdefault(attempt, {})
            for job in jobs:
                of_attempt.setdefault(job.id, job)

    def publish(self, publication: Publication) -> bool:
        """Store staged jobs, write the value, commit what is in hand: all in one step, or nothing."""
        with self._lock:
            now = self.now()
            value = publication.value or value_of_write(publication.write, now)
            if self._values.version(value.kind, value.name) != value.version:
                self._staged.pop(publication.write, None)
                return False
            jobs = self._to_publish(publication)
            commits = [] if publication.finish is None else self._to_finish(publication.finish)
            self._refuse_duplicates(jobs)
            self._values.compare_and_set(*value)
            for commit in commits:
                self._settle(commit, now, repeat=False)
            for job in jobs:
                self._push(job, now)
            self._staged.pop(publication.write, None)
            return True

    def unstage(self, write: str) -> None:
        """Forget what is staged under a write."""
        with self._lock:
            self._staged.pop(write, None)

    def _to_publish(self, publication: Publication) -> list[NewJob]:
        staged = self._staged.get(publication.write, _Write()).attempts
        jobs: list[NewJob] = []
        for attempt, expected in publication.attempts:
            found = staged.get(attempt, {})
            if len(found) != expected:
                raise StagedJobsLost(publication.write, expected, len(found))
            jobs += [found[job_id] for job_id in sorted(found)]
        return jobs

    def _to_finish(self, finish: Finish) -> list[Commit]:
        rows = self._in_hand(finish.queue, finish.token)
        if len(rows) != finish.jobs:
            raise LeasesLost(finish.queue, finish.jobs, len(rows))
        return [Commit(row.id, finish.token) for row in rows]

    def _forget_writes(self) -> None:
        """Forget what nobody has published for a day, and the values of writes of a month ago."""
        now = self.now()
        self._staged = {name: one for name, one in self._staged.items() if one.staged_at > now - KEPT_STAGED}
        self._values.forget(WRITE_KIND, lambda value: published_at(value) <= now - WRITES_KEPT)
