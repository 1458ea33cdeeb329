"""The stored state of a backfill: its terms and its progress.

The step that enqueues a page of items also writes the state after that page. So a killed backfill continues after
the last page, two processes that run it share the work, and a repetition finds that it is done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple, Self

from stanchion.core.times import moment
from stanchion.stores.protocol import Store
from stanchion.stores.records.values import ValueChange, VersionedValue

KIND: Final = "backfill"

REASONS: Final = {
    "live": "still on their way, or finished since the backfill began",
    "copy": "enqueued by a replay or an earlier backfill: their originals run again",
    "lost": "split from an item that is not in history any more",
    "payload": "without the payload of their arrival at the station",
    "misfit": "do not fit the schema of the station's queue",
}
"""Why items are left out."""


class Asked(NamedTuple):
    """Which items a backfill runs again: items that arrived at a station from `since` until before `until`, both in
    microseconds, None: unbounded. `source`: the archive that they are read from; None: history.
    """

    pipeline: str
    station: str
    since: int | None = None
    until: int | None = None
    source: str | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class BackfillRecord:
    """A backfill under its name. `began_at`: when it began, which is the end of its window at the latest.

    `after`: the position in its source after the last page; `pages`: their number. `enqueued`: the number of items
    copied; `left_out`: numbers of items by reason. `done_at`: when the last page was enqueued.
    """

    name: str
    asked: Asked
    began_at: int
    after: str | None = None
    pages: int = 0
    enqueued: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    done_at: int | None = None
    version: int = 0

    @classmethod
    def of(cls, stored: VersionedValue) -> Self:
        """Return the record in a stored value; fields of newer releases are ignored."""
        known = {name: value for name, value in json.loads(stored.text).items() if name in _FIELDS}
        known["asked"] = Asked(*known["asked"][: len(Asked._fields)])
        return cls(name=stored.name, **known, version=stored.version)

    @property
    def until(self) -> int:
        """The end of the window, which contains nothing that came after the backfill began."""
        began = self.began_at + 1
        return began if self.asked.until is None else min(self.asked.until, began)

    def behind(self, after: str | None, enqueued: int, left_out: Mapping[str, int], done_at: int | None = None) -> Self:
        """Return the record behind one more page."""
        counts = {one: self.left_out.get(one, 0) + left_out.get(one, 0) for one in REASONS}
        return replace(
            self,
            after=after,
            pages=self.pages + 1,
            enqueued=self.enqueued + enqueued,
            left_out={one: count for one, count in counts.items() if count},
            done_at=done_at,
        )

    @property
    def change(self) -> ValueChange:
        """The change from the version that was read to this record."""
        told = {name: getattr(self, name) for name in _FIELDS}
        return ValueChange(KIND, self.name, json.dumps(told, separators=(",", ":"), sort_keys=True), self.version)


_FIELDS: Final = ("asked", "began_at", "after", "pages", "enqueued", "left_out", "done_at")


def load(store: Store, name: str) -> BackfillRecord | None:
    """Return the record of a backfill, or None."""
    return next(map(BackfillRecord.of, store.values(KIND, [name])), None)


def recorded(store: Store, pipeline: str) -> list[BackfillRecord]:
    """Return the records of all backfills of a pipeline, the latest first."""
    found = [one for one in map(BackfillRecord.of, store.values(KIND)) if one.asked.pipeline == pipeline]
    return sorted(found, key=lambda one: one.began_at, reverse=True)


class Backfill(NamedTuple):
    """A backfill: its window, its progress, and its results.

    `enqueued`: the number of items copied; for a `dry_run`, the number there would be. `left_out`: numbers of items of
    the window by reason, see `REASONS`. `told`: the first reasons, item by item, of this call. `purged_before`: history
    may lack items that finished before this moment, and the window begins earlier; None: the window is complete.
    `fraction`: the part of the window that is done, by time. `done_at`: when it was done; None: not yet. `was_done`: it
    was done before this call, which had no effect.
    """

    name: str
    station: str
    since: datetime | None
    until: datetime
    source: str | None
    began_at: datetime
    enqueued: int = 0
    left_out: Mapping[str, int] = {}
    told: tuple[str, ...] = ()
    purged_before: datetime | None = None
    fraction: float = 0.0
    done_at: datetime | None = None
    dry_run: bool = False
    was_done: bool = False

    @classmethod
    def of(cls, record: BackfillRecord, **more: Any) -> Self:
        """Return the content of a record, and more."""
        return cls(
            name=record.name,
            station=record.asked.station,
            since=moment(record.asked.since),
            until=moment(record.until),
            source=record.asked.source,
            began_at=moment(record.began_at),
            enqueued=record.enqueued,
            left_out=dict(record.left_out),
            done_at=moment(record.done_at),
            **{"fraction": 0.0 if record.done_at is None else 1.0, **more},
        )
