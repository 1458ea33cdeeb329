"""Values that a client may not send: no store could keep them, or they would harm readers.

Python clients have checked their values already; others may send anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from stanchion.context.queues.settings import check_changes
from stanchion.core.checks import LONGEST_DELAY, MAX_NAME, SHORTEST_LEASE, brief, checked_name, number, whole
from stanchion.errors import InvalidInput
from stanchion.stores.fields.jobs import LANES_MAX, LATEST
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import CloseFlow, ExtendFlow, FlowChange, FlowNode, NodeState, OpenFlow
from stanchion.stores.records.jobs import UNLANED, JobRow, NewJob
from stanchion.stores.records.outcomes import Commit, Continue, Extend, Move, Outcome, Pass, Progress, Rollback
from stanchion.stores.records.queues import Counts
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.flows import failure_job
from stanchion.stores.rules.lifecycle.job_checks import (
    check_headers,
    check_id,
    check_json,
    check_new,
    check_payload,
    check_stored,
)
from stanchion.stores.rules.times import BUCKETS, ENTRIES_MAX
from stanchion.stores.wire.jobs import NEW_JOB

Args = Mapping[str, Any]

_AT_ONCE_MAX: Final = 1_000_000
_NAMED_MAX: Final = 10_000
_PUBLISHED_MAX: Final = 1_000_000_000
_PASSED_MAX: Final = 100
_TALLIED_MAX: Final = 2**53


def check_texts(value: object) -> None:
    """Refuse a null character anywhere: no database keeps it."""
    if isinstance(value, str):
        if "\0" in value:
            raise InvalidInput("a text has a null character, which no database keeps; leave it out")
    elif isinstance(value, Mapping):
        check_texts([*value, *value.values()])
    elif isinstance(value, (tuple, list)):
        for one in value:
            check_texts(one)


def check(verb: str, args: Args) -> None:
    """Raise InvalidInput for arguments that no client should send."""
    for name, checks in _OF_ALL.items():
        if name in args:
            checks(args[name])
    if special := _OF_VERBS.get(verb):
        special(args)


def _known_name(value: str, what: str) -> None:
    """Check a name used to find something; an older release may have stored one that is not printable."""
    if not 1 <= len(value) <= MAX_NAME:
        raise InvalidInput(f"{what} must have 1 to {MAX_NAME} characters, not {brief(value)}")


def _jobs(jobs: Iterable[NewJob]) -> None:
    for job in jobs:
        check_new(job)


def _starting(jobs: Iterable[NewJob]) -> None:
    """Check jobs that are stored without the nodes of their flow: nothing would end their wait."""
    for job in jobs:
        check_new(job)
        if job.waits_kind is not None:
            raise InvalidInput(
                f"job {job.id} waits for a node of a flow, and comes without it: store both by ChangeFlows"
            )


def _claim(claim: Claim) -> None:
    checked_name(claim.queue, "the queue of a claim")
    checked_name(claim.token, "the token of a claim")
    whole(claim.limit, "the limit of a claim", 0, _AT_ONCE_MAX)
    for name in ("worker", "holder"):
        if (value := getattr(claim, name)) is not None:
            checked_name(value, name)
    if claim.lease is not None:
        number(claim.lease, "lease", SHORTEST_LEASE, LONGEST_DELAY)
    if claim.not_after is not None:
        whole(claim.not_after, "not_after", 0, LATEST)
    whole(len(claim.ids), "the number of jobs that a claim names", 0, _NAMED_MAX)
    for job, worker in claim.ids:
        check_id(job)
        if worker:
            checked_name(worker, "worker")


def _outcomes(outcomes: Iterable[Outcome]) -> None:
    for one in outcomes:
        check_id(one.lease.id)
        match one:
            case Rollback():
                number(one.delay, "delay", 0, LONGEST_DELAY)
                check_payload(one.payload)
            case Pass():
                _passing(one)
            case Move():
                checked_name(one.queue, "the queue of a move")
                number(one.delay, "delay", 0, LONGEST_DELAY)
                check_headers(one.headers)
                check_payload(one.payload)
                if one.order_key is not None:
                    checked_name(one.order_key, "order_key")
                whole(one.lane, "lane", UNLANED, LANES_MAX)
            case Commit():
                check_payload(one.payload)
                check_payload(one.result, "the result")
                _starting(one.jobs)
                _tallies(one)
            case Continue():
                _jobs((one.job, *one.jobs))
                _nodes(one.nodes)
            case Extend():
                number(one.seconds, "lease", 0, LONGEST_DELAY)
            case Progress():
                number(one.value, "progress", 0, 1)


def _passing(outcome: Pass) -> None:
    whole(len(outcome.passages), "the number of queues that a job passes", 1, _PASSED_MAX)
    for passage in outcome.passages:
        checked_name(passage.queue, "a queue that a job passes")
        check_payload(passage.kept, "the payload that a queue keeps")
    check_headers(outcome.headers)
    check_payload(outcome.payload)
    _outcomes([outcome.then])


def _tallies(commit: Commit) -> None:
    if commit.tallies and not commit.jobs and commit.payload is None:
        raise InvalidInput("a commit has tallies of items, and no jobs that these items are in; leave the tallies out")
    for tally in commit.tallies:
        checked_name(tally.queue, "the queue of a tally")
        if tally.event not in Counts._fields:
            raise InvalidInput(f"a tally is of one of {', '.join(Counts._fields)}, not of {brief(tally.event)}")
        whole(tally.number, "the number of items", -_TALLIED_MAX, _TALLIED_MAX)


def _changes(changes: Iterable[FlowChange]) -> None:
    for one in changes:
        if isinstance(one, (OpenFlow, ExtendFlow)):
            _jobs(one.jobs)
        if isinstance(one, OpenFlow):
            _nodes(one.nodes)
        if isinstance(one, ExtendFlow):
            _changes([one.opens])
        if isinstance(one, (ExtendFlow, CloseFlow)):
            checked_name(one.node, "the node of a flow")


def _nodes(nodes: Iterable[FlowNode]) -> None:
    for node in nodes:
        check_id(node.id, "a node")
        check_id(node.root, "a flow")
        if node.kind not in ("one", "list", "none") or node.state not in list(NodeState):
            raise InvalidInput(f"a node has the kind {brief(node.kind)} and the state {brief(node.state)}")
        _failure(node)
        check_json(node.definition, "the definition")
        for name in ("size", "ended", "created_at", "finished_at"):
            if (value := getattr(node, name)) is not None:
                whole(value, name, 0, LATEST)


def _failure(node: FlowNode) -> None:
    """Check the job to store when a node fails: one that can't be stored would keep other jobs from ending."""
    try:
        job = failure_job(node)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput(f"on_failure must be a job as JSON, not {brief(node.on_failure)}") from None
    if job is not None:
        check_new(NEW_JOB.taken(NEW_JOB.to_message(job)))  # the protocol refuses fields of a wrong type


def _rows(rows: Iterable[JobRow]) -> None:
    for row in rows:
        try:
            check_stored(row)
        except InvalidInput as error:
            raise InvalidInput(f"job {brief(row.id)} can't be adopted: {error}") from None


def _publication(publication: Publication) -> None:
    checked_name(publication.write, "write")
    for attempt, jobs in publication.attempts:
        checked_name(attempt, "attempt")
        whole(jobs, "the number of staged jobs", 0, _PUBLISHED_MAX)
    if publication.finish is not None:
        whole(publication.finish.jobs, "the number of jobs to finish", 0, _PUBLISHED_MAX)
        _ends(publication.finish)


def _ends(finish: Finish) -> None:
    _outcomes(finish.ends)
    for one in finish.ends:
        if (one.lease.queue, one.lease.token) != (finish.queue, finish.token):
            raise InvalidInput(f"job {brief(one.lease.id)} is not reserved under the token of the batch")


def _workers(workers: Iterable[WorkerRow]) -> None:
    for one in workers:
        checked_name(one.id, "the id of a worker")
        number(one.heartbeat, "heartbeat", 0.01, LONGEST_DELAY)
        whole(len(one.times), "the number of queues and bands with times", 0, ENTRIES_MAX)
        for times in one.times:
            checked_name(times.queue, "queue")
            for counts in (times.delays, times.runs):
                whole(len(counts), "the number of buckets", 0, BUCKETS)
                whole(min(counts, default=0), "the number of jobs in a bucket", 0, 2**62)


def _configured(args: Args) -> None:
    checked_name(args["queue"], "queue")
    check_changes(args["changes"])


def _semaphore(name: str, capacity: int | None) -> None:
    checked_name(name, "the name of a semaphore")
    if capacity is not None:
        whole(capacity, "capacity", 0, 2**31 - 1)


_OF_ALL: Final[Mapping[str, Any]] = {
    "jobs": _starting,
    "claim": _claim,
    "outcomes": _outcomes,
    "rows": _rows,
    "workers": _workers,
    "queue": lambda queue: _known_name(queue, "queue"),
    "limit": lambda limit: whole(limit, "limit", 0, _AT_ONCE_MAX),
    "parts": lambda parts: whole(parts, "parts", 1, 100_000),
    "at_most": lambda most: whole(most, "at_most", 1, 2**62),
    "publication": _publication,
    "write": lambda write: checked_name(write, "write"),
    "attempt": lambda attempt: checked_name(attempt, "attempt"),
    "kind": lambda kind: checked_name(kind, "kind"),
    "version": lambda version: whole(version, "version", 0, 2**62),
}

_OF_VERBS: Final[Mapping[str, Any]] = {
    "configure": _configured,
    "change_flows": lambda args: _changes(args["changes"]),
    "select": lambda args: whole(args["query"].limit, "limit", 1, _AT_ONCE_MAX),
    "set_semaphore": lambda args: _semaphore(args["name"], args.get("capacity")),
}
