"""Push: up to two thousand jobs in one step: of one queue, or on a single server of several.

One queue: one script. Several: one transaction (MULTI) with a script for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter
from typing import Any, TypeVar

from stanchion.errors import DuplicateKey
from stanchion.stores.cas.chunks import chunks, grouped
from stanchion.stores.cas.entries import FollowUp
from stanchion.stores.cas.push import Stored, replace_work
from stanchion.stores.records.jobs import NewJob, Pushed
from stanchion.stores.redis.client.layout import FIELD, STATE
from stanchion.stores.redis.client.rows import new_text
from stanchion.stores.redis.client.server import Call
from stanchion.stores.redis.jobs import SCRIPT_JOBS_MAX, Jobs
from stanchion.stores.rules.lifecycle.jobs import due_at, is_part, refuse_duplicates

T = TypeVar("T")

_QUEUE_OF = attrgetter("queue")


def _can_not_raise(group: tuple[str, Sequence[NewJob]]) -> bool:
    return all(job.on_duplicate != "raise" for job in group[1])


@dataclass
class _Answers:
    """Results of jobs by id, and the jobs that a push has not stored."""

    pushed: dict[str, Pushed] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)


class Pushes:
    """Stores new jobs."""

    def __init__(self, jobs: Jobs, follow_up: FollowUp) -> None:
        self._jobs, self._follow_up = jobs, follow_up

    def push(self, jobs: Sequence[NewJob], as_of: int | None = None) -> list[Pushed]:
        """Store jobs, in order; jobs of several calls with one `as_of` count as enqueued together, at that time."""
        pushed = self._push_each(grouped(jobs, _QUEUE_OF), as_of).pushed
        return [pushed[job.id] for job in jobs]

    def push_new(self, jobs: Sequence[NewJob]) -> Stored:
        """Store jobs of several queues in one step, unless they are in a cluster or too many; say which are new."""
        groups = grouped(jobs, _QUEUE_OF)
        apart = len(groups) < 2 or len(jobs) > SCRIPT_JOBS_MAX or self._jobs.server.address.cluster
        answers = self._push_each(groups) if apart else self._push_together(groups)
        return Stored([answers.pushed[job.id] for job in jobs], answers.pushed.keys() - answers.met)

    def _push_each(self, groups: Mapping[str, Sequence[NewJob]], as_of: int | None = None) -> _Answers:
        answers = _Answers()
        # A group that a duplicate key refuses comes before the others are stored.
        for queue, group in sorted(groups.items(), key=_can_not_raise) if len(groups) > 1 else groups.items():
            for part in chunks(group, SCRIPT_JOBS_MAX):
                self._push_in(queue, part, answers, as_of)
        return answers

    def _push_together(self, groups: Mapping[str, Sequence[NewJob]]) -> _Answers:
        server = self._jobs.server
        for queue, group in groups.items():
            self._jobs.places.list_queue(queue)
            self._jobs.announce(group)
        found = server.together(
            [
                server.script("push", server.keys.queue(queue), *self._given(group, repeat("")))
                for queue, group in groups.items()
            ]
        )
        answers = _Answers()
        for (queue, group), answer in zip(groups.items(), found, strict=True):
            self._answer(queue, group, *self._stored(queue, group, answer), answers)
        return answers

    def push_once(self, batches: Iterable[tuple[str, Sequence[NewJob]]]) -> None:
        """Store jobs, each batch under an idempotency key."""
        parts: dict[str, list[list[tuple[NewJob, str]]]] = {}
        for key, jobs in batches:
            for queue, group in grouped(jobs, _QUEUE_OF).items():
                for number, part in enumerate(chunks(group, SCRIPT_JOBS_MAX)):
                    parts.setdefault(queue, []).append([(job, f"{key}:{number}") for job in part])
        for queue, of_queue in parts.items():
            for keyed in _grouped(of_queue, SCRIPT_JOBS_MAX):
                self._push_keyed(queue, keyed)

    def _push_keyed(self, queue: str, keyed: Sequence[tuple[NewJob, str]]) -> None:
        jobs = [job for job, _ in keyed]
        _, met = self._store(queue, jobs, (key for _, key in keyed))
        for number, what, holder, _ in met:
            if what == b"taken" and jobs[number].on_duplicate == "replace":
                self._replace(jobs[number], holder.decode())

    def _store(
        self, queue: str, jobs: Sequence[NewJob], once: Iterable[str], as_of: int | None = None
    ) -> tuple[int, Iterable[Sequence[Any]]]:
        """Return when the jobs count as enqueued, and the jobs that were not stored, in the form of the script `push`.

        `once`: the idempotency key of each, or "".
        """
        self._jobs.places.list_queue(queue)
        self._jobs.announce(jobs)
        return self._stored(queue, jobs, self._jobs.script("push", queue, *self._given(jobs, once, as_of)))

    def _given(self, jobs: Sequence[NewJob], once: Iterable[str], as_of: int | None = None) -> list[object]:
        """Return the arguments of the script `push`."""
        if as_of is None and any(map(is_part, jobs)):
            as_of = self._jobs.now()
        return ["" if as_of is None else as_of, *map(new_text, jobs, once, repeat(as_of or 0))]

    def _stored(self, queue: str, jobs: Sequence[NewJob], answer: Any) -> tuple[int, Iterable[Sequence[Any]]]:
        enqueued_at, made, met = answer
        if made:
            self._jobs.places.list_queue(queue, again=True)
        self._jobs.places.remember(queue, (job.id for job in jobs))
        return int(enqueued_at), chunks(met, 4)

    def _push_in(self, queue: str, jobs: Sequence[NewJob], answers: _Answers, as_of: int | None = None) -> None:
        self._answer(queue, jobs, *self._store(queue, jobs, repeat(""), as_of), answers)

    def _answer(
        self,
        queue: str,
        jobs: Sequence[NewJob],
        now: int,
        met: Iterable[Sequence[Any]],
        answers: _Answers,
    ) -> None:
        """Add what became of the jobs to the answers."""
        pushed = answers.pushed
        pushed.update((job.id, Pushed(job.id, due_at(job, now), now)) for job in jobs)
        for number, what, holder, state in met:
            job, holder_id = jobs[number], holder.decode()
            answers.met.add(job.id)
            if what == b"refused" or (what == b"taken" and job.on_duplicate == "raise"):
                raise DuplicateKey(queue, job.key or "", holder_id, finished=bool(state) and _is_finished(state))
            if not state:
                pushed[job.id] = self._gone(job, now)
                continue
            fields = dict(zip(STATE, state.decode().split(FIELD), strict=True))
            there = Pushed(holder_id, int(fields["run_at"]), int(fields["enqueued_at"]), duplicate=what == b"taken")
            if there.duplicate and job.on_duplicate == "replace" and not _is_finished(state):
                there = self._replace(job, holder_id)
            pushed[job.id] = there

    def _gone(self, job: NewJob, now: int) -> Pushed:
        """Return the push result of a job that has left its queue since."""
        found = self._jobs.read([job.id])[1].get(job.id)
        return Pushed(job.id, found.row.run_at, found.row.enqueued_at) if found else Pushed(job.id, now, now)

    def _replace(self, job: NewJob, holder_id: str) -> Pushed:
        """Replace the work of the job that has the key; push the new job if the holder has just finished."""
        now, seen = self._jobs.read([holder_id])
        holder = seen.get(holder_id)
        if holder is None or holder.row.key != job.key or holder.row.finished_at is not None:
            return self.push([job])[0]
        row = replace_work(self._jobs, self._follow_up, holder, job, now)
        if row is None:
            return self._replace(job, holder_id)
        return Pushed(row.id, row.run_at, row.enqueued_at, duplicate=True)

    def refuse_duplicates(self, jobs: Sequence[NewJob]) -> None:
        """Raise DuplicateKey for a job that asks for it."""
        keyed = [job for job in jobs if job.key is not None]
        server = self._jobs.server
        asked = [Call(("HGET", server.keys.queue(job.queue) + "keys", job.key)) for job in keyed]
        found = zip(keyed, server.all(asked), strict=True)
        refuse_duplicates(keyed, {(job.queue, job.key): holder.decode() for job, holder in found if holder})


def _is_finished(state: bytes) -> bool:
    return bool(state.split(FIELD.encode())[STATE.index("finished_at")])


def _grouped(parts: Sequence[list[T]], most: int) -> Iterator[list[T]]:
    """Yield the items of the parts, up to `most` at a time, without splitting a part."""
    items = list[T]()
    for part in parts:
        if items and len(items) + len(part) > most:
            yield items
            items = []
        items = items + part
    if items:
        yield items
