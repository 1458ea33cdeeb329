"""Jobs in hand for readers elsewhere, and jobs that are laid aside until they are published.

What a publication does is one transaction, in which the row of its value is locked first, then jobs. Staged jobs are
stored by ranges of ids, so that no single statement takes long however many there are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from stanchion.errors import LeasesLost, StagedJobsLost
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import ValueChange
from stanchion.stores.rules.jobs import due_at
from stanchion.stores.rules.lost_leases import apart
from stanchion.stores.rules.staging import KEPT_STAGED, WRITE_KIND, WRITES_KEPT, published_at, value_of_write
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS
from stanchion.stores.sql.claim import Claiming, beside_the_lane, reservation
from stanchion.stores.sql.engine.database import CALL_SECONDS, Database
from stanchion.stores.sql.engine.runner import BACK, MARK, Params, Runner
from stanchion.stores.sql.operate import Operating
from stanchion.stores.sql.push import push_all
from stanchion.stores.sql.stage_statements import StageStatements
from stanchion.stores.sql.values import Values

_FIRST = "00000000-0000-0000-0000-000000000000"
_AT_ONCE = 20_000
"""So many staged jobs one statement stores at most."""

_COMMITTED_AT_ONCE = 5000
_SLOWEST = 2000
"""So many jobs a second are staged, published or finished on a slow server."""


class _Share(NamedTuple):
    """What an attempt has staged for one queue: how many jobs, how many of them with a key, and their last lane."""

    attempt: str
    queue: str
    jobs: int
    keyed: int
    last_lane: int


class Staging(Claiming, Operating):
    """The verbs for those who take and give whole batches."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._stage = self.dialect.once(StageStatements)
        self._values = Values(database)

    # -- in hand

    def claim(self, claim: Claim) -> Claimed:
        if not claim.rows:
            return Claimed([], reserved=self.reserve(claim))
        claimed, others = apart(self.claim_together(claim), claim.token)
        if others:
            self.outcomes.settle(others)
        return claimed

    def reserve(self, claim: Claim) -> int:
        def work(run: Runner, again: bool) -> int | None:
            return self._reserve_unseen(run, claim, again=again)

        reserved = self.transactions.write(work, seconds_for(claim.limit), durable=False)  # as a claim
        if reserved is not None:
            return reserved
        self.claim_together(claim)
        return self._count_in_hand(claim.queue, claim.token)

    def _reserve_unseen(self, run: Runner, claim: Claim, *, again: bool) -> int | None:
        """Reserve the next due jobs without reading them; return how many, or None if that won't do for all of them."""
        self.recover_expired(run)
        settings = self.queue_rows.settings(run, claim.queue)
        if again or claim.repeat:
            given = {"queue": claim.queue, "token": claim.token}
            if found := int(run.rows(self._stage.count_in_hand, given)[0][0]):
                return found
        if settings.throttled or claim.queue in self.gated_queues or beside_the_lane(claim):
            return None
        ids = self.due(run, claim.queue, claim.limit)
        if not ids:
            return 0
        run.change(MARK)
        reserved = run.change(self.statements.reserve_unseen, {"ids": json.dumps(ids), **reservation(claim, settings)})
        if reserved != len(ids):
            run.change(BACK)
            return None
        if claim.counted:
            self.jobs.tally(run, [(claim.queue, "reserved")] * reserved)
        return reserved

    def _count_in_hand(self, queue: str, token: str) -> int:
        given = {"queue": queue, "token": token}
        return int(self.database.read(lambda run: run.rows(self._stage.count_in_hand, given))[0][0])

    # -- staged

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        def work(run: Runner, _again: bool) -> None:
            place = {"write": write, "attempt": attempt, "staged_at": self.clock(run)}
            run.change_each(self._stage.insert, [{**place, **staged(job)} for job in jobs])

        if jobs:
            self.database.write(work, seconds_for(len(jobs)))

    def publish(self, publication: Publication) -> bool:
        shares = self._shares(publication.write)
        attempts = dict(publication.attempts)
        wanted = {share.queue for share in shares if share.attempt in attempts}
        self.queue_rows.make(wanted)
        value = publication.value or value_of_write(publication.write, self.database.read(self.clock))
        jobs = sum(share.jobs for share in shares) + (publication.finish.jobs if publication.finish else 0)

        def work(run: Runner, again: bool) -> bool:
            return self.publish_in(run, publication, value, shares, again=again)

        done = self.transactions.write(work, seconds_for(jobs))
        if done:
            self.dialect.announce(wanted)
        return done

    def unstage(self, write: str) -> None:
        shares = self._shares(write)
        for attempt in {share.attempt for share in shares}:
            jobs = sum(share.jobs for share in shares if share.attempt == attempt)
            self.database.write(
                lambda run, _again, attempt=attempt: self._clear(run, write, attempt),  # type: ignore[misc]
                seconds_for(jobs),
            )

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        behind = super().maintain(seconds)
        oldest = self.database.read(self.clock) - KEPT_STAGED
        for write in self._writes():
            last = self.database.read(lambda run, one=write: run.rows(self._stage.last_staged, {"of_write": one}))[0][0]  # type: ignore[misc]
            if last is not None and last <= oldest:
                self.unstage(write)
        for value in self._values.values(WRITE_KIND):
            if published_at(value) <= oldest + KEPT_STAGED - WRITES_KEPT:
                self._values.compare_and_set(WRITE_KIND, value.name, None, value.version)
        return behind

    def _writes(self) -> Iterator[str]:
        """Yield the writes that have staged jobs, each by a look at an index."""
        after = ""
        while True:
            (found,) = self.database.read(lambda run: run.rows(self._stage.next_write, {"after": after}))[0]  # noqa: B023
            if found is None:
                return
            yield found
            after = found

    def _shares(self, write: str) -> list[_Share]:
        found = self.database.read(lambda run: run.rows(self._stage.shares, {"of_write": write}))
        return [_Share(*row) for row in found]

    def publish_in(
        self, run: Runner, publication: Publication, value: ValueChange, shares: Sequence[_Share], *, again: bool
    ) -> bool:
        if again and self._values.is_written(run, value):
            return True
        mine = self._values.write(run, value)
        attempts = dict(publication.attempts)
        if mine and publication.finish is not None:
            self.finish_in(run, publication.finish)
        moment = self.clock(run)
        if mine:
            for attempt, expected in attempts.items():
                own = [share for share in shares if share.attempt == attempt]
                found = sum(share.jobs for share in own)
                if found == expected:
                    found = self._publish_attempt(run, publication.write, attempt, own, moment)
                if found != expected:
                    raise StagedJobsLost(publication.write, expected, found)
        for attempt in {share.attempt for share in shares} - (attempts.keys() if mine else set()):
            self._clear(run, publication.write, attempt)
        return mine

    def _publish_attempt(self, run: Runner, write: str, attempt: str, shares: Sequence[_Share], moment: int) -> int:
        """Store what an attempt has staged, and clear it; return how many that were."""
        self.queue_rows.make_laned(run, {share.queue for share in shares if share.last_lane})
        pushed: Counter[str] = Counter()
        found = 0
        for span in self._spans(run, write, attempt):
            for share in shares:
                if share.jobs > share.keyed:
                    given = {**span, "of_queue": share.queue, "moment": moment}
                    pushed[share.queue] += self.store_staged(run, given)
            if any(share.keyed for share in shares):
                rows = run.rows(self._stage.with_keys, {**span, "moment": moment})
                push_all(self.pushes, run, [NewJob(*row) for row in rows])
            found += run.change(self._stage.clear, span)
        self.jobs.count(run, Counter({(queue, "pushed"): n for queue, n in pushed.items() if n}))
        return found

    def store_staged(self, run: Runner, given: Params) -> int:
        """Store those of some staged jobs that have no key, and are not there already; return how many."""
        return run.change(self._stage.publish, given)

    def _clear(self, run: Runner, write: str, attempt: str) -> None:
        for span in self._spans(run, write, attempt):
            run.change(self._stage.clear, span)

    def _spans(self, run: Runner, write: str, attempt: str) -> Iterator[Params]:
        """Yield the ranges of ids in which an attempt has staged its jobs, each with its first and its last id."""
        place = {"of_write": write, "of_attempt": attempt}
        last: str | None = _FIRST
        while last is not None:
            ((first, last),) = run.rows(self._stage.span, {**place, "after": last, "most": _AT_ONCE})
            if last is not None:
                yield {**place, "first": first, "last": last}

    def finish_in(self, run: Runner, finish: Finish) -> None:
        """Commit what is in hand under a token: plain jobs as a set, those whose end has consequences one by one."""
        given = {"queue": finish.queue, "token": finish.token}
        plain = self.finish_plain(run, finish)
        ids = [row[0] for row in run.rows(self._stage.ids_in_hand_locked, given)]
        if plain + len(ids) != finish.jobs:
            raise LeasesLost(finish.queue, finish.jobs, plain + len(ids))
        for start in range(0, len(ids), _COMMITTED_AT_ONCE):
            some = ids[start : start + _COMMITTED_AT_ONCE]
            self.commits.commit_in(run, [Commit(one, finish.token) for one in some])

    def finish_plain(self, run: Runner, finish: Finish) -> int:
        """Commit the plain jobs in hand under a token; return how many they were."""
        given = {"queue": finish.queue, "token": finish.token, "moment": self.clock(run)}
        settings = self.queue_rows.settings(run, finish.queue)
        kept = run.change(self._stage.keep_plain, given) if settings.history_ttl > 0 else None
        done = run.change(self._stage.remove_plain, given)
        if kept not in (None, done):  # the lease of some has just ended
            raise LeasesLost(finish.queue, finish.jobs, done)
        if done:
            self.jobs.count(run, Counter({(finish.queue, "committed"): done}))
        return done


def seconds_for(jobs: int) -> float:
    """Return how long a call may take that moves so many jobs."""
    return CALL_SECONDS + jobs / _SLOWEST


def staged(job: NewJob) -> dict[str, Any]:
    """Return the parameters that lay a job aside."""
    return {**job._asdict(), "delay": due_at(job._replace(run_at=None), 0)}
