"""stanchion workers."""

from __future__ import annotations

from dataclasses import asdict

from rich.text import Text

from stanchion.core.text.printable import safe
from stanchion.core.times import iso, moment
from stanchion.ops.cli.console.human import age
from stanchion.ops.cli.console.output import Cell, Column, count_cell
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.selection import ROWS, Rows
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.reads.workers import Item, read_workers
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.workers import CONSUMER, HOLDER

COLUMNS = [
    Column("WORKER", shrinks=True, keeps_ends=True),
    Column("STATE"),
    Column("RUNNING", right=True),
    Column("THREADS", right=True),
    Column("SEEN", right=True),
    Column("UP", right=True),
    Column("QUEUES", shrinks=True),
    Column("ID", shrinks=True, from_width=120),
]


_STATE_STYLES = {"late": "bold red", "running": "green", CONSUMER: "green", HOLDER: "cyan"}


@command(cli, "workers", panel=LOOK)
def workers(session: Session, limit: Rows = ROWS) -> Exit:
    """List workers, including late ones, and who else holds jobs."""
    app, out = session.app, session.out
    now = app.store.now()
    found = read_workers(app.store, now)
    if out.as_json:
        out.json_list(map(worker_json, found))
    elif found:
        out.first(COLUMNS, [row(one, now) for one in found], limit)
    else:
        out.say("no workers: start one with `stanchion worker module:app`")
    return Exit.OK if found else Exit.FAILED


def worker_json(one: Item) -> dict[str, object]:
    """Return a worker, ready for JSON. The holder of leases has no heartbeat, host, process and threads."""
    worker = one.worker
    fields = asdict(worker)
    if worker.state == HOLDER:
        fields |= dict.fromkeys(("heartbeat", "host", "pid", "threads"))
    del fields["times"], fields["began"]  # queues print their times; `began` contains the tokens of jobs
    return {
        **fields,
        "lanes": {name: [max(0, first), last] for name, first, last in worker.lanes},
        "started_at": iso(moment(worker.started_at)),
        "last_seen_at": iso(moment(worker.last_seen_at)),
        "late": one.state == "late",
    }


def row(one: Item, now: int) -> list[Cell]:
    """Return a worker as a row of a table."""
    worker = one.worker
    return [
        safe(one.name),
        Text(one.state, _STATE_STYLES.get(one.state, "yellow")),
        count_cell(worker.running, "yellow"),
        f"{worker.threads}" if worker.threads else "",
        age((now - worker.last_seen_at) / SECOND),
        age((now - worker.started_at) / SECOND),
        safe(",".join(one.queues) or "none yet"),
        safe(worker.id),
    ]
