"""News: topics with versions, and the tabs that hear of them.

A version counts the news in this process. A tab fetches its page again when one of its topics is stale, and gets
the one page that was rendered for that version.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from stanchion.ops.web.live.sampler import Sample
from stanchion.stores.rules.leases.liveness import alive

REPEAT: Final = 30.0
"""Seconds after which a topic counts as new without a change: times and plots move on."""


class News(NamedTuple):
    """News for a tab: stale topics, and the version of the newest."""

    topics: tuple[str, ...]
    version: int


class Tab:
    """One stream, of the event loop that makes it. Of news that it has not taken only the topics are kept, merged."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        self._loop, self._ready = asyncio.get_running_loop(), asyncio.Event()
        self._lock = threading.Lock()
        self._stale: set[str] = set()
        self._version = 0

    def tell(self, topics: Iterable[str], version: int) -> None:
        """Note that these topics are new, from any thread."""
        own = self.topics.intersection(topics)
        if own:
            with self._lock:
                self._stale |= own
                self._version = version
            self.wake()

    def wake(self) -> None:
        """Have `news` return."""
        with suppress(RuntimeError):  # its loop has ended
            self._loop.call_soon_threadsafe(self._ready.set)

    async def news(self, seconds: float) -> News | None:
        """Wait for news, at most so many seconds; None without any."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ready.wait(), seconds)
        self._ready.clear()
        with self._lock:
            found, self._stale = tuple(sorted(self._stale)), set()
            return News(found, self._version) if found else None


class _Told(NamedTuple):
    """A topic as tabs know it. `moved`: it had changed, so that its rates change once more."""

    version: int
    at: float
    part: object
    moved: bool


class Board:
    """The topics of one process."""

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(4)
        """Distinguishes the versions of this process from others'."""
        self._lock = threading.Lock()
        self._version = self._floor = 0
        self._told: dict[str, _Told] = {}
        self._tabs: set[Tab] = set()

    def version_of(self, topics: Iterable[str]) -> int:
        """Return the version of the newest of these topics."""
        with self._lock:
            return self._newest(topics)

    def read(self, parts: Mapping[str, object], at: float) -> None:
        """Take a reading: what each topic looks like, at a time in seconds of a clock that does not go back."""
        with self._lock:
            self._version += 1
            stale = [name for name, part in parts.items() if self._is_new(name, part, at)]
            for name in stale:
                before = self._told.get(name)
                moved = before is not None and before.part != parts[name]
                self._told[name] = _Told(self._version, at, parts[name], moved)
            for gone in [*(self._told.keys() - parts.keys())]:
                del self._told[gone]
                stale.append(gone)
            for tab in self._tabs:
                tab.tell(stale, self._version)

    def touch(self) -> None:
        """Let all topics be stale, after an act."""
        with self._lock:
            self._version += 1
            self._floor = self._version
            for tab in self._tabs:
                tab.tell(tab.topics, self._version)

    def join(self, tab: Tab, since: str) -> None:
        """Subscribe a tab. `since`: its last position, from `place`; without it, all topics are new."""
        epoch, _, version = since.partition("-")
        known = int(version) if epoch == self.epoch and version.isdecimal() and len(version) < 16 else -1
        with self._lock:
            if known < self._newest(tab.topics):
                tab.tell(tab.topics, self._version)
            self._tabs.add(tab)

    def leave(self, tab: Tab) -> None:
        """Let a tab hear no more."""
        with self._lock:
            self._tabs.discard(tab)

    def wake(self) -> None:
        """Wake all tabs, so that they see that the site is closed."""
        with self._lock:
            for tab in self._tabs:
                tab.wake()

    def place(self, version: int | None = None) -> str:
        """Return a version, or the newest, as a text that holds for this process only."""
        return f"{self.epoch}-{self._version if version is None else version}"

    def _newest(self, topics: Iterable[str]) -> int:
        return max([self._floor, *(self._told[one].version for one in topics if one in self._told)])

    def _is_new(self, name: str, part: object, at: float) -> bool:
        told = self._told.get(name)
        return told is None or told.moved or told.part != part or at - told.at >= REPEAT


def parts_of(sample: Sample) -> dict[str, object]:
    """Return the appearance of a sample's topics. Where jobs are due, ages change with each sample."""
    seen, monitor = sample.seen, sample.monitor
    workers = tuple(
        (row.id, row.state, row.queues, row.threads, row.running, alive(row, seen.at)) for row in seen.workers
    )
    queues = {
        one.settings.name: (
            one.settings,
            one.stats.states,
            one.stats.items,
            one.stats.totals,
            seen.letters.lying.get(one.settings.name, 0),
            sample.number if any(head.due_in <= 0 for head in one.stats.heads) else None,
        )
        for one in seen.queues
    }
    counts = [one.stats.totals for one in seen.queues]
    return {
        "verdict": (sample.firing, monitor.bands, monitor.queues, seen.trouble),
        "queues": (queues, workers),
        "errors": [(one.rolled_back, one.buried) for one in counts],
        "workers": workers,
        "streams": seen.streams,
        "managers": seen.managers,
        **{f"queue:{name}": (part, workers) for name, part in queues.items()},
    }
