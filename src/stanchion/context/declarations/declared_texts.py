"""Declarations of code, stored for processes without the code: one versioned value for each name.

A process stores its texts before it pushes or reserves; over another process, the one that began last wins. Every
LOOK_SECONDS it checks that they are still there. A failover to a server that lagged behind loses some, and so does a
backup that is restored: then the process whose texts were in the store last puts them back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from operator import eq

from stanchion.errors import NotPermitted
from stanchion.stores.protocol import Store
from stanchion.stores.records.values import VersionedValue

LOOK_SECONDS = 10.0
"""Seconds between checks that declared texts are still stored."""


class DeclaredTexts:
    """The storage of the texts of one kind that a process declares.

    `same`: returns whether a stored text has the declaration of another one; `by_hand`: whether an operator has made a
    stored text that no code declares (None: none does).
    """

    def __init__(
        self, kind: str, same: Callable[[str, str], bool] = eq, by_hand: Callable[[str], bool] | None = None
    ) -> None:
        self._kind, self._same, self._by_hand = kind, same, by_hand
        self._begin(None)

    def _begin(self, store: Store | None) -> None:
        self._store, self._looked_at, self._refused = store, -math.inf, False
        self._versions: dict[str, int] = {}
        """By name, of the texts that are stored as this process declares them."""
        self._overruled: set[str] = set()
        """The names that another process or an operator has changed since."""

    def __getstate__(self) -> dict[str, object]:
        return {"_kind": self._kind, "_same": self._same, "_by_hand": self._by_hand}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state)
        self._begin(None)

    def declare(self, name: str) -> None:
        """Take in that the text of a name is new, so that the next use stores it."""
        self._versions.pop(name, None)
        self._overruled.discard(name)
        self._looked_at = -math.inf

    def keep(self, store: Store, declared: Callable[[], Mapping[str, str]]) -> None:
        """Store new declared texts, and every LOOK_SECONDS lost ones.

        A caller of a manager that may not store them works without.
        """
        if store is not self._store:  # another one, as in a test
            self._begin(store)
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS or self._refused:
            return
        try:
            self._put(store, declared())
        except NotPermitted:
            self._refused = True
        self._looked_at = now  # only after the calls, so that failed ones are repeated

    def _put(self, store: Store, texts: Mapping[str, str]) -> None:
        left = {name: text for name, text in texts.items() if name not in self._overruled}
        while left:
            stored = {value.name: value for value in store.values(self._kind, [*left])}
            for name, text in sorted(left.items()):
                before = stored.get(name)
                if before is not None and self._same(before.text, text):
                    self._versions[name] = before.version
                elif before is not None and self._overrules(before):
                    self._overruled.add(name)
                else:
                    version = 0 if before is None else before.version
                    if not store.compare_and_set(self._kind, name, text, version):
                        continue  # another process was faster: read again
                    self._versions[name] = version + 1
                del left[name]

    def _overrules(self, stored: VersionedValue) -> bool:
        """Return whether a different text has replaced this process's; otherwise an older one has been restored."""
        known = self._versions.get(stored.name)
        by_hand = self._by_hand is not None and self._by_hand(stored.text)
        return known is not None and (stored.version >= known or by_hand)
