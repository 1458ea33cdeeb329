"""What a job may hold at gates, and what a step of it entails elsewhere: as plain values, and as they are noted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from stanchion.stores.gates import gated, gates_of, semaphore_of
from stanchion.stores.optimistic import Duty
from stanchion.stores.records import Continue, End, JobRow, JobState, NewJob, Node


class Hold(NamedTuple):
    """A slot of a gate in the hands of a job; `permit` names this one hold."""

    gate: str
    job: str
    permit: str


def permit_of(row: JobRow) -> str | None:
    """Return the permit of a job's way through its semaphores: that of its reservation, until it has been parked."""
    return row.permit or (row.token if row.state == JobState.RUNNING else None)


def hold_of(row: JobRow, gate: str) -> Hold:
    """Return the slot as this job holds it. An order key is held under the job's id, as it is kept between attempts."""
    permit = permit_of(row) if semaphore_of(gate) is not None else None
    return Hold(gate, row.id, permit or row.id)


def holds_of(row: JobRow | None) -> list[Hold]:
    """Return the slots that a job may hold by rights."""
    if row is None or row.finished_at is not None:
        return []
    on_its_way = permit_of(row) is not None
    return [hold_of(row, gate) for gate in gates_of(row) if on_its_way or semaphore_of(gate) is None]


def in_hand(row: JobRow) -> JobRow:
    """Return a job as the outside sees it: one that runs holds all of its gates, though only they know of it."""
    if row.state != JobState.RUNNING or not gated(row):
        return row
    return row._replace(held=len(gates_of(row)), permit=permit_of(row))


class Entailed(NamedTuple):
    """The parts of a duty."""

    free: list[Hold]
    ends: list[End]
    nodes: list[Node]
    jobs: list[NewJob]


def duty_text(free: Sequence[Hold], ends: Sequence[End], opens: Continue | None) -> str:
    """Return a duty as it is noted."""
    return json.dumps([free, ends, opens.nodes if opens else (), opens.jobs if opens else ()])


def entailed_in(duty: Duty) -> Entailed:
    """Return what a noted duty consists of."""
    free, ends, nodes, jobs = json.loads(duty.text)
    return Entailed(
        [Hold(*one) for one in free],
        [End(*one) for one in ends],
        [Node(*one) for one in nodes],
        [NewJob(*one) for one in jobs],
    )
