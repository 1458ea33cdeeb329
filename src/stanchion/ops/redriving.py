"""Retry, cancel and copy jobs, with a verdict on each; for the command line and for bulk work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from stanchion.jobs.job import JobState
from stanchion.jobs.lookup import push_copies
from stanchion.ops.words import listed, number
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import Redriven


class Refusal(NamedTuple):
    """Why a job was left out: `reason` follows its id, `word` follows a number of jobs and "were"."""

    reason: str
    word: str


class Verdict(NamedTuple):
    """The result for one job. `state`: its state now; None if it is unknown. `copy`: the id of its copy.

    `items`: the items that it stands for, where these are counted.
    """

    id: str
    state: str | None
    refusal: Refusal | None = None
    copy: str | None = None
    items: int = 1

    @property
    def ok(self) -> bool:
        """Whether the job was changed."""
        return self.refusal is None


GONE: Final = Refusal("is neither live nor in history", "gone")
_UNFINISHED: Final = Refusal("is not in history", "not in history")
_RETRIED: Final[Mapping[Redriven, tuple[JobState | None, Refusal | None]]] = {
    Redriven.READY: (JobState.READY, None),
    Redriven.MISSING: (None, GONE),
    Redriven.DONE: (JobState.DONE, Refusal("is done: replay it", "done")),
    Redriven.RUNNING: (JobState.RUNNING, Refusal("is running: cancel it, or wait", "running")),
    Redriven.KEY_TAKEN: (
        None,
        Refusal("has a key that a live job has taken", "duplicates of live jobs with the same key"),
    ),
}


def retried(store: Store, ids: Sequence[str]) -> list[Verdict]:
    """Make dead, cancelled and scheduled jobs ready."""
    return [Verdict(job_id, *_RETRIED[one]) for job_id, one in zip(ids, store.retry(ids), strict=True)]


def cancelled(store: Store, ids: Sequence[str], since: int | None = None) -> list[Verdict]:
    """Cancel live jobs; ask running ones to stop.

    `since`: when this began, by the store's clock; jobs that were cancelled later count, so that it can be repeated.
    """
    # The store answers with the state after the call, which is the same for jobs that were cancelled before.
    ended = {row.id: row.finished_at for row in store.fetch(ids).values() if row.finished_at is not None}
    found = []
    for job_id, after in zip(ids, store.cancel(ids), strict=True):
        before = job_id in ended and (since is None or ended[job_id] < since)
        if after is None:
            found.append(Verdict(job_id, None, GONE))
        elif after is JobState.RUNNING or (after is JobState.CANCELLED and not before):
            found.append(Verdict(job_id, after))
        else:
            found.append(Verdict(job_id, after, Refusal(f"is {after} already", f"{after} already")))
    return found


def copied(store: Store, ids: Sequence[str], copies: Sequence[str]) -> list[Verdict]:
    """Enqueue copies of finished jobs, with these ids."""
    pushed = zip(ids, push_copies(store, ids, copies), strict=True)
    return [
        Verdict(job_id, None, _UNFINISHED) if copy is None else Verdict(job_id, JobState.READY, copy=copy.id)
        for job_id, copy in pushed
    ]


def refusals(verdicts: Iterable[Verdict]) -> Counter[str]:
    """Count the jobs that were left out, by the word for their refusal."""
    return Counter(one.refusal.word for one in verdicts if one.refusal is not None)


def left_out(counts: Mapping[str, int]) -> str:
    """Return why jobs were left out, as `2 were running and 1 was done`; empty if none was."""
    return listed([f"{number(count)} {'was' if count == 1 else 'were'} {word}" for word, count in counts.items()])
