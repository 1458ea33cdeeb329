"""Rules about jobs: run time, attempts, dead letters, failed attempts, expired jobs, unknown tasks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from stanchion.alerts.records import Action, Alert
from stanchion.alerts.rules.finding import Found, of_queue
from stanchion.alerts.snapshot import DeadJob, ErrorSample, LiveJob, PutOff, QueueSample, RunningJob, Snapshot, Window
from stanchion.alerts.thresholds import Thresholds
from stanchion.alerts.words import command, number
from stanchion.core.service_levels import BANDS, BandName, band_of
from stanchion.core.text.durations import spelled
from stanchion.core.times import moment
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import Counts

T = TypeVar("T")


def run_time(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """An attempt runs for longer than the limit of its band."""

    longest = seen.run_limits(limits)

    def percent(job: RunningJob) -> float:
        return seen.ago(job.started_at) / longest[job.id]

    for queue, jobs in _by(seen.running, lambda job: job.queue).items():
        slow = [job for job in jobs if percent(job) >= 1]
        if not slow:
            continue
        worst = max(slow, key=percent)
        band, ran = band_of(worst.priority), seen.ago(worst.started_at)
        limit = longest[worst.id]
        what = worst.task or "a job without a task"
        yield Found(
            of_queue(queue),
            Alert(
                *("soon", "run-time", "queue", queue),
                f"{number(len(slow), 'job')} of {queue} {'run' if len(slow) > 1 else 'runs'} for too long: {what} for "
                f"{spelled(ran)}, the limit is {spelled(limit)}.",
                value=ran,
                limit=limit,
                unit="seconds",
                band=band.name,
                since=moment(worst.started_at + int(limit * SECOND)),
                evidence=(f"Job {worst.id} runs on {worst.worker or 'no named worker'}.",),
                actions=(
                    Action("See the job", command("show", worst.id)),
                    Action("Ask it to stop, if it may", command("cancel", worst.id)),
                ),
            ),
        )


def attempts(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """A live job has had as many attempts as its band allows."""
    jobs: dict[str, LiveJob | RunningJob] = {job.id: job for job in seen.live}
    jobs |= {job.id: job for job in seen.running}

    def percent(job: LiveJob | RunningJob) -> float:
        return job.attempts / limits.of(job.queue, band_of(job.priority).name).max_attempts

    for queue, found in _by(jobs.values(), lambda job: job.queue).items():
        tried = [job for job in found if percent(job) >= 1]
        if not tried:
            continue
        worst = max(tried, key=percent)
        band = band_of(worst.priority)
        limit = limits.of(queue, band.name).max_attempts
        cause = cause_of(seen, queue)
        yield Found(
            of_queue(queue),
            Alert(
                *("soon", "attempts", "queue", queue),
                f"{number(len(tried), 'job')} of {queue} {'need' if len(tried) > 1 else 'needs'} many attempts: up to "
                f"{worst.attempts}, the limit is {limit:.0f}.",
                value=worst.attempts,
                limit=limit,
                unit="attempts",
                band=band.name,
                error=cause.error,
                evidence=cause.evidence,
                actions=(Action("See its errors", command("show", worst.id)), *cause.actions),
            ),
        )


def dead_letters(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """Jobs died in the last hour. The totals count all of them; the newest finished jobs show which."""
    by_queue, died = _by(seen.dead, lambda job: job.queue), died_of_late(seen)
    for queue in seen.queues:
        name = queue.settings.name
        jobs, count = by_queue.get(name, []), died[name]
        totals = None if seen.hour is None else _since(seen.hour, queue)
        if not count:
            continue
        band = min((band_of(job.priority) for job in jobs), key=BANDS.index, default=None)
        finished = count + (totals.committed + totals.popped + totals.moved if totals else 0)
        share = count / finished if totals else 0.0
        many = count >= limits.dead_now or (share >= limits.dead_share and count >= limits.dead_least)
        urgent = many or (band is not None and band == BANDS[0])
        named = None if band is None else band.name
        yield Found(of_queue(name), _dead(seen, queue, jobs, (count, limits.dead_now), named, urgent=urgent))


def died_of_late(seen: Snapshot) -> dict[str, int]:
    """Return how many jobs of each queue died within the last hour, as far as its totals or the jobs show."""
    jobs = Counter(job.queue for job in seen.dead)
    buried = {one.settings.name: 0 if seen.hour is None else _since(seen.hour, one).buried for one in seen.queues}
    return {name: max(count, jobs[name]) for name, count in buried.items()}


def _dead(
    seen: Snapshot,
    queue: QueueSample,
    jobs: list[DeadJob],
    count_and_limit: tuple[int, float],
    band: BandName | None,
    *,
    urgent: bool,
) -> Alert:
    (count, limit), name = count_and_limit, queue.settings.name
    newest = max((job.died_at for job in jobs), default=None)
    last = () if newest is None else (f"The last one died {spelled(seen.ago(newest))} ago.",)
    cause = cause_of(seen, name, dead=True)
    return Alert(
        *("now" if urgent else "soon", "dead-letters", "queue", name),
        f"{number(count, 'job')} of {name} died within the last hour.",
        value=count,
        limit=limit,
        unit="jobs",
        band=band,
        since=moment(min((job.died_at for job in jobs), default=None)),
        error=cause.error,
        evidence=(*cause.evidence, *last),
        actions=cause.actions
        or (
            Action("See why", command("jobs --state dead --queue", name)),
            Action("Once the cause is gone, run them again", command("retry --queue", name)),
        ),
    )


def failed_attempts(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """Too large a share of the attempts of some minutes failed."""
    if seen.recent is None:
        return
    for queue in seen.queues:
        found = _since(seen.recent, queue)
        failed = found.rolled_back + found.buried + found.expired
        ended = failed + found.committed + found.moved
        if failed < limits.failed_least or failed < limits.failed_soon * ended:
            continue
        share, name, minutes = failed / ended, queue.settings.name, seen.ago(seen.recent.at)
        limit = limits.failed_now if share >= limits.failed_now else limits.failed_soon
        cause = cause_of(seen, name)
        yield Found(
            of_queue(name),
            Alert(
                *("now" if share >= limits.failed_now else "soon", "failed-attempts", "queue", name),
                f"{share:.0%} of the attempts of {name} failed in the last {spelled(minutes)}: {failed:,} of "
                f"{ended:,}, the limit is {limit:.0%}.",
                value=share,
                limit=limit,
                unit="share",
                since=moment(seen.recent.at),
                error=cause.error,
                evidence=cause.evidence,
                actions=cause.actions
                or (
                    Action(
                        "See the errors of jobs that are tried again", command("jobs --state scheduled --queue", name)
                    ),
                ),
            ),
        )


def expired_jobs(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """Too large a share of the jobs that ended within some minutes had expired."""
    if seen.recent is None:
        return
    for queue in seen.queues:
        found, name = _since(seen.recent, queue), queue.settings.name
        ended = found.lapsed + found.committed + found.popped + found.moved + found.buried
        if found.lapsed < limits.expired_least or found.lapsed < limits.expired_soon * ended:
            continue
        yield Found(
            of_queue(name),
            Alert(
                *("soon", "expired-jobs", "queue", name),
                f"{number(found.lapsed, 'job')} of {name} expired in the last {spelled(seen.ago(seen.recent.at))}, "
                f"{found.lapsed / ended:.0%} of the jobs that ended; the limit is {limits.expired_soon:.0%}.",
                value=found.lapsed / ended,
                limit=limits.expired_soon,
                unit="share",
                since=moment(seen.recent.at),
                actions=(Action("See the jobs", command("jobs --state cancelled --queue", name)),),
            ),
        )


def unknown_task(seen: Snapshot, _limits: Thresholds) -> Iterator[Found]:
    """Jobs are put off, as no worker that claimed them knows their task."""
    jobs: list[PutOff]
    for work, jobs in _by(seen.put_off, lambda job: job.work).items():
        first = min(job.since for job in jobs)
        yield Found(
            f"task:{work}",
            Alert(
                *("soon", "unknown-task", "task", work),
                f"No worker knows {work}: {number(len(jobs), 'job')} of {jobs[0].queue} "
                f"{'are' if len(jobs) > 1 else 'is'} put off, the first for {spelled(seen.ago(first))}.",
                value=len(jobs),
                limit=1,
                unit="jobs",
                since=moment(first),
                actions=(
                    Action("Deploy the code that has it to the workers of the queue"),
                    Action("See a job", command("show", jobs[0].id)),
                ),
            ),
        )


def _since(window: Window, queue: QueueSample) -> Counts:
    """Return what happened in a queue since a window began; a queue unknown then began with nothing."""
    before = window.totals.get(queue.settings.name, Counts())
    return Counts(*(max(0, now - then) for now, then in zip(queue.stats.totals, before, strict=True)))


def _by(jobs: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    found: defaultdict[str, list[T]] = defaultdict(list)
    for job in jobs:
        found[key(job)].append(job)
    return found


class Cause(NamedTuple):
    """What an alert says of an error: the key of its group, a sentence, and what can be done."""

    error: str | None = None
    evidence: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()


def cause_of(seen: Snapshot, queue: str, *, dead: bool = False) -> Cause:
    """Return the error of a queue with most failed attempts in the last hour.

    `dead`: the error with most dead jobs.
    """
    known = [one for one in seen.errors.get(queue, ()) if one.dead or not dead]
    if not known:
        return Cause()
    heaviest = max(known, key=lambda one: (one.dead if dead else one.failed, one.failed))
    again = command(f"retry --error {heaviest.key} --queue", queue)
    retry = (Action("Once its cause is gone, run its dead jobs again", again),) if heaviest.dead else ()
    see = Action("See the errors", command("errors --queue", queue))
    return Cause(heaviest.key, (_sentence(heaviest),), (see, *retry))


def _sentence(one: ErrorSample) -> str:
    return (
        f"{one.task or 'A job without a task'} fails most, with {one.type or 'one error'}: "
        f"{number(one.failed, 'attempt')} within the last hour, error {one.key}."
    )
