"""The shards that this process knows, by name, from its file, which may name more later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import NoReturn, cast

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.shards.shard import Shard

_LOOK_SECONDS = 1.0
"""Seconds between two reads of the file for a shard that it does not name."""


class Roster:
    """The shards. `look` reads the file again, and returns the URLs of all shards; `opened` opens one."""

    def __init__(
        self,
        default: str,
        stores: Mapping[str, Store],
        look: Callable[[], Mapping[str, str]],
        opened: Callable[[str], Store],
    ) -> None:
        self._look, self._opened = look, opened
        self._looked_at = 0.0
        self._known = {name: Shard(name, store, is_default=name == default) for name, store in stores.items()}
        self._missing: dict[str, Shard] = {}
        self.default = self._known[default]
        reset_after_fork(self)

    def begin(self) -> None:
        """Start with a lock of this process."""
        self._lock = threading.Lock()

    @property
    def all(self) -> list[Shard]:
        """All shards, the default shard first."""
        return [self.default, *(shard for shard in list(self._known.values()) if shard is not self.default)]

    def named(self, name: str) -> Shard:
        """Return a shard. One that the file does not name, as yet, is like a shard that is down."""
        found = self._known.get(name)
        return found if found is not None else self._found(name)

    def _found(self, name: str) -> Shard:
        with self._lock:
            if name not in self._known and time.monotonic() - self._looked_at >= _LOOK_SECONDS:
                self._looked_at = time.monotonic()
                try:
                    self._take(self._look())
                except InvalidInput as error:  # it is being written
                    raise StoreUnavailable(str(error)) from error
            if name in self._known:
                return self._known[name]
            return self._missing.setdefault(name, Shard(name, cast(Store, _Missing())))

    def _take(self, urls: Mapping[str, str]) -> None:
        for name, url in urls.items():
            if name not in self._known:
                self._known[name] = Shard(name, self._opened(url))
                if (missing := self._missing.pop(name, None)) is not None:
                    missing.close()


class _Missing:
    """The store of a shard whose URL is not known."""

    def close(self) -> None:
        """Nothing is open."""

    def __getattr__(self, verb: str) -> object:
        def refused(*_args: object, **_named: object) -> NoReturn:
            raise StoreUnavailable("partitions have moved to it, but the file of this program does not name it: add it")

        return refused
