"""Claimed jobs that must not run, as what is stored of them can't be read: they are dead, with the reason.

Without its limits a job would run beside others that it must not run beside. What came through Stanchion was checked;
a program may have written to the database by itself.
"""

from __future__ import annotations

from stanchion.stores.records.claims import Claimed
from stanchion.stores.records.outcomes import Bury
from stanchion.stores.rules.limits import limits_in


def readable(claimed: Claimed) -> tuple[Claimed, list[Bury]]:
    """Split claimed jobs into those that may run, and the outcomes of the others; then there may be more to claim."""
    faults = {
        row.id: fault for row in claimed.rows if row.limits is not None and (fault := limits_in(row.limits).fault)
    }
    if not faults:
        return claimed, []
    kept = [row for row in claimed.rows if row.id not in faults]
    dead = [
        Bury(row.lease, f"the job has limits that can't be read, and can't run without: {faults[row.id]}")
        for row in claimed.rows
        if row.id in faults
    ]
    return claimed._replace(rows=kept, retry_in=0.0), dead
