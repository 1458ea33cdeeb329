"""Judges a history: what was promised to whom, against what the store holds in the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.queues import Counts
from stanchion.stores.rules.leases.lost_leases import ALONE_FROM
from stanchion.stores.rules.lifecycle.outcomes import NEVER_BEGAN
from stanchion.telemetry.failures import LOST as LEASE_LOST
from tests.crash.journal import LOST, UNAVAILABLE, Event, What


@dataclass
class Trial:
    """A history, and the store's final state: all its jobs, live and finished, and its counts.

    `doomed`: jobs that must end dead; every other stored job must end done, once the queue is `drained`.
    """

    events: Sequence[Event]
    rows: Sequence[JobRow]
    counts: Counts
    doomed: frozenset[str] = frozenset()
    drained: bool = True
    stored: Mapping[str, JobRow] = field(init=False)

    def __post_init__(self) -> None:
        self.stored = {row.id: row for row in self.rows}

    @cached_property
    def by_kind(self) -> Mapping[What, list[Event]]:
        """The events by what they are."""
        kinds: defaultdict[What, list[Event]] = defaultdict(list)
        for event in self.events:
            kinds[event.what].append(event)
        return kinds

    @cached_property
    def commits(self) -> list[Event]:
        """The commits that were told to have been made."""
        return [event for event in self.by_kind["told commit"] if event.detail == JobState.DONE]


def broken_rules(trial: Trial) -> list[str]:
    """Return every rule that the history breaks, each with the job; empty when all is well."""
    return [broken for rule in RULES for broken in rule(trial)]


def told_pushes_are_stored(trial: Trial) -> Iterator[str]:
    for event in trial.by_kind["told push"]:
        if event.detail != UNAVAILABLE and event.job not in trial.stored:
            yield f"lost: {event.job} was told to be stored"


def pushes_are_whole(trial: Trial) -> Iterator[str]:
    """A push is there with all its jobs as they were given, or not at all; nothing else is there."""
    asked = {event.job: event for event in trial.by_kind["asked push"]}
    batches: defaultdict[str, set[bool]] = defaultdict(set)
    for event in asked.values():
        batches[event.batch].add(event.job in trial.stored)
    yield from (
        f"torn: of the push {batch} only some jobs are stored" for batch, there in batches.items() if len(there) > 1
    )
    yield from (f"stored twice: {job}" for job, times in Counter(row.id for row in trial.rows).items() if times > 1)
    for row in trial.rows:
        if row.id not in asked:
            yield f"invented: {row.id} was never pushed"
        elif row.payload != asked[row.id].detail:
            yield f"altered: the payload of {row.id} is not the one that was pushed"


def jobs_are_committed_once(trial: Trial) -> Iterator[str]:
    for job, times in Counter(event.job for event in trial.commits).items():
        if times > 1:
            yield f"committed {times} times: {job}"


def commits_hold(trial: Trial) -> Iterator[str]:
    """What was told to be committed is done by that reservation, and done is only what was committed."""
    for event in trial.commits:
        row = trial.stored.get(event.job)
        if row is not None and (row.state, row.token) != (JobState.DONE, event.token):
            yield f"undone: {event.job} was committed under {event.token}, and is {row.state} under {row.token}"
    asked = {(event.job, event.token) for event in trial.by_kind["asked commit"]}
    for row in trial.rows:
        if row.state == JobState.DONE and (row.id, row.token) not in asked:
            yield f"done by none: {row.id}"


def refusals_hold(trial: Trial) -> Iterator[str]:
    """A refused commit has changed nothing."""
    for event in trial.by_kind["told commit"]:
        row = trial.stored.get(event.job)
        if event.detail == LOST and row is not None and (row.state, row.token) == (JobState.DONE, event.token):
            yield f"refused and yet committed: {event.job} under {event.token}"


def nothing_starts_after_its_commit(trial: Trial) -> Iterator[str]:
    """No claim that begins after a commit delivers the job; a stalled process may still begin an earlier delivery."""
    delivered = {(event.job, event.token): event for event in trial.by_kind["claimed"]}
    committed = {event.job: event for event in trial.commits}
    for event in trial.by_kind["started"]:
        commit, claim = committed.get(event.job), delivered.get((event.job, event.token))
        if commit is not None and claim is not None and event.token != commit.token and claim.at > commit.at:
            yield f"started after its commit: {event.job}, attempt {event.attempt}"


def reservations_start_once(trial: Trial) -> Iterator[str]:
    for (job, token), times in Counter((e.job, e.token) for e in trial.by_kind["started"]).items():
        if times > 1:
            yield f"started {times} times under one token: {job} under {token}"
    delivered = {(event.job, event.token) for event in trial.by_kind["claimed"]}
    for event in trial.by_kind["started"]:
        if (event.job, event.token) not in delivered:
            yield f"started without a claim: {event.job} under {event.token}"


def successes_are_reported_once(trial: Trial) -> Iterator[str]:
    for job, times in Counter(event.job for event in trial.by_kind["succeeded"]).items():
        if times > 1:
            yield f"reported {times} times: {job}"


def attempts_are_bounded(trial: Trial) -> Iterator[str]:
    most = {row.id: row.max_attempts for row in trial.rows}
    seen: list[tuple[str, int]] = [(row.id, row.attempts) for row in trial.rows]
    seen += [(event.job, event.attempt) for event in trial.by_kind["started"]]
    for job, attempts in seen:
        if attempts > most.get(job, attempts):
            yield f"too many attempts: {attempts} of {job}"


def counts_add_up(trial: Trial) -> Iterator[str]:
    """Every reservation has one end, every end is counted once, every attempt is a reservation."""
    counts, states = trial.counts, Counter(row.state for row in trial.rows)
    ends = counts.committed + counts.rolled_back + counts.moved + counts.buried + counts.cancelled + counts.expired
    told = sum(event.detail not in (LOST, UNAVAILABLE) for event in trial.by_kind["told refund"])
    asked = len({(event.job, event.token) for event in trial.by_kind["asked refund"]})
    attempts = sum(row.attempts for row in trial.rows)
    yield from _unequal("pushed", counts.pushed, len(trial.rows))
    yield from _unequal("committed", counts.committed, states[JobState.DONE])
    yield from _unequal("buried", counts.buried, states[JobState.DEAD])
    yield from _unequal("reserved", counts.reserved, ends + states[JobState.RUNNING])
    never_began = sum((row.errors or "").count(NEVER_BEGAN) for row in trial.rows)  # and got the attempt back
    asked, told = asked + never_began, told + never_began
    lost = [(row.errors or "").count(f'"{LEASE_LOST}:') for row in trial.rows]
    if max(lost, default=0) >= ALONE_FROM:  # claims gave back what stood beside these
        rollbacks = len({(event.job, event.token) for event in trial.by_kind["asked rollback"]})
        asked += max(0, counts.rolled_back - asked - rollbacks + never_began)
    if not counts.reserved - asked <= attempts <= counts.reserved - told:
        yield f"miscounted: {attempts} attempts of {counts.reserved} reservations, {told} to {asked} given back"


def _unequal(what: str, counted: int, found: int) -> Iterable[str]:
    return [] if counted == found else [f"miscounted: {counted} {what}, {found} found"]


def all_is_finished(trial: Trial) -> Iterator[str]:
    for row in trial.rows if trial.drained else ():
        wanted = JobState.DEAD if row.id in trial.doomed else JobState.DONE
        if row.state != wanted:
            yield f"unfinished: {row.id} is {row.state}, not {wanted}"


RULES = (
    told_pushes_are_stored,
    pushes_are_whole,
    jobs_are_committed_once,
    commits_hold,
    refusals_hold,
    nothing_starts_after_its_commit,
    reservations_start_once,
    successes_are_reported_once,
    attempts_are_bounded,
    counts_add_up,
    all_is_finished,
)
