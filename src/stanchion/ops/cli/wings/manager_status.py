"""stanchion manager status."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from stanchion.alerts.alerts import stored_limits
from stanchion.alerts.reading.reader import ask_managers
from stanchion.alerts.thresholds import Thresholds
from stanchion.context import context_of
from stanchion.core.times import iso, moment
from stanchion.ops.cli.console.human import age
from stanchion.ops.cli.console.output import Cell, Column, count_cell
from stanchion.ops.cli.console.selection import ROWS, Rows
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.cli.wings.manager import manager_cli
from stanchion.ops.reads.wings.managers import ManagerFigures, Owned, manager_figures
from stanchion.stores.records.managers import ManagerStatus, ReceiverFigures

_COLUMNS = [
    Column("MANAGER", shrinks=True, keeps_ends=True),
    Column("STATE"),
    Column("QUEUE", shrinks=True, keeps_ends=True),
    Column("SLICES", right=True),
    Column("WINDOW", right=True, from_width=90),
    Column("LAG", right=True),
    Column("IN FLIGHT", right=True),
    Column("SENT", right=True, from_width=100),
    Column("DONE", right=True),
    Column("POSTPONED", right=True, from_width=120),
    Column("EXPIRED", right=True, from_width=120),
    Column("CALLS/JOB", right=True, from_width=110),
]

_STYLES: Final = {"alive": "green", "ending": "yellow", "late": "yellow", "gone": "bright_black"}


@command(manager_cli, "status")
def status(session: Session, limit: Rows = ROWS) -> Exit:
    """Show who lives and owns which queues, and, by the URL of managers, what each does.

    stanchion manager status --url grpc://127.0.0.1:7117; exit code 1 if a manager does not answer
    """
    app, out = session.app, session.out
    store = context_of(app).fresh_store
    late = Thresholds().changed(stored_limits(context_of(app))).manager
    found = manager_figures(store, ask_managers(store), store.now(), late)
    if out.as_json:
        out.json_list(map(described, found))
    elif found:
        out.first(_COLUMNS, [row for one in found for row in _rows(one)], limit)
        for one in found:
            for text in _remarks(one):
                out.say(text)
        if all(one.status is None for one in found):
            out.say("give the URL of managers, --url grpc://HOST:PORT, to see their activity")
    else:
        out.say("no managers: `stanchion manager` starts one")
    return Exit.FAILED if not found or any(one.state == "silent" for one in found) else Exit.OK


def described(one: ManagerFigures) -> dict[str, object]:
    """Return the figures of a manager for JSON; times in seconds. Without the queues' figures if it was not asked."""
    said = {} if one.status is None else {**one.status._asdict(), "answered": one.status.answered}
    return {
        "address": one.address,
        "state": one.state,
        "until": None if one.until is None else iso(moment(one.until)),
        "lag": one.lag,
        **{name: value for name, value in said.items() if name not in ("address", "queues", "receivers")},
        "queues": [_queue(owned) for owned in one.queues],
        "receivers": [] if one.status is None else [receiver._asdict() for receiver in one.status.receivers],
    }


def _queue(owned: Owned) -> dict[str, object]:
    figures = {} if owned.figures is None else owned.figures._asdict()
    calls = None if owned.per_job is None else round(owned.per_job, 4)
    return {**figures, "queue": owned.queue, "slices": owned.slices, "statements_per_job": calls}


def _rows(one: ManagerFigures) -> list[list[Cell]]:
    """Return a row for each queue of a manager; one for a manager without any."""
    state = Text(one.state, _STYLES.get(one.state, "bold red"))
    return [[one.address, state, *_cells(owned)] for owned in one.queues or [Owned("", 0, None)]]


def _cells(owned: Owned) -> list[Cell]:
    slices, figures = count_cell(owned.slices), owned.figures
    if figures is None:
        return [owned.queue, slices, *[""] * 8]
    return [
        owned.queue,
        slices,
        count_cell(figures.window),
        age(figures.lag) if figures.lag else "",
        *map(count_cell, (figures.in_flight, figures.sent, figures.acknowledged)),
        *map(count_cell, (figures.postponed, figures.expired)),
        "" if owned.per_job is None else f"{owned.per_job:.3f}",
    ]


def _remarks(one: ManagerFigures) -> list[str]:
    """Return the manager's troubles and its backlog in words."""
    if one.state == "silent":
        return [f"{one.address} does not answer"]
    if one.status is None:
        return []
    return _remarks_of(one.status)


def _remarks_of(one: ManagerStatus) -> list[str]:
    said = [f"{one.address}: {len(one.receivers)} receivers, {one.statements} calls of the store"]
    if not one.store_answers:
        said.append(f"{one.address}: its store does not answer; {one.pushes} pushes, {one.outcomes} outcomes wait")
    if one.draining:
        said.append(f"{one.address} ends soon")
    return said + [_slow(one, receiver) for receiver in one.receivers if receiver.slow]


def _slow(one: ManagerStatus, receiver: ReceiverFigures) -> str:
    name = receiver.worker or receiver.id
    return f"{one.address}: {name} is silent for {age(receiver.silent)}, with {receiver.in_flight} jobs"
