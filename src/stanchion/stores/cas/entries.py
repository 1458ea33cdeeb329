"""The slots that a job may hold, their names as texts, and the outbox entry of a step: pure functions.

An outbox entry is follow-up work on slots and flows. It is written in the same operation as the step, under an
idempotency key, and deleted once applied. Each part of it may be applied repeatedly, and late, without harm.

Slots by their names as one text each, for databases whose keys are texts:

order        o5:queue:key, where the length keeps queue and key apart
semaphore    s:name
node         f:id
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stanchion.core.values.framing import as_content, as_text
from stanchion.stores.records.flows import FlowNode, MemberEnd
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Continue
from stanchion.stores.records.slots import NODE, ORDER, SEMAPHORE, Slot
from stanchion.stores.rules import flows
from stanchion.stores.rules.capacity.slots import hold_tokens, slots_of, uses_slots
from stanchion.stores.rules.lifecycle import outcomes as outcome_rules
from stanchion.stores.rules.set_back import is_overdue

STALE = 3 * SECOND
"""Age in microseconds from which outbox recovery applies an entry: its process is presumed dead."""


def is_stale(written_at: int, before: int) -> bool:
    """Return whether recovery applies an entry; `before`: STALE before now. One from the future is as old as any."""
    return is_overdue(written_at, before + STALE, STALE)


class Entry(NamedTuple):
    """Follow-up work of one step, written with the job, in the queue that the job had before the step.

    Only `entailed_in` reads `text`.
    """

    key: str
    written_at: int
    queue: str
    job: str
    text: str


FollowUp = Callable[[Sequence[Entry]], None]
"""Applies entries and deletes them; within a caller's transaction, postpones that until after its commit."""


class Hold(NamedTuple):
    """A slot held by a job; `token`, the hold token, distinguishes this hold from the job's earlier and later ones."""

    slot: Slot
    job: str
    token: str


def hold_of(row: JobRow, slot: Slot) -> Hold:
    """Return the hold of a slot by this job."""
    tokens = hold_tokens(row)
    token = tokens.order if slot.kind == ORDER else tokens.slots
    return Hold(slot, row.id, token or "")


def holds_of(row: JobRow | None) -> list[Hold]:
    """Return the holds that a job is entitled to; an order key also without a token, as later jobs of the key wait."""
    if row is None or row.finished_at is not None:
        return []
    holds = [hold_of(row, slot) for slot in slots_of(row)]
    return [hold for hold in holds if hold.token or hold.slot.kind == ORDER]


def as_reserved(row: JobRow) -> JobRow:
    """Return a job as callers see it: a running job holds all its slots, which only the slots' rows record."""
    if row.state != JobState.RUNNING or not uses_slots(row):
        return row
    return row._replace(slots_held=len(slots_of(row)))


class Entailed(NamedTuple):
    """The parts of an entry; `jobs` belong to the `nodes` or, without nodes, are those a job was split into."""

    free: list[Hold]
    ends: list[MemberEnd]
    nodes: list[FlowNode]
    jobs: list[NewJob]


def entry_of(
    before: JobRow, after: JobRow | None, counted: str | None, opens: Continue | Commit | None, now: int
) -> Entry | None:
    """Return the entry of a step: slots to free, a member end, a flow to open, jobs to store; None if it has none.

    `after` is None for a deleted job; `opens`: the outcome whose nodes or jobs are to be stored.
    """
    holds_after = holds_of(after)
    free = [hold for hold in holds_of(before) if hold not in holds_after]
    end = flows.end_of(before, after, counted)
    nodes = opens.nodes if isinstance(opens, Continue) else ()
    jobs = outcome_rules.fanned_out(opens) if isinstance(opens, Commit) else opens.jobs if opens else ()
    if not (free or end or nodes or (jobs and isinstance(opens, Commit))):
        return None
    text = json.dumps([free, [] if end is None else [end], nodes, jobs], default=as_text)
    return Entry(secrets.token_hex(8), now, before.queue, before.id, text)


def entailed_in(entry: Entry) -> Entailed:
    """Return the parts of an entry."""
    free, ends, nodes, jobs = json.loads(entry.text)
    return Entailed(
        [Hold(Slot(*slot), *holder) for slot, *holder in free],
        [_end_in(one) for one in ends],
        [FlowNode(*one) for one in nodes],
        [new_job_in(one) for one in jobs],
    )


_Values = Sequence[Any]


def _end_in(values: _Values) -> MemberEnd:
    end = MemberEnd(*values)
    return end._replace(result=as_content(end.result)) if isinstance(end.result, str) else end


def new_job_in(values: _Values) -> NewJob:
    """Return a new job of its JSON values; the payload of a chunk is a text there, by `as_text`."""
    job = NewJob(*values)
    return job._replace(payload=as_content(job.payload)) if isinstance(job.payload, str) else job


_LETTERS = {ORDER: "o", SEMAPHORE: "s", NODE: "f"}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}


def key_of(slot: Slot) -> str:
    """Return the text of a slot."""
    length = f"{len(slot.queue)}:{slot.queue}" if slot.kind == ORDER else ""
    return f"{_LETTERS[slot.kind]}{length}:{slot.name}"


def slot_of(key: str) -> Slot:
    """Return the slot of a text."""
    kind, (length, _, name) = _KINDS[key[0]], key[1:].partition(":")
    if kind != ORDER:
        return Slot(kind, "", name)
    end = int(length)
    return Slot(kind, name[:end], name[end + 1 :])
