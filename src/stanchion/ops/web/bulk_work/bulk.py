"""Bulk work: one act on many jobs, kept in the store, so that it outlives the tab and the process that began it.

running ──a round──► running ──no more jobs──► finished
   │                    │
   └────── stop ────────┴─► stopped

A work is one versioned value. A process owns it while it renews `beat`; after OWNED without a beat another one
continues from the cursor. A round is done first and recorded then: a death between the two repeats it, which changes
nothing, as an act leaves out jobs that have left the state that it acts on, and copies have ids that belong to the
work.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

from stanchion.ops.reads.filters import Act, JobFilter
from stanchion.ops.redriving import Verdict, refusals
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND

KIND: Final = "web-bulk"

OWNED: Final = 30 * SECOND
"""Microseconds without a beat after which another process continues a work."""

SHOWN: Final = 10 * 60 * SECOND
"""Microseconds that the page shows a work after its end."""

KEPT: Final = 24 * 3600 * SECOND
"""Microseconds after which an ended work is deleted."""

CHANGED: Final = 500
"""Jobs acted on whose ids a work keeps, to list them."""

MOST: Final = 20
"""Works under way at a time."""

State = Literal["running", "finished", "stopped"]


class BulkWork(NamedTuple):
    """One work. `where`: its filter as the query of a URL; `ids`: the jobs chosen one by one, else empty.

    `total`: jobs that matched at first, at most 10,001. `rate`: jobs a second, 0 for no limit. `done`, `left_out`: jobs
    acted on, and jobs that were not in a fitting state any more; `reasons` has a word for why, with its number.
    `changed`: the ids of the first jobs acted on, or of their copies. `cursor`: where the next round begins. `at`: the
    time of its beginning; later jobs are excluded.
    """

    id: str
    act: Act
    where: str
    ids: tuple[str, ...]
    who: str
    at: int
    total: int
    rate: float = 0.0
    state: State = "running"
    done: int = 0
    left_out: int = 0
    cursor: str | None = None
    owner: str = ""
    beat: int = 0
    ended_at: int = 0
    error: str = ""
    reasons: dict[str, int] = {}  # noqa: RUF012
    changed: tuple[str, ...] = ()

    def after(self, verdicts: Sequence[Verdict]) -> BulkWork:
        """Return the work with these jobs counted."""
        acted = [one.copy or one.id for one in verdicts if one.ok]
        return self._replace(
            done=self.done + len(acted),
            left_out=self.left_out + len(verdicts) - len(acted),
            reasons=dict(Counter(self.reasons) + refusals(verdicts)),
            changed=(*self.changed, *acted)[:CHANGED],
        )

    @property
    def listed(self) -> bool:
        """Whether `changed` has all jobs acted on."""
        return len(self.changed) == self.done

    @property
    def subject(self) -> str:
        """Which jobs it is for, in words."""
        return JobFilter.of_text(self.where).words if self.where else f"{len(self.ids):,} chosen jobs"

    @property
    def to_go(self) -> int:
        """Jobs still to be acted on, as far as they were counted."""
        return max(0, self.total - self.done - self.left_out)


class BulkWorks:
    """The works of one store, which is asked for at each use."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def all(self) -> list[tuple[BulkWork, int]]:
        """Return all works, newest first, each with the version of its value."""
        found = [(_work(value.text), value.version) for value in self._store().values(KIND)]
        return sorted(found, key=lambda one: -one[0].at)

    def listed(self, now: int) -> list[BulkWork]:
        """Return the works under way, and the recently ended ones."""
        return [work for work, _ in self.all() if work.state == "running" or now - work.ended_at < SHOWN]

    def find(self, work_id: str) -> tuple[BulkWork, int] | None:
        """Return a work and the version of its value."""
        for value in self._store().values(KIND, [work_id]):
            return _work(value.text), value.version
        return None

    def write(self, work: BulkWork, version: int) -> bool:
        """Store a work if its value is unchanged; version 0: a new one."""
        return self._store().compare_and_set(KIND, work.id, json.dumps(work, separators=(",", ":")), version)

    def stop(self, work_id: str, now: int) -> bool:
        """Stop a work after its round; False if it has ended."""
        while (found := self.find(work_id)) is not None and found[0].state == "running":
            if self.write(found[0]._replace(state="stopped", ended_at=now), found[1]):
                return True
        return False

    def delete_old(self, now: int) -> None:
        """Delete works that ended long ago."""
        for work, version in self.all():
            if work.state != "running" and now - work.ended_at > KEPT:
                self._store().compare_and_set(KIND, work.id, None, version)


def _work(text: str) -> BulkWork:
    row: list[Any] = json.loads(text)
    work = BulkWork(*row)
    return work._replace(ids=tuple(work.ids), changed=tuple(work.changed))
