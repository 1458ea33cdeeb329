"""The stored plan of a schedule: its job and times, the handled ticks, and the jobs being enqueued."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import NamedTuple, Self
from uuid import UUID

from stanchion.cron.expression import tick_text, timetable
from stanchion.stores.records.jobs import SECOND, NewJob

KIND = "schedule"
"""The kind of the versioned values."""

GRACE = 60 * SECOND
"""A tick that is handled later than this counts as missed."""

MOST = 1000
"""Missed ticks that are made up for: the newest ones."""


class Firing(NamedTuple):
    """Ticks whose jobs are being enqueued. `by`: the scheduler; `at`: when it started."""

    by: str
    at: int
    ticks: tuple[int, ...]


class Plan(NamedTuple):
    """A schedule as stored.

    `job`: the job of each tick, without its id. `handled`: the time up to which all ticks are handled. `declared_at`:
    when a live scheduler last announced the schedule. `last`: the last tick that got a job.
    """

    expression: str
    tz: str
    missed: str
    job: NewJob
    handled: int = 0
    declared_at: int = 0
    last: int | None = None
    paused: bool = False
    firing: Firing | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the plan in a stored text."""
        stored = json.loads(text)
        job, firing = stored["job"], stored["firing"]
        return cls(
            **{name: value for name, value in stored.items() if name in cls._fields}
            | {
                "job": NewJob(id="", **{name: value for name, value in job.items() if name in NewJob._fields}),
                "firing": firing and Firing(firing["by"], firing["at"], tuple(firing["ticks"])),
            }
        )

    def text(self) -> str:
        """Return the plan as text to store."""
        usual = NewJob._field_defaults
        job = {name: value for name, value in self.job._asdict().items() if value != usual.get(name, "")}
        firing = self.firing and self.firing._asdict()
        return json.dumps({**self._asdict(), "job": job, "firing": firing}, separators=(",", ":"))

    def next_tick(self) -> int | None:
        """Return the first tick that is not handled."""
        return next(timetable(self.expression, self.tz).after(self.handled), None)

    def due(self, now: int) -> tuple[list[int], list[int]]:
        """Return the newest due ticks that are not handled, and which of them get a job."""
        most = MOST if self.missed == "all" else 1 + GRACE // (60 * SECOND)
        ticks = timetable(self.expression, self.tz).newest(self.handled, now, most)
        in_time = [tick for tick in ticks if now - tick <= GRACE]
        match self.missed:
            case "all":
                return ticks, ticks
            case "once":
                return ticks, in_time or ticks[-1:]
            case _:
                return ticks, in_time

    def jobs(self, name: str) -> list[NewJob]:
        """Return the jobs that are being enqueued; the same ones in every process."""
        ticks = self.firing.ticks if self.firing else ()
        return [self.job_at(name, tick, tick_id(name, tick)) for tick in ticks]

    def job_at(self, name: str, tick: int, job_id: str, **headers: object) -> NewJob:
        """Return the job of one tick, which names the schedule and the tick in its headers."""
        given = json.loads(self.job.headers) if self.job.headers else {}
        named = {**given, "x-cron": name, "x-cron-tick": tick_text(tick), **headers}
        return self.job._replace(id=job_id, headers=json.dumps(named, separators=(",", ":")))


def tick_id(name: str, tick: int) -> str:
    """Return the id of a tick's job: a UUID version 7 of the tick's time, with a digest in place of random bits."""
    digest = int.from_bytes(sha256(f"{name}\n{tick}".encode()).digest()[:10])
    bits = (tick // 1000) << 80 | 7 << 76 | (digest >> 68) << 64 | 2 << 62 | digest & ((1 << 62) - 1)
    return str(UUID(int=bits))
