"""Queue settings declared in code, stored next to the ones in force, so a starting process overrides no operator.

    app.queue(name, max_rate=5) ──► same as declared last? ──yes──► nothing
                                        └──no──► put in force, and stored as declared
    queue.configure, `queues set`  ──► put in force            queue.reset ──► declared values in force again

If processes declare two different numbers of lanes, as during a rolling deploy, the larger one is in force until the
processes that declare it are gone. For each number, the store keeps when a process that declares it was last seen, by
the store's clock; 0 once they are gone. While there are two, each process confirms its own every AFFIRM_SECONDS.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stanchion.context.queues.pauses import CODE, by_settings
from stanchion.context.queues.settings import (
    BY_OUTCOME,
    CONCERN_ORDER,
    SETTINGS,
    check_lanes,
    check_letters,
    check_names,
    check_order,
    lanes_changes,
    ordered_changes,
    tenant_lanes,
)
from stanchion.errors import NotPermitted
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import QueueSettings

if TYPE_CHECKING:
    from stanchion.stores.protocol import Store

AFFIRM_SECONDS, GONE_SECONDS = 20.0, 60.0
"""Seconds between confirmations of the number of lanes while processes declare two; seconds without one after which
the processes count as gone."""

LOOK_SECONDS = 10.0
"""Seconds between checks that declared settings are still stored."""


class DeclaredQueues:
    """The queue settings that the code of one process declares, and which of them may not be stored yet."""

    def __init__(self) -> None:
        self.settings: dict[str, dict[str, Any]] = {}
        """By queue."""
        self._begin(None)

    def _begin(self, store: Store | None) -> None:
        self._stored_in, self._missing, self._looked_at = store, set(self.settings), -math.inf

    def __getstate__(self) -> dict[str, object]:
        return {"settings": self.settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.settings = state["settings"]
        self._begin(None)

    def __iter__(self) -> Iterator[str]:
        return iter(self.settings)

    def declare(self, queue: str, settings: Mapping[str, object]) -> None:
        """Add checked settings to those declared for a queue. Raises InvalidInput if they contradict each other."""
        known = self.settings.get(queue, {})
        merged = {**known, **settings}
        check_lanes(queue, merged)
        check_order(queue, merged)
        if merged != known:
            self.settings[queue] = merged
            self._missing.add(queue)

    def deleted(self, queue: str) -> None:
        """Record that this process has deleted a queue: its next use stores the declarations."""
        if queue in self.settings:
            self._missing.add(queue)

    def is_stored(self, store: Store) -> bool:
        """Return whether everything is known to be stored."""
        return store is self._stored_in and not self._missing

    def store(self, store: Store, queues: Iterable[str], tx: object = None) -> bool:
        """Store the settings of these queues that differ from those declared last; return whether any did."""
        if store is not self._stored_in:  # another one, as in a test
            self._begin(store)
        missing = self._missing.intersection(queues)
        stored = {current.name: current for current in store.queues(missing)} if missing else {}
        changed = False
        for queue in sorted(missing):
            settings, current = self.settings[queue], stored.get(queue, QueueSettings(queue))
            new = difference(settings, current, store.now)
            if new:
                check_letters(store, queue, new, stored)
                current = store.configure(queue, new, tx)
                # Another process may have declared other lanes since they were read.
                if more := agreement(settings, current, store.now):
                    current = store.configure(queue, more, tx)
                stored[queue], changed = current, True
            if tx is None:
                _note_pause(store, settings, current)
            if not new or tx is None:  # a transaction may be rolled back: the next use checks again
                self._missing.discard(queue)
        return changed

    def keep(self, store: Store) -> bool:
        """Check every LOOK_SECONDS that the settings are still stored; return whether anything was changed.

        A queue that was deleted or has expired is declared again at its next use by this process, or now if another
        process has created it since. If two numbers of lanes are declared, this process confirms its own.
        """
        if not self.settings or time.monotonic() - self._looked_at < LOOK_SECONDS:
            return False
        self._looked_at = time.monotonic()
        stored = {current.name: current for current in store.queues(self.settings)}
        self._missing |= self.settings.keys() - stored.keys()
        changed = False
        for queue in self.settings.keys() - self._missing:
            current, settings = stored[queue], self.settings[queue]
            lost = {name: value for name, value in settings.items() if name not in current.declared}
            changes = difference(lost, current, store.now) if lost else agreement(settings, current, store.now)
            if changes:
                _note_pause(store, settings, store.configure(queue, changes))
                changed = True
        return changed


def _note_pause(store: Store, declared: Mapping[str, object], current: QueueSettings) -> None:
    """Keep since when a queue is paused, or that it is not any more, if the code declares that.

    One read for each process and queue. Not within a transaction, whose writes it would wait for: another use sees it.
    """
    if "paused" in declared:
        with suppress(NotPermitted):  # a manager lets only admins pause
            by_settings(store, current.name, paused=current.paused, who=CODE)


def difference(settings: Mapping[str, object], current: QueueSettings, now: Callable[[], int]) -> dict[str, object]:
    """Return the changes that put declared settings in force, except for those unchanged since the last declaration."""
    last = current.declared
    new = {name: value for name, value in settings.items() if name not in last or last[name] != value}
    if not new:
        return agreement(settings, current, now)
    changes = {name: value for name, value in new.items() if name not in ("lanes", "lanes_per_tenant")}
    if "lanes" in new:
        moment = now()
        mine, before = settings["lanes"], last.get("lanes", 0)
        changes |= lanes_changes(settings, current, max(mine, before, *_there(current, moment)))
        changes["lanes_seen"] = {str(lanes): moment for lanes in (mine, before) if lanes}
    elif "lanes_per_tenant" in new:
        changes |= tenant_lanes(settings, current)
    if not CONCERN_ORDER.isdisjoint(changes):
        changes |= ordered_changes(changes, current)
    return {**changes, "declared": new}


def agreement(settings: Mapping[str, object], current: QueueSettings, now: Callable[[], int]) -> dict[str, object]:
    """Return the changes needed when processes declare several numbers of lanes."""
    mine, seen = settings.get("lanes"), _seen(current)
    others = {lanes for lanes in seen if lanes != mine}
    if not others or mine not in seen:
        return {}
    moment = now()
    there = {mine, *_there(current, moment)}
    gone = others - there
    now_seen = {str(lanes): 0 for lanes in gone}
    if gone != others and moment - seen[mine] > AFFIRM_SECONDS * SECOND:
        now_seen[str(mine)] = moment
    changes: dict[str, object] = {"lanes_seen": now_seen} if now_seen else {}
    if current.lanes in seen and current.lanes != max(there):  # a number that an operator has set stays
        changes |= lanes_changes(settings, current, max(there))
    return changes


def _seen(current: QueueSettings) -> dict[int, int]:
    """Return for each declared number of lanes when a process that declares it was last seen, unless all are gone."""
    return {int(lanes): at for lanes, at in current.lanes_seen.items() if at}


def _there(current: QueueSettings, moment: int) -> set[int]:
    return {lanes for lanes, at in _seen(current).items() if moment - at <= GONE_SECONDS * SECOND}


def resettable(current: QueueSettings) -> list[str]:
    """Return the settings that a reset without names affects: all, but `paused` only if it is declared."""
    return [name for name in SETTINGS if name != "paused" or name in current.declared]


def as_declared(current: QueueSettings, names: Iterable[str], now: Callable[[], int]) -> dict[str, object]:
    """Return the changes that reset settings to the code's declarations, or else to the defaults."""
    usual = QueueSettings(current.name)
    names = [*names]
    check_names(names)
    if "history_ttl" in names:
        names += BY_OUTCOME
    changes = {name: current.declared.get(name, getattr(usual, name)) for name in names}
    lanes = changes.pop("lanes", current.lanes)
    if changes.pop("lanes_per_tenant", None) is not None or lanes != current.lanes:
        there = _there(current, now()) if lanes != current.lanes else ()
        changes |= lanes_changes(current.declared, current, max((lanes, *there)))
    return changes
