"""Lost leases: what they are held against, and from when on a job is handed out alone.

Of the jobs that a dead worker held, those that had begun are charged with the loss, and the attempt counts. The others
get it back. What is known of a start:

    a reservation without a worker     it began when it was handed out; that of a pop never began
    the token of a claim ends in "+"   the worker had a free thread for each of its jobs: they began at once
    the worker's row lists the job     it was running at the last heartbeat
    the worker's row has no list       a worker of an earlier release: all that it held counts as begun
    none of these                      it may have begun since the last heartbeat

So a job that kills its worker at once may not be known to have begun. It is charged with the loss all the same, as all
others are that the worker held, up to ALONE_FROM losses, and no job dies of these. From then on it waits between its
attempts, and is handed out alone: a worker lets all else end, records the start, and only then begins. So the next loss
is certain to be its own doing, and MOST of them are its end. What is charged is written into the job's last error:
another end of an attempt clears it, but for that of a job which was put off: its entry, which has `times`, is passed
over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stanchion.stores.records.claims import POP, Claimed
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Rollback
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.error_entries import entries_of, with_entries

ALONE_FROM = 2
"""With so many lost leases a job is handed out alone."""

MOST = 5
"""With so many lost leases a job is dead, if it is known to have begun."""

MOST_IN_ALL = 25
"""With so many lost leases a job is dead whatever is known: something kills whoever holds it before it begins."""

AT_ONCE = "+"
"""Ends the token of a claim all of whose jobs begin when they are handed out."""

LostLeaseDelay = Callable[[JobRow, int], float]
"""Returns the seconds of the first, second, ... wait of a job after lost leases."""


def default_delay(row: JobRow, number: int) -> float:  # noqa: ARG001 - some go by the job
    """Return the seconds of the default retry policy, without its jitter."""
    return float(number**4 + 5)


class Losses(NamedTuple):
    """Lost leases in a row: with how many a job is charged, and how many there were."""

    charged: int = 0
    in_all: int = 0

    @property
    def noted(self) -> dict[str, int]:
        """What the entry of the last of them says."""
        return {"lost": self.charged, "lost_in_all": self.in_all}


def lost_leases(row: JobRow) -> int:
    """Return with how many lost leases in a row a job is charged."""
    return _losses(row).charged


def is_alone(row: JobRow) -> bool:
    """Tell whether a job is to run without others beside it."""
    return lost_leases(row) >= ALONE_FROM


def charged(row: JobRow, *, begun: bool) -> Losses:
    """Return the losses of a job after one more."""
    before = _losses(row)
    more = begun or before.charged < ALONE_FROM
    return Losses(before.charged + 1 if more else before.charged, before.in_all + 1)


def is_fatal(row: JobRow, losses: Losses, *, begun: bool) -> bool:
    """Tell whether a job is dead after these lost leases."""
    return (begun and (row.attempts >= row.max_attempts or losses.charged >= MOST)) or losses.in_all >= MOST_IN_ALL


def forgiven(row: JobRow) -> JobRow:
    """Return the job without any charge: it has ended an attempt, or begins from the start."""
    if not lost_leases(row):
        return row
    return with_entries(
        row, [{name: value for name, value in entry.items() if name not in _NOTED} for entry in entries_of(row)]
    )


def start_of(job_id: str, token: str) -> str:
    """Return how a worker's row lists the start of a job."""
    return f"{job_id}:{token}"


def had_begun(row: JobRow, worker: WorkerRow | None) -> bool:
    """Tell whether a job is known to have begun whose holder is gone; `worker`: its row, None where it has none."""
    token = row.token or ""
    if row.worker is None:
        return not token.endswith(POP)
    if token.endswith(AT_ONCE) and not is_alone(row):
        return True
    return worker is not None and (worker.began is None or start_of(row.id, token) in worker.began)


def apart(claimed: Claimed, token: str) -> tuple[Claimed, Sequence[Rollback]]:
    """Cut claimed jobs before or behind the first that is to run alone; return the rest as given back unharmed."""
    rows = claimed.rows
    if len(rows) < 2:
        return claimed, ()
    first = next((index for index, row in enumerate(rows) if row.errors is not None and is_alone(row)), None)
    if first is None:
        return claimed, ()
    kept = max(1, first)
    return claimed._replace(rows=rows[:kept]), [Rollback(row.id, token, 0.0, refund=True) for row in rows[kept:]]


_NOTED = frozenset(Losses().noted)


def _losses(row: JobRow) -> Losses:
    if row.errors is None or '"lost"' not in row.errors:
        return Losses()
    last: dict[str, Any] = next((entry for entry in reversed(entries_of(row)) if "times" not in entry), {})
    return Losses(last.get("lost", 0), last.get("lost_in_all", 0))
