"""Workers: what they say of themselves, and what they are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One live worker, as it describes itself; `heartbeat` in seconds.

    `began`: the jobs that run, as `losses.start_of` has them; None from a release that does not say.
    """

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    threads: int
    heartbeat: float
    state: str = "running"
    started_at: int = 0
    last_seen_at: int = 0
    running: int = 0
    began: tuple[str, ...] | None = None


class Beat(NamedTuple):
    """The answer to a heartbeat: live workers (those that beat included), and their jobs that are to be cancelled.

    `sharing`: how many workers poll for the same work, those included: for that of their queues which the fewest do.
    """

    live: int
    cancelled: list[str]
    sharing: int = 1
