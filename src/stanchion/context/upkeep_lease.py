"""The lease of the upkeep: of all processes that could do the shared upkeep of a store, one does it.

    free ──take──► held ──renew, each round──► held ──let go, or not renewed in time──► free
                     └──taken over by a process that does it sooner or more surely──► held

A versioned value has the holder and the time of its last renewal, by the store's clock. Processes change it by
compare-and-set, so one of them gets it. The others look when it may have ended, or as often as all of them together
look once in a round, whichever is later: the cost does not grow with the fleet. Upkeep done twice does no harm, so a
holder that is late, or stood still, needs no fence: its next renewal is refused.

A death leaves at any step:

    before or after a renewal ──► the lease ends by itself, and the next reader takes it
    during the work           ──► the work is repeated by the next holder: each of its steps may be repeated
"""

from __future__ import annotations

import json
import os
import random
import time
from contextlib import suppress
from typing import NamedTuple

from stanchion.core.ids import new_id
from stanchion.errors import NotPermitted
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND

KIND, NAME = "upkeep", "lease"

_SURE = 0.8
"""Fraction of a lease for which a process trusts its estimate of the store's clock."""


class Holding(NamedTuple):
    """Who holds the lease. `at`: its last renewal, by the store's clock; `lasts`: seconds from then to its end.

    `every`: seconds between rounds of the holder. `steady`: it knows that live workers don't look dead, and takes back
    lost jobs.
    """

    holder: str
    at: int
    lasts: float
    every: float
    steady: bool

    def left(self, now: int) -> float:
        """Return the seconds left; 0 if it has ended, or is from the future: the clock was set back."""
        age = (now - self.at) / SECOND
        return max(0.0, self.lasts - age) if age >= 0 else 0.0

    @property
    def rank(self) -> tuple[bool, float]:
        """Grows with the use of the holder: it takes back lost jobs at all, and soon."""
        return self.steady, -self.every


def holding_in(text: str) -> Holding | None:
    """Return the holding in a value; None if it can't be read, so that anybody may take the lease."""
    with suppress(ValueError, TypeError, KeyError):
        found = json.loads(text)
        figures = int(found["at"]), float(found["lasts"]), float(found["every"]), bool(found["steady"])
        return Holding(str(found["holder"]), *figures)
    return None


class UpkeepLease:
    """The lease as one process knows it. Only one thread at a time uses it."""

    def __init__(self, every: float, lasts: float, *, estimates: bool = False) -> None:
        """`every`: seconds between rounds of this process; `lasts`: seconds from a renewal to the end of the lease.

        `estimates`: the store's clock is read only if the lease has ended by an estimate of it.
        """
        self._every, self._lasts, self._estimates = every, lasts, estimates
        self._id = new_id()
        self._version: int | None = None
        """Version of the value that this process wrote."""
        self._left = 0.0
        """Seconds that the lease of another had left at the last look."""
        self._spread = 0.0
        self._looked_at: float | None = None
        self._fleet = 0
        self._clock: tuple[int, float] | None = None
        self.before: Holding | None = None
        """The holding that the last look found."""

    @property
    def is_held(self) -> bool:
        """True from a renewal to one that is refused."""
        return self._version is not None

    def look_in(self, fleet: int) -> float:
        """Return the seconds until the next read; 0 for the holder. `fleet`: live processes that share the upkeep.

        If the fleet has become smaller, the holder may be among the dead.
        """
        smaller, self._fleet = fleet < self._fleet, fleet
        if self.is_held or self._looked_at is None or smaller:
            self._looked_at = None
            return 0.0
        pause = max(self._left, self._every * fleet * self._spread)
        return max(0.0, self._looked_at + pause - time.monotonic())

    def take(self, store: Store, *, steady: bool, renew: bool = True) -> int | None:
        """Take or renew the lease; return the store's time before that, or None if another process has it.

        `renew`: False leaves it alone for as long as it lasts, also if this process has it.
        """
        if renew and self._version is not None:
            now = self._now(store)
            if self._write(store, now, steady, self._version):
                return now
        self._version = None
        value = next(iter(store.values(KIND, [NAME])), None)
        self._looked_at, self._spread = time.monotonic(), random.uniform(0.0, 2.0)  # noqa: S311 - spreading load
        found = self.before = None if value is None else holding_in(value.text)
        if found is not None and not self._goes_before(found, steady, renew):
            estimate = self._estimate()
            if estimate is not None and abs(estimate - found.at) < _SURE * found.lasts * SECOND:
                self._left = found.left(max(estimate, found.at))
                return None
        now = self._now(store)
        if found is not None and not self._goes_before(found, steady, renew) and (left := found.left(now)):
            self._left = left
            return None
        return now if self._write(store, now, steady, 0 if value is None else value.version) else None

    def let_go(self, store: Store) -> None:
        """Let another process take it immediately, if this one has it."""
        version, self._version = self._version, None
        if version is not None:
            store.compare_and_set(KIND, NAME, None, version)

    def _goes_before(self, found: Holding, steady: bool, renew: bool) -> bool:
        """Return whether this process takes the lease although it lasts."""
        if found.holder == self._name:
            return renew  # its last write was stored, though the reply was lost
        return (steady, -self._every) > found.rank

    def _write(self, store: Store, now: int, steady: bool, version: int) -> bool:
        mine, done = Holding(self._name, now, self._lasts, self._every, steady), False
        with suppress(NotPermitted):  # behind managers, which do the upkeep: the token of a worker takes it from none
            done = store.compare_and_set(KIND, NAME, json.dumps(mine._asdict(), separators=(",", ":")), version)
        self._version, self._left = (version + 1, 0.0) if done else (None, self._every)
        return done

    @property
    def _name(self) -> str:
        return f"{self._id}:{os.getpid()}"  # differs from the parent's after a fork

    def _now(self, store: Store) -> int:
        self._clock = (store.now(), time.monotonic())
        return self._clock[0]

    def _estimate(self) -> int | None:
        """Return the store's clock as it should be now; None if it is to be read."""
        if self._clock is None or not self._estimates:
            return None
        now, at = self._clock
        return now + int((time.monotonic() - at) * SECOND)
