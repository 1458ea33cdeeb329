"""Outcomes of reservations: plain commits in one step per queue, others each in its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeGuard

from stanchion.core.values.framing import as_text
from stanchion.stores.cas import settle as cas
from stanchion.stores.cas.chunks import chunks
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit, Outcome
from stanchion.stores.redis.jobs import Jobs

_SCRIPT_JOBS_MAX = 2000
_DONE, _LOST, _UNKNOWN = 1, 0, -1
"""The answers of the script `commit` for a job."""


class Outcomes:
    """Applies outcomes."""

    def __init__(self, jobs: Jobs, general: cas.Outcomes) -> None:
        self._jobs, self._general = jobs, general

    def settle(self, outcomes: Sequence[Outcome], *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes, in their order."""
        if repeat:  # each is looked at by itself
            return self._general.settle(outcomes, repeat=True)
        if _are_plain(outcomes):
            return self._commit(outcomes)
        states: list[JobState | None] = []
        for _, group in groupby(outcomes, key=lambda outcome: _are_plain([outcome])):
            batch = list(group)
            states += self._commit(batch) if _are_plain(batch) else self._general.settle(batch)
        return states

    def _commit(self, commits: Sequence[Commit]) -> list[JobState | None]:
        """Commit in the queues of the leases; decide on the others one by one."""
        answers = [_UNKNOWN] * len(commits)
        for queue, group in _by_queue(commits).items():
            for part in chunks(group, _SCRIPT_JOBS_MAX):
                found = self._commit_in(queue, [commits[index] for index in part])
                for index, answer in zip(part, found, strict=True):
                    answers[index] = answer
        states = [JobState.DONE if answer == _DONE else None for answer in answers]
        if _UNKNOWN in answers:
            unknown = [index for index, answer in enumerate(answers) if answer == _UNKNOWN]
            late = self._general.settle([commits[index] for index in unknown])
            for index, state in zip(unknown, late, strict=True):
                states[index] = state
        return states

    def _commit_in(self, queue: str, commits: Sequence[Commit]) -> list[int]:
        leases = [text for commit in commits for text in commit.lease[1:]]
        results = [as_text(found) if isinstance(found := commit.result, bytes) else found or "" for commit in commits]
        server = self._jobs.server

        def run(again: bool) -> list[int]:
            if again:  # a reply was lost: check the effect
                states = self._general.settle(commits, repeat=True)
                return [_DONE if state else _LOST for state in states]
            # In one text: encoding it takes the driver less time than two arguments for each job.
            given = (json.dumps(leases), *(results if any(results) else ()))
            answers: list[int] = server.run("commit", server.keys.queue(queue), *given)
            return answers

        return server.call(run)


_PAYLOAD, _MORE = attrgetter("payload"), attrgetter("jobs", "tallies", "rows")


def _are_plain(outcomes: Sequence[Outcome]) -> TypeGuard[Sequence[Commit]]:
    """Return True if all are commits that only end their jobs; without a Python call for each of a worker's jobs."""
    return (
        {Commit}.issuperset(map(type, outcomes))
        and {None}.issuperset(map(_PAYLOAD, outcomes))
        and {((), (), ())}.issuperset(map(_MORE, outcomes))
    )


def _by_queue(commits: Sequence[Commit]) -> Mapping[str, Sequence[int]]:
    """Return the indexes of the commits of each queue."""
    queues = [commit.lease.queue for commit in commits]
    if len(set(queues)) == 1:  # as nearly always
        return {queues[0]: range(len(commits))}
    found: dict[str, list[int]] = {}
    for index, queue in enumerate(queues):
        found.setdefault(queue, []).append(index)
    return found
