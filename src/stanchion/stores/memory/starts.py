"""New jobs that are stored as running."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.memory.claim import Claims
from stanchion.stores.memory.jobs import Jobs
from stanchion.stores.memory.push import Pushes
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob, Pushed
from stanchion.stores.rules.starts import claim_of, with_tokens


class Starts:
    """Stores new jobs and reserves the ones that a claim names."""

    def __init__(self, jobs: Jobs, pushes: Pushes, claims: Claims) -> None:
        self._jobs, self._pushes, self._claims = jobs, pushes, claims

    def push(self, jobs: Sequence[NewJob], claim: Claim | None) -> list[Pushed]:
        """Store jobs in order, all or nothing; reserve the claim's jobs that were not known before."""
        if claim is None:
            return self._pushes.push(jobs)
        new = {job.id for job in jobs if self._jobs.find(job.id) is None}
        pushed = self._pushes.push(jobs)
        started = claim_of(claim, new)
        if started is not None:
            self._claims.claim(started)
        return with_tokens(pushed, claim, {row.id for row in self._jobs.reserved(claim.queue, claim.token)})
