"""What a client may not send: values that no store could keep, or that would harm who reads them later.

Python clients have checked what they send already; others may send anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from stanchion.core.checks import (
    LONGEST_DELAY,
    MAX_HEADERS,
    MAX_NAME,
    MAX_PRIORITY,
    MIN_PRIORITY,
    SHORTEST_LEASE,
    number,
    shown,
    whole,
)
from stanchion.core.retry import MOST_ATTEMPTS
from stanchion.errors import InvalidInput
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import CloseFlow, ExtendFlow, FlowChange, FlowNode, NodeState, OpenFlow
from stanchion.stores.records.jobs import QUEUED, UNLANED, JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Continue, Extend, Move, Outcome, Progress, Rollback
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.flows import failure_job
from stanchion.stores.rules.times import BUCKETS, ENTRIES_MAX
from stanchion.stores.wire.jobs import NEW_JOB

Args = Mapping[str, Any]

_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LATEST: Final = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""

_LANES_MAX: Final = 1_000_000
_AT_ONCE_MAX: Final = 1_000_000
_NAMED_MAX: Final = 10_000
_PUBLISHED_MAX: Final = 1_000_000_000

_ADOPTED: Final = (QUEUED, JobState.DONE, JobState.DEAD, JobState.CANCELLED)
_NAMES: Final = ("task", "tenant", "key", "order_key", "token", "worker", "flow_root", "flow_node", "origin")
_TIMES: Final = ("run_at", "enqueued_at", "started_at", "finished_at", "lease_until")


def check_texts(value: Any) -> None:
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


def check_job(job: NewJob) -> None:
    """Check a job to store."""
    check_id(job.id)
    _name(job.queue, "the queue of a job")
    for name in ("task", "tenant", "key", "order_key"):
        if (value := getattr(job, name)) is not None:
            _name(value, name)
    whole(job.priority, "priority", MIN_PRIORITY, MAX_PRIORITY)
    whole(job.max_attempts, "max_attempts", 1, MOST_ATTEMPTS)
    whole(job.lane, "lane", UNLANED, _LANES_MAX)
    if job.run_at is not None:
        whole(job.run_at, "run_at", 0, _LATEST)
    for name in ("delay", "timeout", "key_ttl"):
        if (value := getattr(job, name)) is not None:
            number(value, name, 0, LONGEST_DELAY)
    for name in ("flow_root", "flow_node", "origin"):
        if (value := getattr(job, name)) is not None:
            check_id(value, name)
    if job.on_duplicate not in ("return", "raise", "replace"):
        raise InvalidInput(f"on_duplicate must be return, raise or replace, not {job.on_duplicate!r}")
    for name in ("headers", "limits", "trail"):
        if (value := getattr(job, name)) is not None:
            if len(value) > MAX_HEADERS:
                raise InvalidInput(f"the {name} take {len(value):,} characters, more than {MAX_HEADERS:,}")
            _json(value, f"the {name}")


def check_id(value: str, what: str = "a job") -> None:
    """Check the id of a job or another thing that the client makes."""
    if not _ID.fullmatch(value):
        raise InvalidInput(f"the id of {what} is a UUID in small letters, not {shown(value)}")


def _name(value: str, what: str) -> None:
    if not 1 <= len(value) <= MAX_NAME:
        raise InvalidInput(f"{what} must have 1 to {MAX_NAME} characters, not {shown(value)}")


def _jobs(jobs: Iterable[NewJob]) -> None:
    for job in jobs:
        check_job(job)


def _claim(claim: Claim) -> None:
    _name(claim.queue, "the queue of a claim")
    _name(claim.token, "the token of a claim")
    whole(claim.limit, "the limit of a claim", 0, _AT_ONCE_MAX)
    for name in ("worker", "holder"):
        if (value := getattr(claim, name)) is not None:
            _name(value, name)
    if claim.lease is not None:
        number(claim.lease, "lease", SHORTEST_LEASE, LONGEST_DELAY)
    if claim.not_after is not None:
        whole(claim.not_after, "not_after", 0, _LATEST)
    whole(len(claim.ids), "the number of jobs that a claim names", 0, _NAMED_MAX)
    for job, worker in claim.ids:
        check_id(job)
        if worker:
            _name(worker, "worker")


def _outcomes(outcomes: Iterable[Outcome]) -> None:
    for one in outcomes:
        check_id(one.lease.id)
        match one:
            case Rollback():
                number(one.delay, "delay", 0, LONGEST_DELAY)
            case Move():
                _name(one.queue, "the queue of a move")
                number(one.delay, "delay", 0, LONGEST_DELAY)
                _json(one.headers, "the headers")
                whole(one.lane, "lane", UNLANED, _LANES_MAX)
            case Commit():
                _jobs(one.jobs)
            case Continue():
                _jobs((one.job, *one.jobs))
                _nodes(one.nodes)
            case Extend():
                number(one.seconds, "lease", 0, LONGEST_DELAY)
            case Progress():
                number(one.value, "progress", 0, 1)


def _changes(changes: Iterable[FlowChange]) -> None:
    for one in changes:
        if isinstance(one, (OpenFlow, ExtendFlow)):
            _jobs(one.jobs)
        if isinstance(one, OpenFlow):
            _nodes(one.nodes)
        if isinstance(one, ExtendFlow):
            _changes([one.opens])
        if isinstance(one, (ExtendFlow, CloseFlow)):
            _name(one.node, "the node of a flow")


def _nodes(nodes: Iterable[FlowNode]) -> None:
    for node in nodes:
        check_id(node.id, "a node")
        check_id(node.root, "a flow")
        if node.kind not in ("one", "list", "none") or node.state not in list(NodeState):
            raise InvalidInput(f"a node has the kind {shown(node.kind)} and the state {shown(node.state)}")
        _failure(node)
        _json(node.definition, "the definition")
        for name in ("size", "ended", "created_at", "finished_at"):
            if (value := getattr(node, name)) is not None:
                whole(value, name, 0, _LATEST)


def _failure(node: FlowNode) -> None:
    """Check the job to store when a node fails: one that can't be stored would keep other jobs from ending."""
    try:
        job = failure_job(node)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput(f"on_failure must be a job as JSON, not {shown(node.on_failure)}") from None
    if job is not None:
        check_job(NEW_JOB.taken(NEW_JOB.to_message(job)))  # the protocol refuses fields of a wrong type


def _rows(rows: Iterable[JobRow]) -> None:
    for row in rows:
        check_id(row.id)
        _name(row.queue, "the queue of a job")
        if row.state not in _ADOPTED:
            raise InvalidInput(f"the state of a job to adopt is one of {', '.join(_ADOPTED)}, not {shown(row.state)}")
        for name in _NAMES:
            if (value := getattr(row, name)) is not None:
                _name(value, name)
        for name in _TIMES:
            if (value := getattr(row, name)) is not None:
                whole(value, name, 0, _LATEST)
        for name in ("attempts", "failures", "max_attempts"):
            whole(getattr(row, name), name, 0, MOST_ATTEMPTS)
        whole(row.priority, "priority", MIN_PRIORITY, MAX_PRIORITY)
        whole(row.lane, "lane", UNLANED, _LANES_MAX)
        for name in ("headers", "limits", "trail", "errors"):
            _json(getattr(row, name), f"the {name}")
        for name, most in (("timeout", LONGEST_DELAY), ("progress", 1)):
            if (value := getattr(row, name)) is not None:
                number(value, name, 0, most)


def _publication(publication: Publication) -> None:
    _name(publication.write, "write")
    for attempt, jobs in publication.attempts:
        _name(attempt, "attempt")
        whole(jobs, "the number of staged jobs", 0, _PUBLISHED_MAX)
    if publication.finish is not None:
        whole(publication.finish.jobs, "the number of jobs to finish", 0, _PUBLISHED_MAX)


def _workers(workers: Iterable[WorkerRow]) -> None:
    for one in workers:
        _name(one.id, "the id of a worker")
        number(one.heartbeat, "heartbeat", 0.01, LONGEST_DELAY)
        whole(len(one.times), "the number of queues and bands with times", 0, ENTRIES_MAX)
        for times in one.times:
            _name(times.queue, "queue")
            for counts in (times.delays, times.runs):
                whole(len(counts), "the number of buckets", 0, BUCKETS)
                whole(min(counts, default=0), "the number of jobs in a bucket", 0, 2**62)


def _semaphore(name: str, capacity: int | None) -> None:
    _name(name, "the name of a semaphore")
    if capacity is not None:
        whole(capacity, "capacity", 0, 2**31 - 1)


def _json(text: str | None, what: str) -> None:
    if text is None:
        return
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput(f"{what} must be JSON, not {text[:100]!r}") from None


_OF_ALL: Final[Mapping[str, Any]] = {
    "jobs": _jobs,
    "claim": _claim,
    "outcomes": _outcomes,
    "rows": _rows,
    "workers": _workers,
    "queue": lambda queue: _name(queue, "queue"),
    "limit": lambda limit: whole(limit, "limit", 0, _AT_ONCE_MAX),
    "parts": lambda parts: whole(parts, "parts", 1, 100_000),
    "at_most": lambda most: whole(most, "at_most", 1, 2**62),
    "publication": _publication,
    "write": lambda write: _name(write, "write"),
    "attempt": lambda attempt: _name(attempt, "attempt"),
    "kind": lambda kind: _name(kind, "kind"),
    "version": lambda version: whole(version, "version", 0, 2**62),
}

_OF_VERBS: Final[Mapping[str, Any]] = {
    "change_flows": lambda args: _changes(args["changes"]),
    "select": lambda args: whole(args["query"].limit, "limit", 1, _AT_ONCE_MAX),
    "set_semaphore": lambda args: _semaphore(args["name"], args.get("capacity")),
}
