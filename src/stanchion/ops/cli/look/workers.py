"""stanchion workers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.text import Text

from stanchion.core.times import iso, moment
from stanchion.ops.cli.console.human import age, safe
from stanchion.ops.cli.console.output import Cell, Column, count_cell
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.workers import CONSUMER, HOLDER, WorkerRow

MISSED_BEATS = 3
"""Missed heartbeats after which a worker counts as dead."""

COLUMNS = [
    Column("WORKER", shrinks=True),
    Column("STATE"),
    Column("RUNNING", right=True),
    Column("THREADS", right=True),
    Column("SEEN", right=True),
    Column("UP", right=True),
    Column("QUEUES", shrinks=True),
    Column("ID", shrinks=True, from_width=120),
]


_STATE_STYLES = {"running": "green", CONSUMER: "green", HOLDER: "cyan"}


@command(cli, "workers", panel=LOOK)
def workers(session: Session) -> Exit:
    """List workers, including late ones, and who else holds jobs."""
    app, out = session.app, session.out
    found, now = app.workers(holders=True), app.store.now()
    if out.as_json:
        out.json_list(worker_json(worker, now) for worker in found)
    elif found:
        out.table(COLUMNS, [row(worker, now) for worker in found])
    else:
        out.say("no workers: start one with `stanchion worker module:app`")
    return Exit.OK if found else Exit.FAILED


def late(worker: WorkerRow, now: int) -> bool:
    """Return whether a worker is so late that others take its jobs."""
    return worker.state != HOLDER and now - worker.last_seen_at > MISSED_BEATS * worker.heartbeat * SECOND


def worker_json(worker: WorkerRow, now: int) -> dict[str, Any]:
    """Return a worker, ready for JSON. The holder of leases has no heartbeat, host, process and threads."""
    fields = asdict(worker)
    if worker.state == HOLDER:
        fields |= dict.fromkeys(("heartbeat", "host", "pid", "threads"))
    del fields["began"]  # it contains the tokens of jobs
    return {
        **fields,
        "lanes": {name: [max(0, first), last] for name, first, last in worker.lanes},
        "started_at": iso(moment(worker.started_at)),
        "last_seen_at": iso(moment(worker.last_seen_at)),
        "late": late(worker, now),
    }


def row(worker: WorkerRow, now: int) -> list[Cell]:
    """Return a worker as a row of a table."""
    is_late, is_holder = late(worker, now), worker.state == HOLDER
    state = "late" if is_late else worker.state
    return [
        safe(worker.id) if is_holder else f"{worker.host}:{worker.pid}",
        Text(state, "bold red" if is_late else _STATE_STYLES.get(state, "yellow")),
        count_cell(worker.running, "yellow"),
        f"{worker.threads}" if worker.threads else "",
        age((now - worker.last_seen_at) / SECOND),
        age((now - worker.started_at) / SECOND),
        safe(",".join(_with_lanes(worker)) or "none yet"),
        safe(worker.id),
    ]


def _with_lanes(worker: WorkerRow) -> list[str]:
    """Return the queues of a worker, each with the lanes that it serves if it does not serve all."""
    texts = {name: f"{name}={max(0, first)}-{last}" for name, first, last in worker.lanes}
    return [texts.get(queue, queue) for queue in worker.queues]
