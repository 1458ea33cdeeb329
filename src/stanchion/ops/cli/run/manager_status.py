"""stanchion manager status."""

from __future__ import annotations

from typing import Any, cast

from stanchion.errors import InvalidInput
from stanchion.ops.cli.console.human import age
from stanchion.ops.cli.console.output import Column
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.cli.run.manager import manager_cli
from stanchion.stores.protocol import BehindManagers
from stanchion.stores.records.managers import ManagerStatus, QueueFigures, ReceiverFigures

_COLUMNS = [
    Column("MANAGER", shrinks=True),
    Column("QUEUE", shrinks=True),
    Column("SLICES", right=True),
    Column("WINDOW", right=True),
    Column("LAG", right=True),
    Column("IN FLIGHT", right=True),
    Column("SENT", right=True),
    Column("DONE", right=True),
    Column("POSTPONED", right=True, from_width=110),
    Column("EXPIRED", right=True, from_width=110),
    Column("CALLS/JOB", right=True, from_width=90),
]


@command(manager_cli, "status")
def status(session: Session) -> Exit:
    """Show what each manager does, by queue: jobs in memory, lag, sent and acknowledged jobs, calls of the store.

    stanchion manager status --url grpc://127.0.0.1:7117; exit code 1 if a manager does not answer
    """
    store: Any = session.app.store
    if not hasattr(store, "manager_status"):
        raise InvalidInput("managers are asked by their URL: give --url grpc://HOST:PORT, or set STANCHION_URL to it")
    found = cast("BehindManagers", store).manager_status()
    out = session.out
    if out.as_json:
        out.json_list(map(described, found))
    else:
        out.table(_COLUMNS, [row for one in found for row in _rows(one)])
        for one in found:
            for text in _remarks(one):
                out.say(text)
    return Exit.OK if all(one.answered for one in found) else Exit.FAILED


def described(one: ManagerStatus) -> dict[str, Any]:
    """Return the figures of a manager for JSON; times in seconds."""
    return {
        **one._asdict(),
        "answered": one.answered,
        "queues": [{**queue._asdict(), "statements_per_job": per_job(queue)} for queue in one.queues],
        "receivers": [receiver._asdict() for receiver in one.receivers],
    }


def per_job(queue: QueueFigures) -> float | None:
    """Return the calls of the store for each job that has ended; None without any."""
    return round(queue.statements / queue.acknowledged, 4) if queue.acknowledged else None


def _rows(one: ManagerStatus) -> list[list[str]]:
    return [
        [
            one.address,
            queue.queue,
            *map(str, (queue.slices, queue.window)),
            age(queue.lag) if queue.lag else "-",
            *map(str, (queue.in_flight, queue.sent, queue.acknowledged, queue.postponed, queue.expired)),
            "-" if (calls := per_job(queue)) is None else f"{calls:.3f}",
        ]
        for queue in one.queues
    ]


def _remarks(one: ManagerStatus) -> list[str]:
    """Return what needs a person, and what waits."""
    if not one.answered:
        return [f"{one.address} does not answer"]
    said = [f"{one.address}: {len(one.receivers)} receivers, {one.statements} calls of the store"]
    if not one.store_answers:
        said.append(f"{one.address}: its store does not answer; {one.pushes} pushes, {one.outcomes} outcomes wait")
    if one.draining:
        said.append(f"{one.address} ends soon")
    said += [_slow(one, receiver) for receiver in one.receivers if receiver.slow]
    return said


def _slow(one: ManagerStatus, receiver: ReceiverFigures) -> str:
    name = receiver.worker or receiver.id
    return f"{one.address}: {name} is silent for {age(receiver.silent)}, with {receiver.in_flight} jobs"
