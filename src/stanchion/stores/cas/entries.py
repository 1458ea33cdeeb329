"""What a job may hold, and the outbox entry of a step: pure functions.

An outbox entry is follow-up work on slots and flows. It is written in the same operation as the step, under an
idempotency key, and deleted once it is applied. Each part of it may be applied twice, and late, without harm.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

from stanchion.stores.records.flows import FlowNode, MemberEnd
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Continue
from stanchion.stores.rules import flows
from stanchion.stores.rules import outcomes as outcome_rules
from stanchion.stores.rules.slots import gated, gates_of, permits_of, semaphore_of

STALE = 3 * SECOND
"""An entry of this age belongs to no process that is about to apply it: outbox recovery does."""


class Entry(NamedTuple):
    """Follow-up work of one step, written with the job in the queue that it had before the step.

    `text` is for `entailed_in` alone to read.
    """

    key: str
    noted_at: int
    queue: str
    job: str
    text: str


FollowUp = Callable[[Sequence[Entry]], None]
"""Applies entries and deletes them; or, within a transaction of the caller, leaves them for after its commit."""


class Hold(NamedTuple):
    """A slot in the hands of a job; `token`, the hold token, tells this hold from the job's earlier and later ones."""

    slot: str
    job: str
    token: str


def hold_of(row: JobRow, slot: str) -> Hold:
    """Return the slot as this job holds it."""
    permits = permits_of(row)
    token = permits.order if semaphore_of(slot) is None else permits.semaphores
    return Hold(slot, row.id, token or "")


def holds_of(row: JobRow | None) -> list[Hold]:
    """Return the slots that a job may hold by rights; an order key also without a token, as others wait behind it."""
    if row is None or row.finished_at is not None:
        return []
    holds = [hold_of(row, slot) for slot in gates_of(row)]
    return [hold for hold in holds if hold.token or semaphore_of(hold.slot) is None]


def as_reserved(row: JobRow) -> JobRow:
    """Return a job as callers see it: one that runs holds all of its slots, though only the slots' rows say so."""
    if row.state != JobState.RUNNING or not gated(row):
        return row
    return row._replace(held=len(gates_of(row)), permit=row.permit or row.token)


class Entailed(NamedTuple):
    """The parts of an entry; `jobs` are those of the `nodes`, or without nodes, the jobs that a job was split into."""

    free: list[Hold]
    ends: list[MemberEnd]
    nodes: list[FlowNode]
    jobs: list[NewJob]


def entry_of(
    before: JobRow, after: JobRow | None, counted: str | None, opens: Continue | Commit | None, now: int
) -> Entry | None:
    """Return the entry of a step: slots to free, a member end, a flow to open, jobs to store.

    `after` is None for a job that was deleted; `opens` is the outcome with which nodes or jobs are to be stored.
    """
    kept = holds_of(after)
    free = [hold for hold in holds_of(before) if hold not in kept]
    end = flows.end_of(before, after, counted)
    nodes = opens.nodes if isinstance(opens, Continue) else ()
    jobs = outcome_rules.fanned_out(opens) if isinstance(opens, Commit) else opens.jobs if opens else ()
    if not (free or end or nodes or (jobs and isinstance(opens, Commit))):
        return None
    text = json.dumps([free, [] if end is None else [end], nodes, jobs])
    return Entry(secrets.token_hex(8), now, before.queue, before.id, text)


def entailed_in(entry: Entry) -> Entailed:
    """Return the parts of an entry."""
    free, ends, nodes, jobs = json.loads(entry.text)
    return Entailed(
        [Hold(*one) for one in free],
        [MemberEnd(*one) for one in ends],
        [FlowNode(*one) for one in nodes],
        [NewJob(*one) for one in jobs],
    )
