"""The limits of the rules: for priority bands, changed for some queues, and single ones.

interactive.max_age=30          a band
queue.mail.out.max_run=600      all bands of the queue mail.out
no_worker=120                   a single limit
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

from stanchion.core.project import RUNBOOK
from stanchion.core.service_levels import BANDS, BandName
from stanchion.errors import InvalidInput


class Levels(NamedTuple):
    """The limits of a band: seconds from due to start, seconds per attempt, attempts per job."""

    max_age: float
    max_run: float
    max_attempts: float


_DEFAULTS = {one.name: Levels(one.max_age, one.max_run, one.max_attempts) for one in BANDS}
_WITHOUT_TIMEOUT = {one.name: one.max_age if one.name in ("eventual", "reporting") else one.max_run for one in BANDS}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All limits; times in seconds, shares from 0 to 1.

    `no_worker`: age of the oldest claimable job in a queue without workers. `age_now`: share of the limit of an
    eventual or reporting band at which its age is urgent. `dead_now`: dead letters of an hour that are urgent;
    `dead_share`, `dead_least`: their share of the jobs finished then, from a least number on. `failed_least`,
    `failed_soon`, `failed_now`: failed attempts of
    some minutes, and their share of all. `expired_least`, `expired_soon`: jobs that expired within some minutes, and
    their share of the jobs that ended. `paused_now`: age at which a paused queue is urgent. `replays`: of the same
    batch of a stream. `idle`: a station without items while the one before has work. `semaphore_soon`,
    `semaphore_now`: a line that does not move. `missed_tick`, `purge`, `manager`, `store`: lateness of a schedule's
    tick, of deleting history, of a manager, and of an answer of the store. `runbooks`: address of the page that alerts
    link to.
    """

    levels: Mapping[BandName, Levels] = field(default_factory=lambda: dict(_DEFAULTS))
    queues: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    no_worker: float = 60.0
    age_now: float = 2.0
    dead_now: float = 10.0
    dead_share: float = 0.01
    dead_least: float = 3.0
    failed_least: float = 50.0
    failed_soon: float = 0.2
    failed_now: float = 0.5
    expired_least: float = 10.0
    expired_soon: float = 0.1
    paused_now: float = 86_400.0
    replays: float = 3.0
    idle: float = 300.0
    semaphore_soon: float = 120.0
    semaphore_now: float = 300.0
    missed_tick: float = 60.0
    purge: float = 3600.0
    manager: float = 5.0
    store: float = 1.0
    runbooks: str = RUNBOOK

    def of(self, queue: str, band: BandName) -> Levels:
        """Return the limits of a band in a queue."""
        return self.levels[band]._replace(**self.queues.get(queue, {}))

    def run_limit(self, queue: str, band: BandName, timeout: float | None) -> float:
        """Return how long an attempt may run, in seconds, of a job with this time-out.

        Nothing says how long a job without one takes: in an eventual or reporting band it may run as long as it may be
        late, unless another limit was set.
        """
        limit = self.of(queue, band).max_run
        if "max_run" in self.queues.get(queue, {}):
            return limit
        if timeout is not None:
            return max(limit, timeout)
        return _WITHOUT_TIMEOUT[band] if self.levels[band].max_run == _DEFAULTS[band].max_run else limit

    def changed(self, changes: Mapping[str, object]) -> Self:
        """Return the limits with some changed, by name. Raises InvalidInput."""
        levels, queues = dict(self.levels), {name: dict(one) for name, one in self.queues.items()}
        single: dict[str, Any] = {}
        for name, value in changes.items():
            owner, _, limit = name.rpartition(".")
            if name == "runbooks":
                single[name] = str(value).rstrip("#")
            elif not owner and name in _SINGLE:
                single[name] = _checked(name, value)
            elif limit in Levels._fields and owner in levels:
                levels[owner] = levels[owner]._replace(**{limit: _checked(name, value)})
            elif limit in Levels._fields and owner.startswith(_QUEUE) and owner != _QUEUE:
                queues.setdefault(owner.removeprefix(_QUEUE), {})[limit] = _checked(name, value)
            else:
                raise InvalidInput(
                    f"no limit of alerts is named {name!r}; there are BAND.LIMIT and queue.NAME.LIMIT with a band of "
                    f"{', '.join(levels)} and a limit of {', '.join(Levels._fields)}; and {', '.join(sorted(_SINGLE))}"
                )
        return replace(self, levels=levels, queues=queues, **single)


_QUEUE = "queue."
_SINGLE = frozenset(one.name for one in fields(Thresholds)) - {"levels", "queues", "runbooks"}


def _checked(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InvalidInput(f"the limit {name} of alerts must be a number above 0, not {value!r}")
    return float(value)
