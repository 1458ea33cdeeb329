"""Jobs in and out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from secrets import token_hex
from typing import Any, NoReturn, TypeVar

from stanchion.errors import CannotJoin, DuplicateKey
from stanchion.stores.cas.mixins.claim import Parked
from stanchion.stores.cas.mixins.jobs import Change, Swap
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob, Pushed
from stanchion.stores.records.outcomes import Commit, Outcome
from stanchion.stores.redis.client.rows import FIELD, new_text, rows_in
from stanchion.stores.redis.jobs import RedisBase, portions
from stanchion.stores.rules.jobs import due_at, replaced
from stanchion.stores.rules.outcomes import popped

T = TypeVar("T")

_AT_ONCE = 2000
_POP_SECONDS = 30.0
_DONE, _LOST, _UNKNOWN = 1, 0, -1
"""What commit.lua says of a job."""


class RedisJobs(RedisBase):
    """Push, claim, pop and settle: the verbs on the way of every job."""

    # -- in

    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        """Store jobs, in order; all of one queue in one step, up to two thousand."""
        if tx is not None:
            refuse_to_join()
        by_queue: dict[str, list[NewJob]] = {}
        for job in jobs:
            by_queue.setdefault(job.queue, []).append(job)
        pushed: dict[str, Pushed] = {}
        for queue, group in by_queue.items():
            for part in portions(group, _AT_ONCE):
                self._push_in(queue, part, pushed)
        return [pushed[job.id] for job in jobs]

    def push_once(self, batches: Iterable[tuple[str, Sequence[NewJob]]]) -> None:
        parts: dict[str, list[list[tuple[NewJob, str]]]] = {}
        for mark, jobs in batches:
            by_queue: dict[str, list[NewJob]] = {}
            for job in jobs:
                by_queue.setdefault(job.queue, []).append(job)
            for queue, group in by_queue.items():
                for number, part in enumerate(portions(group, _AT_ONCE)):
                    parts.setdefault(queue, []).append([(job, f"{mark}:{number}") for job in part])
        for queue, of_queue in parts.items():
            for marked in _together(of_queue, _AT_ONCE):
                self._push_marked(queue, marked)

    def _push_marked(self, queue: str, marked: Sequence[tuple[NewJob, str]]) -> None:
        jobs = [job for job, _ in marked]
        _, met = self._store(queue, jobs, [new_text(job, mark) for job, mark in marked])
        for number, what, holder, _ in met:
            if what == b"taken" and jobs[number].on_duplicate == "replace":
                self._replace(jobs[number], holder.decode())

    def _store(self, queue: str, jobs: Sequence[NewJob], texts: Sequence[str]) -> tuple[int, list[Sequence[Any]]]:
        """Return the clock, and the jobs that were met: as push.lua tells."""
        self.list_queue(queue)
        self.announce(jobs)
        clock, made, met = self.script("push", queue, *texts)
        if made:
            self.list_queue(queue, anew=True)
        self.remember(queue, (job.id for job in jobs))
        return int(clock), portions(met, 4)

    def _push_in(self, queue: str, jobs: Sequence[NewJob], pushed: dict[str, Pushed]) -> None:
        now, met = self._store(queue, jobs, [new_text(job) for job in jobs])
        pushed.update((job.id, Pushed(job.id, due_at(job, now), now)) for job in jobs)
        for number, what, holder, state in met:
            job, holder_id = jobs[number], holder.decode()
            if what == b"refused" or (what == b"taken" and job.on_duplicate == "raise"):
                raise DuplicateKey(queue, job.key or "", holder_id)
            if not state:
                pushed[job.id] = self._gone(job, now)
                continue
            fields = state.decode().split(FIELD)
            there = Pushed(holder_id, int(fields[11]), int(fields[12]), duplicate=what == b"taken")
            if there.duplicate and job.on_duplicate == "replace":
                there = self._replace(job, holder_id)
            pushed[job.id] = there

    def _gone(self, job: NewJob, now: int) -> Pushed:
        """Return where a job is that has left the queue that it was pushed to."""
        found = self.look([job.id])[1].get(job.id)
        return Pushed(job.id, found.row.run_at, found.row.enqueued_at) if found else Pushed(job.id, now, now)

    def _replace(self, job: NewJob, holder_id: str) -> Pushed:
        """Give the holder of the job's key the job's work; where it has just finished, push anew."""
        now, seen = self.look([holder_id])
        holder = seen.get(holder_id)
        if holder is None or holder.row.key != job.key or holder.row.finished_at is not None:
            return self.push([job])[0]
        renewed = replaced(holder.row, job, now)
        if renewed is None:
            renewed = holder.row
        else:
            duty = self.duty_of(holder.row, renewed, None, None, now)
            if self.swap([Change(holder, renewed, duty=duty)]).swaps != [Swap.DONE]:
                return self._replace(job, holder_id)
            self.follow_up([duty] if duty else [])
        return Pushed(renewed.id, renewed.run_at, renewed.enqueued_at, duplicate=True)

    # -- out

    def reserve_due(self, claim: Claim) -> Claimed:
        return self._reserve(claim, "reserved")

    def claim_in_hand(self, claim: Claim) -> Claimed:
        return self.hand_out(claim, lambda part: self._reserve(part, "reserved", "1"), "-reserved", beyond=True)

    def park_run(self, claim: Claim, began: int, *, alone: bool) -> Parked:
        # That jobs of this queue wait at these gates was noted with the first that was parked at each.
        lanes = claim.lanes or ("", "")
        wish = (began, claim.token, *lanes, "1" if alone else "", *claim.full)
        parked, more = self.script("park", claim.queue, *wish)
        if parked:
            self.wake(*claim.full)
        return Parked(parked, more == 1)

    def _reserve(self, claim: Claim, counted: str, hand: str = "") -> Claimed:
        """Reserve jobs, so many in a step; between two of them others are served."""
        rows: dict[str, JobRow] = {}
        while True:
            part = claim._replace(limit=min(claim.limit - len(rows), _AT_ONCE))
            claimed, before = self._reserve_some(part, counted, hand), len(rows)
            rows.update((row.id, row) for row in claimed.rows)  # after a lost answer all that the token holds come
            if claim.repeat or len(rows) >= claim.limit or len(rows) - before < part.limit:
                return Claimed(list(rows.values()), claimed.retry_in)

    def _reserve_some(self, claim: Claim, counted: str, hand: str) -> Claimed:
        lease = "" if claim.lease is None else str(int(claim.lease * SECOND))
        worker = claim.worker or ""
        lanes = claim.lanes or ("", "")

        begins: Sequence[Any] = ("", 0)

        def run(again: bool) -> Any:
            repeat = "1" if again or claim.repeat else ""
            wish = (claim.limit, claim.token, worker, lease, repeat, counted, *lanes, hand)
            return self.server.run("claim", self.key(claim.queue), *wish, *begins, *claim.full)

        while True:
            found, jobs, wait, *reached = self.server.call(run)
            if found == b"expired":
                expired = [job_id.decode() for job_id in jobs]
                self.remember(claim.queue, expired)
                self.free(expired, {})
            elif jobs or not reached:
                break
            else:  # nothing yet among those that it was allowed to look at
                begins = reached
        rows = rows_in(jobs.decode(), claim.queue)
        if found == b"held":
            rows.sort(key=lambda row: (-row.priority, row.run_at, row.id))
        self.remember(claim.queue, (row.id for row in rows))
        return Claimed(rows, float(wait) if wait else None)

    def pop(self, claim: Claim) -> list[JobRow]:
        """Hand out due jobs for good: reserved, then done before anybody sees them.

        After a death between the two steps a job was not handed out; it is ready again when its lease is over.
        """
        wish = claim._replace(worker=None, lease=_POP_SECONDS, token=claim.token or token_hex(8))
        rows = self.hand_out_some(wish, lambda part: self._reserve(part, ""), "-", beyond=True)
        states = self._commit([Commit(row.id, row.token or "") for row in rows], "popped")
        return [
            popped(row._replace(attempts=row.attempts - 1), row.started_at or 0)
            for row, state in zip(rows, states, strict=True)
            if state is not None
        ]

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes of reservations: plain commits in one step per queue, others each in its own."""
        if tx is not None:
            refuse_to_join()
        states: list[JobState | None] = []
        for plain, group in groupby(outcomes, key=lambda outcome: _is_plain(outcome) and not repeat):
            batch = list(group)
            if plain:
                states += self._commit([one for one in batch if isinstance(one, Commit)], "committed")
            else:
                states += self.settle_each(batch, repeat=repeat)
        return states

    def _commit(self, commits: Sequence[Commit], counted: str) -> list[JobState | None]:
        """Commit in the queues where the jobs were seen last; look for the others."""
        answers = [_UNKNOWN] * len(commits)
        places: dict[str, list[int]] = {}
        for place, commit in enumerate(commits):
            if (queue := self._queue_of.get(commit.id)) is not None:
                places.setdefault(queue, []).append(place)
        for queue, group in places.items():
            for part in portions(group, _AT_ONCE):
                found = self._commit_in(queue, [commits[place] for place in part], counted)
                for place, answer in zip(part, found, strict=True):
                    answers[place] = answer
        unknown = [place for place, answer in enumerate(answers) if answer == _UNKNOWN]
        late = self.settle_each([commits[place] for place in unknown], counted=counted)
        found_later = dict(zip(unknown, late, strict=True))
        return [
            found_later.get(place, JobState.DONE if answer == _DONE else None) for place, answer in enumerate(answers)
        ]

    def _commit_in(self, queue: str, commits: Sequence[Commit], counted: str) -> list[int]:
        arguments = [text for commit in commits for text in (commit.id, commit.token, commit.result or "")]

        def run(again: bool) -> list[int]:
            if again:  # an answer was lost: see what has been done
                return [_DONE if state else _LOST for state in self.settle_each(commits, repeat=True, counted=counted)]
            answers: list[int] = self.server.run("commit", self.key(queue), counted, *arguments)
            return answers

        return self.server.call(run)


def _is_plain(outcome: Outcome) -> bool:
    return type(outcome) is Commit and outcome.payload is None and not outcome.jobs


def _together(parts: Sequence[list[T]], most: int) -> Iterator[list[T]]:
    """Yield the items of the parts, up to so many at a time, and none of a part without its others."""
    items = list[T]()
    for part in parts:
        if items and len(items) + len(part) > most:
            yield items
            items = []
        items = items + part
    if items:
        yield items


def refuse_to_join() -> NoReturn:
    """Raise CannotJoin."""
    raise CannotJoin(
        "Redis has no transactions that a job could be part of; leave tx out, or use a store on the database that "
        "holds your transaction"
    )
