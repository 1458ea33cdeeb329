"""Managers: sessions and ownership from the store, and their status from the managers that the page asks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from stanchion.alerts.rules.store import lateness
from stanchion.manager.leadership.rows import SLICE, slice_row
from stanchion.stores.protocol import Store
from stanchion.stores.records.managers import ManagerStatus, QueueFigures
from stanchion.stores.rules.leases.sessions import SESSION, session_row

State = Literal["silent", "gone", "store silent", "late", "ending", "alive"]

_ORDER: Final[tuple[State, ...]] = ("silent", "store silent", "late", "gone", "ending", "alive")


class Owned(NamedTuple):
    """A queue at a manager: the slices that it owns, and its figures where they are known."""

    queue: str
    slices: int
    figures: QueueFigures | None

    @property
    def per_job(self) -> float | None:
        """Calls of the store for each job that has ended; None before one has."""
        one = self.figures
        return one.statements / one.acknowledged if one is not None and one.acknowledged else None


class ManagerFigures(NamedTuple):
    """A manager. `until`: end of its session, None without one; `status`: its answer, None if it was not asked."""

    address: str
    state: State
    until: int | None
    queues: tuple[Owned, ...]
    status: ManagerStatus | None

    @property
    def troubled(self) -> bool:
        """Whether it needs a person."""
        return self.state in _ORDER[:3]

    @property
    def lag(self) -> float:
        """Seconds that it is behind, in the queue where it is most."""
        return max((one.figures.lag for one in self.queues if one.figures is not None), default=0.0)


def manager_figures(store: Store, said: Sequence[ManagerStatus], now: int, late: float) -> list[ManagerFigures]:
    """Return all managers, the ones in trouble first.

    `said`: status of the managers that were asked. `late`: lag in seconds from which a manager is late, counting jobs
    that workers with free threads wait for.
    """
    lags = _lags(store, said)
    owned: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for value in store.values(SLICE):
        row = slice_row(value)
        if row.owner is not None:
            owned[row.owner][row.queue] += 1
    asked = {one.session: one for one in said if one.session}
    found = []
    for value in store.values(SESSION):
        session = session_row(value)
        status = asked.pop(session.id, None)
        silent = next((one for one in said if not one.answered and one.address == session.address), None)
        queues = _queues(owned.get(session.id, Counter()), status)
        state = _state(status or silent, lags, late, gone=session.until <= now)
        found.append(ManagerFigures(session.address or session.id, state, session.until, queues, status or silent))
    known = {one.address for one in found}
    others = [*asked.values(), *(one for one in said if not one.answered)]
    found += [
        ManagerFigures(one.address, _state(one, lags, late), None, _queues(Counter(), one), one)
        for one in others
        if one.address not in known
    ]
    return sorted(found, key=lambda one: (_ORDER.index(one.state), -one.lag, one.address))


def _queues(owned: Counter[str], status: ManagerStatus | None) -> tuple[Owned, ...]:
    figures = {one.queue: one for one in status.queues} if status is not None else {}
    names = sorted(owned.keys() | figures.keys())
    return tuple(
        Owned(name, figures[name].slices if name in figures else owned[name], figures.get(name)) for name in names
    )


def _lags(store: Store, said: Sequence[ManagerStatus]) -> dict[str, float]:
    """Return how many seconds managers are late, by session; without a lag, read nothing."""
    lagging = [one for one in said if any(queue.lag for queue in one.queues)]
    if not lagging:
        return {}
    queues, workers = store.queues(), store.workers()
    return {one.session: lateness(one, queues, workers)[0] for one in lagging}


def _state(status: ManagerStatus | None, lags: Mapping[str, float], late: float, *, gone: bool = False) -> State:
    if status is not None and not status.answered:
        return "silent"
    if gone:
        return "gone"
    if status is None:
        return "alive"
    if not status.store_answers:
        return "store silent"
    if status.draining:
        return "ending"
    return "late" if lags.get(status.session, 0.0) >= late else "alive"
