"""What the code declares of queues, stored beside what is in force: so a process that starts undoes no operator.

    app.queue(name, max_rate=5) ──► as it was declared last? ──yes──► nothing
                                        └──no──► in force, and declared from now on
    queue.configure, `queues set`  ──► in force                queue.reset ──► in force again as declared

Of two numbers of lanes that processes declare at one time, as in a rolling deploy, the larger is in force until those
with the other are gone. Beside the number declared last the store keeps for each number when a process that declares it
was last seen: by the store's clock, 0 once they are gone. While there are two, each process affirms its own every
AFFIRM_SECONDS.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from stanchion.context.settings import SETTINGS, check_lanes, check_letters, check_names, lanes_changes, tenant_lanes
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import QueueSettings

AFFIRM_SECONDS, GONE_SECONDS = 20.0, 60.0
"""How often processes affirm the number of lanes that they declare, while there are two; silent for so long, they are
gone."""

LOOK_SECONDS = 10.0
"""How often a process looks what has become of that which it declares."""

_SEEN = "lanes:"


class DeclaredQueues:
    """The settings that the code of one process declares, and those of them that the store may not have yet."""

    def __init__(self) -> None:
        self.settings: dict[str, dict[str, Any]] = {}
        """By queue."""
        self._begin(None)

    def _begin(self, store: Store | None) -> None:
        self._stored_in, self._missing, self._looked_at = store, set(self.settings), -math.inf

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.settings = state["settings"]
        self._begin(None)

    def __iter__(self) -> Iterator[str]:
        return iter(self.settings)

    def declare(self, queue: str, settings: Mapping[str, Any]) -> None:
        """Add checked settings to what is declared of a queue; InvalidInput where they don't go together."""
        known = self.settings.get(queue, {})
        merged = {**known, **settings}
        check_lanes(queue, merged)
        if merged != known:
            self.settings[queue] = merged
            self._missing.add(queue)

    def is_stored(self, store: Store) -> bool:
        """Tell whether all is known to be in the store."""
        return store is self._stored_in and not self._missing

    def store(self, store: Store, queues: Iterable[str], tx: Any = None) -> bool:
        """Store what differs from what was declared of these queues last; return whether anything did."""
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
            if not new or tx is None:  # a transaction may be rolled back: the next use looks again, from outside
                self._missing.discard(queue)
        return changed

    def keep(self, store: Store) -> bool:
        """Look now and then what has become of it in the store; return whether anything there was changed.

        A queue that was deleted, or has expired, is declared again at its next use by this process, or where another
        process has made it since. Where two numbers of lanes are declared, this process affirms its own.
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
                store.configure(queue, changes)
                changed = True
        return changed


def difference(settings: Mapping[str, Any], current: QueueSettings, now: Callable[[], int]) -> dict[str, Any]:
    """Return the changes that put declared settings in force, but for those that were declared like this last."""
    last = current.declared
    new = {name: value for name, value in settings.items() if name not in last or last[name] != value}
    if not new:
        return agreement(settings, current, now)
    changes = {name: value for name, value in new.items() if name not in ("lanes", "lanes_per_tenant")}
    declared = dict(new)
    if "lanes" in new:
        moment = now()
        mine, before = settings["lanes"], last.get("lanes", 0)
        changes |= lanes_changes(settings, current, max(mine, before, *_there(last, moment)))
        declared |= {f"{_SEEN}{lanes}": moment for lanes in (mine, before) if lanes}
    elif "lanes_per_tenant" in new:
        changes |= tenant_lanes(settings, current)
    return {**changes, "declared": declared}


def agreement(settings: Mapping[str, Any], current: QueueSettings, now: Callable[[], int]) -> dict[str, Any]:
    """Return the changes that follow where processes have declared several numbers of lanes."""
    mine, seen = settings.get("lanes"), _seen(current.declared)
    others = {lanes for lanes in seen if lanes != mine}
    if not others or mine not in seen:
        return {}
    moment = now()
    there = {mine, *_there(current.declared, moment)}
    gone = others - there
    declared = {f"{_SEEN}{lanes}": 0 for lanes in gone}
    if gone != others and moment - seen[mine] > AFFIRM_SECONDS * SECOND:
        declared[f"{_SEEN}{mine}"] = moment
    changes: dict[str, Any] = {"declared": declared} if declared else {}
    if current.lanes in seen and current.lanes != max(there):  # what an operator has set is left as it is
        changes |= lanes_changes(settings, current, max(there))
    return changes


def _seen(declared: Mapping[str, Any]) -> dict[int, int]:
    """Return when processes that declare a number of lanes were last there, but for those that are gone."""
    seen = {name.removeprefix(_SEEN): at for name, at in declared.items() if name.startswith(_SEEN)}
    return {int(lanes): at for lanes, at in seen.items() if at}


def _there(declared: Mapping[str, Any], moment: int) -> set[int]:
    return {lanes for lanes, at in _seen(declared).items() if moment - at <= GONE_SECONDS * SECOND}


def resettable(current: QueueSettings) -> list[str]:
    """Return the names of the settings that go back where none are named: one who paused a queue resumes it as well."""
    return [name for name in SETTINGS if name != "paused" or name in current.declared]


def as_declared(current: QueueSettings, names: Iterable[str], now: Callable[[], int]) -> dict[str, Any]:
    """Return the changes that put settings back to what the code declares, or to the defaults where it says nothing."""
    usual = QueueSettings(current.name)
    check_names(names)
    changes = {name: current.declared.get(name, getattr(usual, name)) for name in names}
    lanes = changes.pop("lanes", current.lanes)
    if changes.pop("lanes_per_tenant", None) is not None or lanes != current.lanes:
        there = _there(current.declared, now()) if lanes != current.lanes else ()
        changes |= lanes_changes(current.declared, current, max((lanes, *there)))
    return changes
