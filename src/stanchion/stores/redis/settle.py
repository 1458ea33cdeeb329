"""Outcomes of reservations: plain commits in one step per queue, others each in its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from stanchion.stores.cas import settle as cas
from stanchion.stores.cas.portions import portions
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit, Outcome
from stanchion.stores.redis.jobs import Jobs
from stanchion.stores.rules.outcomes import counted_as

_SCRIPT_JOBS_MAX = 2000
_DONE, _LOST, _UNKNOWN = 1, 0, -1
"""The answers of commit.lua for a job."""


class Outcomes:
    """Applies outcomes."""

    def __init__(self, jobs: Jobs, general: cas.Outcomes) -> None:
        self._jobs, self._general = jobs, general

    def settle(self, outcomes: Sequence[Outcome], *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes, in their order."""
        if repeat:  # each is looked at by itself
            return self._general.settle(outcomes, repeat=True)
        states: list[JobState | None] = []
        for counted, group in groupby(outcomes, key=_counted_as):
            batch = list(group)
            if counted:
                states += self._commit([one for one in batch if isinstance(one, Commit)], counted)
            else:
                states += self._general.settle(batch)
        return states

    def _commit(self, commits: Sequence[Commit], counted: str) -> list[JobState | None]:
        """Commit in the queues of the leases; decide on the others one by one."""
        answers = [_UNKNOWN] * len(commits)
        for queue, group in _by_queue(commits).items():
            for part in portions(group, _SCRIPT_JOBS_MAX):
                found = self._commit_in(queue, [commits[index] for index in part], counted)
                for index, answer in zip(part, found, strict=True):
                    answers[index] = answer
        unknown = [index for index, answer in enumerate(answers) if answer == _UNKNOWN] if _UNKNOWN in answers else []
        late = self._general.settle([commits[index] for index in unknown])
        found_later = dict(zip(unknown, late, strict=True))
        return [
            found_later.get(index, JobState.DONE if answer == _DONE else None) for index, answer in enumerate(answers)
        ]

    def _commit_in(self, queue: str, commits: Sequence[Commit], counted: str) -> list[int]:
        arguments: list[str] = []
        for commit in commits:
            _, job_id, token = commit.lease
            arguments += (job_id, token, commit.result or "")
        server = self._jobs.server

        def run(again: bool) -> list[int]:
            if again:  # a reply was lost: check what was done
                states = self._general.settle(commits, repeat=True)
                return [_DONE if state else _LOST for state in states]
            answers: list[int] = server.run("commit", server.keys.queue(queue), counted, *arguments)
            return answers

        return server.call(run)


def _counted_as(outcome: Outcome) -> str:
    """Return the counter of a plain commit; empty for any other outcome."""
    if isinstance(outcome, Commit) and outcome.payload is None and not outcome.jobs:
        return counted_as(outcome)
    return ""


def _by_queue(commits: Sequence[Commit]) -> Mapping[str, Sequence[int]]:
    """Return the indexes of the commits in each queue."""
    queues = [commit.lease.queue for commit in commits]
    if len(set(queues)) == 1:
        return {queues[0]: range(len(commits))}
    found: dict[str, list[int]] = {}
    for index, queue in enumerate(queues):
        found.setdefault(queue, []).append(index)
    return found
