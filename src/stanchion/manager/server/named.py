"""Effects of a call, by its verb: new jobs, and the queues that it may make or whose counters it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from stanchion.stores.records.flows import ExtendFlow, FlowNode, OpenFlow
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Commit, Continue, Outcome, Tally
from stanchion.stores.rules import flows
from stanchion.stores.rules.lifecycle.outcomes import jobs_with, last_of, queues_of

Args = Mapping[str, Any]


def jobs_in(verb: str, args: Args) -> Iterator[NewJob]:
    """Yield the jobs that a call may store now or later."""
    if named := _JOBS.get(verb):
        yield from named(args)


def outcomes_in(verb: str, args: Args) -> Sequence[Outcome]:
    """Return the outcomes that a call applies."""
    if verb == "publish":
        finish = args["publication"].finish
        return () if finish is None else finish.ends
    return args["outcomes"] if verb == "settle" else ()


def made_queues(verb: str, args: Args) -> Iterator[str]:
    """Yield the queues that a call makes if they are missing, or that it names as those of jobs and of items."""
    for job in jobs_in(verb, args):
        yield job.queue
        if job.dead_from is not None:
            yield job.dead_from
    for one in outcomes_in(verb, args):
        yield from queues_of(one)
        yield from (tally.queue for tally in tallies_of(one))
    if verb == "adopt":
        yield from (row.queue for row in args["rows"])
    elif verb == "configure":
        yield args["queue"]


def tallies_of(outcome: Outcome) -> tuple[Tally, ...]:
    """Return what an outcome says of the items of a chunk that it divides."""
    last = last_of(outcome)
    return last.tallies if isinstance(last, Commit) else ()


def _of_outcomes(outcomes: Sequence[Outcome]) -> Iterator[NewJob]:
    for one in outcomes:
        yield from jobs_with(one)
        if isinstance(last := last_of(one), Continue):
            yield last.job
            yield from last.jobs
            yield from _of_failures(last.nodes)


def _of_failures(nodes: Iterable[FlowNode]) -> Iterator[NewJob]:
    return (job for job in map(flows.failure_job, nodes) if job is not None)


def _of_changes(args: Args) -> Iterator[NewJob]:
    changes = args["changes"]
    yield from flows.jobs_in(changes)
    for one in changes:
        if isinstance(one, (OpenFlow, ExtendFlow)):
            yield from _of_failures(one.nodes if isinstance(one, OpenFlow) else one.opens.nodes)


_JOBS: Final[Mapping[str, Callable[[Args], Iterable[NewJob]]]] = {
    "push": lambda args: args["jobs"],
    "stage": lambda args: args["jobs"],
    "settle": lambda args: _of_outcomes(args["outcomes"]),
    "publish": lambda args: _of_outcomes(outcomes_in("publish", args)),
    "change_flows": _of_changes,
}
