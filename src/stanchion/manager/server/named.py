"""Effects of a call, by its verb: new jobs, and the queues that it may make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from stanchion.stores.records.flows import ExtendFlow, FlowNode, OpenFlow
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Commit, Continue, Move, Outcome
from stanchion.stores.rules import flows

Args = Mapping[str, Any]


def jobs_in(verb: str, args: Args) -> Iterator[NewJob]:
    """Yield the jobs that a call may store now or later."""
    if named := _JOBS.get(verb):
        yield from named(args)


def made_queues(verb: str, args: Args) -> Iterator[str]:
    """Yield the queues that a call makes if they are missing."""
    yield from (job.queue for job in jobs_in(verb, args))
    if verb == "settle":
        yield from (one.queue for one in args["outcomes"] if isinstance(one, Move))
    elif verb == "adopt":
        yield from (row.queue for row in args["rows"])
    elif verb == "configure":
        yield args["queue"]


def _of_outcomes(outcomes: Sequence[Outcome]) -> Iterator[NewJob]:
    for one in outcomes:
        if isinstance(one, (Commit, Continue)):
            yield from one.jobs
        if isinstance(one, Continue):
            yield one.job
            yield from _of_failures(one.nodes)


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
    "change_flows": _of_changes,
}
