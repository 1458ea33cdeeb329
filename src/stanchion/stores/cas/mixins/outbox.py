"""What a job may hold at gates, and what a step of it entails elsewhere: as plain values, and as they are noted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from stanchion.stores.cas.mixins.jobs import Duty
from stanchion.stores.records.flows import FlowNode, MemberEnd
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Continue
from stanchion.stores.rules import outcomes as outcome_rules
from stanchion.stores.rules.slots import gated, gates_of, permits_of, semaphore_of


class Hold(NamedTuple):
    """A slot of a gate in the hands of a job; `permit` names this one hold."""

    gate: str
    job: str
    permit: str


def hold_of(row: JobRow, gate: str) -> Hold:
    """Return the slot as this job holds it."""
    permits = permits_of(row)
    permit = permits.order if semaphore_of(gate) is None else permits.semaphores
    return Hold(gate, row.id, permit or "")


def holds_of(row: JobRow | None) -> list[Hold]:
    """Return the slots that a job may hold by rights; an order key also without a permit, as others wait behind it."""
    if row is None or row.finished_at is not None:
        return []
    holds = [hold_of(row, gate) for gate in gates_of(row)]
    return [hold for hold in holds if hold.permit or semaphore_of(hold.gate) is None]


def in_hand(row: JobRow) -> JobRow:
    """Return a job as the outside sees it: one that runs holds all of its gates, though only they know of it."""
    if row.state != JobState.RUNNING or not gated(row):
        return row
    return row._replace(held=len(gates_of(row)), permit=row.permit or row.token)


class Entailed(NamedTuple):
    """The parts of a duty; `jobs` are those of the `nodes`, or without any, what the job was split into."""

    free: list[Hold]
    ends: list[MemberEnd]
    nodes: list[FlowNode]
    jobs: list[NewJob]


def duty_text(free: Sequence[Hold], ends: Sequence[MemberEnd], opens: Continue | Commit | None) -> str:
    """Return a duty as it is noted."""
    if isinstance(opens, Commit):
        return json.dumps([free, ends, (), outcome_rules.fanned_out(opens)])
    return json.dumps([free, ends, opens.nodes if opens else (), opens.jobs if opens else ()])


def entailed_in(duty: Duty) -> Entailed:
    """Return what a noted duty consists of."""
    free, ends, nodes, jobs = json.loads(duty.text)
    return Entailed(
        [Hold(*one) for one in free],
        [MemberEnd(*one) for one in ends],
        [FlowNode(*one) for one in nodes],
        [NewJob(*one) for one in jobs],
    )
