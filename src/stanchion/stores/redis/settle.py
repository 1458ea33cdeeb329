"""Outcomes of reservations: plain commits in one step per queue, others each in its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from stanchion.stores.cas import settle as cas
from stanchion.stores.cas.portions import portions
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit, Outcome
from stanchion.stores.redis.jobs import Jobs
from stanchion.stores.rules.outcomes import counted_as

_AT_ONCE = 2000
_DONE, _LOST, _UNKNOWN = 1, 0, -1
"""What commit.lua says of a job."""


class Outcomes:
    """Applies outcomes."""

    def __init__(self, jobs: Jobs, general: cas.Outcomes) -> None:
        self._jobs, self._general = jobs, general

    def settle(self, outcomes: Sequence[Outcome], *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes, in their order."""
        states: list[JobState | None] = []
        for counted, group in groupby(outcomes, key=lambda outcome: "" if repeat else _counted_as(outcome)):
            batch = list(group)
            if counted:
                states += self._commit([one for one in batch if isinstance(one, Commit)], counted)
            else:
                states += self._general.settle(batch, repeat=repeat)
        return states

    def _commit(self, commits: Sequence[Commit], counted: str) -> list[JobState | None]:
        """Commit in the queues where the jobs were seen last; look for the others."""
        answers = [_UNKNOWN] * len(commits)
        places: dict[str, list[int]] = {}
        for place, commit in enumerate(commits):
            if (queue := self._jobs.places.queue_of(commit.id)) is not None:
                places.setdefault(queue, []).append(place)
        for queue, group in places.items():
            for part in portions(group, _AT_ONCE):
                found = self._commit_in(queue, [commits[place] for place in part], counted)
                for place, answer in zip(part, found, strict=True):
                    answers[place] = answer
        unknown = [place for place, answer in enumerate(answers) if answer == _UNKNOWN]
        late = self._general.settle([commits[place] for place in unknown])
        found_later = dict(zip(unknown, late, strict=True))
        return [
            found_later.get(place, JobState.DONE if answer == _DONE else None) for place, answer in enumerate(answers)
        ]

    def _commit_in(self, queue: str, commits: Sequence[Commit], counted: str) -> list[int]:
        arguments = [text for commit in commits for text in (commit.id, commit.token, commit.result or "")]
        server = self._jobs.server

        def run(again: bool) -> list[int]:
            if again:  # an answer was lost: see what has been done
                states = self._general.settle(commits, repeat=True)
                return [_DONE if state else _LOST for state in states]
            answers: list[int] = server.run("commit", server.keys.queue(queue), counted, *arguments)
            return answers

        return server.call(run)


def _counted_as(outcome: Outcome) -> str:
    """Return what a plain commit counts as; nothing for any other outcome."""
    plain = isinstance(outcome, Commit) and outcome.payload is None and not outcome.jobs
    return counted_as(outcome) if isinstance(outcome, Commit) and plain else ""
