"""The rows of a stream's workers, and holding a batch whose rows are being stored elsewhere.

A sink outside this store can't store rows and commit jobs in one step. From the moment when it may have stored the rows
of a batch until the batch is acknowledged, no job of it may return to its queue: it would be delivered again in a later
batch. So the worker that holds them is recorded with a heartbeat of hours. A driver that starts within a day has the
same batch again, and finds it stored.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from stanchion.stores.records.workers import LaneRange, WorkerRow
from stanchion.streams.state import StreamState, worker_id

HOLD = 8 * 3600.0
"""Seconds between two heartbeats of a held batch, three of which may be missed."""


def rows_of(name: str, state: StreamState, heartbeat: float, lanes: Sequence[LaneRange] = ()) -> list[WorkerRow]:
    """Return the rows of the current driver, and of the one that has claimed its batch."""
    held = HOLD if state.held else heartbeat
    mine = _row(name, state, state.epoch, held if state.holder == state.epoch else heartbeat, lanes)
    taken_over = state.pending and state.holder != state.epoch
    return [mine, _row(name, state, state.holder, held, lanes)] if taken_over else [mine]


def _row(name: str, state: StreamState, epoch: int, heartbeat: float, lanes: Sequence[LaneRange]) -> WorkerRow:
    return WorkerRow(
        id=worker_id(name, epoch),
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=(state.queue,),
        threads=0,
        heartbeat=heartbeat,
        lanes=tuple(lanes),
        began=(),  # replays find out which job of a batch kills its driver, if any
    )
