"""The rates that the code declares, and their storage: one versioned value for each name.

The process that began last is right, but a rate that an operator has set stays until code declares another one than
before. The rates that tasks share are stored too, by the names of the tasks, for processes that push calls of a task
without its code.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from stanchion.context.declarations.declared_texts import DeclaredTexts
from stanchion.errors import InvalidInput
from stanchion.stores.rules.capacity.declared_rates import (
    CACHED_SECONDS,
    KIND,
    CachedRates,
    StoredRate,
    rate_in,
    rate_text,
)
from stanchion.stores.rules.capacity.task_rates import KIND as OF_TASKS
from stanchion.stores.rules.capacity.task_rates import task_rate

if TYPE_CHECKING:
    from stanchion.stores.protocol import Store
    from stanchion.stores.rules.capacity.limits import Rate

_TASKS_CACHED = 10_000

TaskRate = Mapping[str, object]
"""The options about the rate of a task: `rate`, and `rate_by` or `rate_key`; none for a task without a rate."""


class DeclaredRates:
    """The rates declared in one process, and known rates of others."""

    def __init__(self) -> None:
        self.declared: dict[str, float] = {}
        """Starts per second, by name."""
        self.of_tasks: dict[str, TaskRate] = {}
        """The options about rates of the tasks of this process that have a rate."""
        self._rates = DeclaredTexts(KIND, _was_declared, _set_by_hand)
        self._tasks = DeclaredTexts(OF_TASKS)
        self._begin(None)

    def _begin(self, store: Store | None) -> None:
        self._store, self._known = store, CachedRates()
        self._tasks_read: dict[str, tuple[float, TaskRate]] = {}

    def __getstate__(self) -> dict[str, object]:
        kept = ("declared", "of_tasks", "_rates", "_tasks")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state)
        self._begin(None)

    def declare(self, rate: Rate) -> None:
        """Remember a rate to store. Raises InvalidInput if this process declares another one of that name."""
        name, per_second = rate
        known = self.declared.setdefault(name, per_second)
        if known != per_second:
            raise InvalidInput(
                f"the rate {name!r} is declared twice: as {known:g} and as {per_second:g} starts per second; all jobs "
                f"that share a rate need the same one"
            )
        self._rates.declare(name)

    def declare_task(self, task: str, options: TaskRate) -> None:
        """Remember the options about the rate of a task, to store."""
        self.of_tasks[task] = options
        self._tasks.declare(task)

    def store(self, store: Store) -> None:
        """Store declarations that are new or were lost."""
        if self.declared:
            self._rates.keep(store, self._texts)
        if self.of_tasks:
            self._tasks.keep(store, self._task_texts)

    def _texts(self) -> dict[str, str]:
        return {name: repr(per_second) for name, per_second in self.declared.items()}

    def _task_texts(self) -> dict[str, str]:
        return {task: json.dumps(options, separators=(",", ":")) for task, options in self.of_tasks.items()}

    def of(self, name: str, store: Callable[[], Store]) -> float | None:
        """Return the starts per second that this process or another one declares; None if none does."""
        if (per_second := self.declared.get(name)) is not None:
            return per_second
        if (now := store()) is not self._store:
            self._begin(now)
        if (found := self._known.of([name], now.values).get(name)) is None:
            self._known.forget()  # another process may declare it at any moment
        return found

    def of_other_tasks(self, tasks: Iterable[str], store: Store) -> dict[str, TaskRate]:
        """Return the options about the rates of tasks, as the processes with their code have stored them.

        Tasks without a rate have none. They are read again once they are CACHED_SECONDS old.
        """
        wanted = set(filter(str.isprintable, tasks))  # no task has another name, and no store takes each of them
        if not wanted:
            return {}
        if store is not self._store:
            self._begin(store)
        if len(self._tasks_read) > _TASKS_CACHED:
            self._tasks_read = {}
        now = time.monotonic()
        read = {task: self._tasks_read[task] for task in wanted & self._tasks_read.keys()}
        if old := {task for task in wanted if task not in read or now - read[task][0] >= CACHED_SECONDS}:
            stored = {value.name: task_rate(value.text) for value in store.values(OF_TASKS, sorted(old))}
            read |= {task: (now, stored.get(task, {})) for task in old}
            self._tasks_read |= read
        return {task: options for task, (_, options) in read.items() if options}


def _was_declared(stored: str, text: str) -> bool:
    """Return whether code declared this rate last, whatever an operator has set since."""
    return rate_in("", stored).declared == float(text)


def _set_by_hand(stored: str) -> bool:
    """Return whether an operator has set a rate that no code declares, or that was lost or deleted before."""
    rate = rate_in("", stored)
    return rate.per_second is not None and rate.declared is None


def stored_rates(store: Store, names: Iterable[str] | None = None) -> list[StoredRate]:
    """Return the stored rates, by name: all, or the known ones among `names`."""
    return [rate_in(value.name, value.text) for value in store.values(KIND, names)]


def set_rate(store: Store, name: str, per_second: float) -> None:
    """Set a rate for all processes, in place of what code declares."""
    while True:
        known = store.values(KIND, [name])
        declared = rate_in(name, known[0].text).declared if known else None
        if store.compare_and_set(KIND, name, rate_text(per_second, declared), known[0].version if known else 0):
            return


def reset_rate(store: Store, name: str) -> float:
    """Reset a rate to what code declared last; return it. Raises InvalidInput if no code has declared it."""
    for value in store.values(KIND, [name]):
        declared = rate_in(name, value.text).declared
        if declared is not None:
            if store.compare_and_set(KIND, name, repr(declared), value.version):
                return declared
            return reset_rate(store, name)
    raise InvalidInput(f"no code has declared the rate {name!r}; set it, or delete it")


def delete_rate(store: Store, name: str) -> None:
    """Delete a rate: the jobs that share it decide then, until code declares it again."""
    while known := store.values(KIND, [name]):
        if store.compare_and_set(KIND, name, None, known[0].version):
            return
