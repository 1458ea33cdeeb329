"""Queues: settings and removal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from stanchion.stores.fields.queues import MERGED
from stanchion.stores.memory.flows import Flows
from stanchion.stores.memory.jobs import Jobs
from stanchion.stores.records.queues import QueueSettings


class Queues:
    """Makes, configures and removes queues."""

    def __init__(self, jobs: Jobs, flows: Flows) -> None:
        self._jobs, self._flows = jobs, flows

    def configure(self, name: str, changes: Mapping[str, Any]) -> QueueSettings:
        """Make the queue if missing, apply the changes, return its settings."""
        queue = self._jobs.queue(name)
        known = queue.settings
        merged = {name: {**getattr(known, name), **changes[name]} for name in MERGED if name in changes}
        queue.settings = replace(known, **{**changes, **merged})
        if "expires" in changes:
            queue.last_use = None
        self._jobs.wake(name)
        return queue.settings

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        """Return the settings of queues, by name: of all, or of the known ones among `names`."""
        known = self._jobs.queues
        return [known[name].settings for name in sorted(known if names is None else known.keys() & set(names))]

    def drop_queue(self, name: str) -> int:
        """Delete the queue with its live jobs, history and counts; return the number of live jobs."""
        dropped = self._jobs.drop(name)
        for row in dropped:
            self._flows.follow(row, None)
        return len(dropped)

    def drop_unused(self, now: int) -> None:
        """Delete the queues that have expired."""
        for name in [name for name, queue in self._jobs.queues.items() if queue.outlived(now)]:
            self.drop_queue(name)
