"""The slices that this manager owns, in memory, and the notices to the part that serves them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping

from stanchion.manager.leadership.owner import Owned, Owner

log = logging.getLogger("stanchion.manager")


class Holdings:
    """Slices by the names of their values. Slow work runs concurrently with the loop that renews the session."""

    def __init__(self, owner: Owner, released: Callable[[], None]) -> None:
        """`released`: called when slices have been let go."""
        self._owner, self._released = owner, released
        self.mine: dict[str, Owned] = {}
        self.busy: set[str] = set()
        """Slices that are being let go: statements for them may be under way."""
        self._in_order = asyncio.Lock()
        self._takes: set[asyncio.Task[None]] = set()
        self._releases: set[asyncio.Task[None]] = set()

    def take(self, owned: Mapping[str, Owned]) -> None:
        """Have slices served."""
        self.mine.update(owned)
        _start(self._take(owned), self._takes)

    async def _take(self, owned: Mapping[str, Owned]) -> None:
        try:
            async with self._in_order:
                await self._owner.take(list(owned.values()))
        except Exception:
            log.exception("slices can't be served, and are taken again later")
            self.let_go([name for name, one in owned.items() if self.mine.get(name) is one])

    def let_go(self, names: Collection[str]) -> None:
        """Have slices no longer served; they are busy until no statement for them is under way."""
        owned = {name: self.mine.pop(name) for name in names}
        self.busy |= owned.keys()
        _start(self._release(owned), self._releases)

    async def _release(self, owned: Mapping[str, Owned]) -> None:
        try:
            async with self._in_order:
                await self._owner.release(list(owned.values()))
        except Exception:
            log.exception("slices could not be let go in order")
        finally:
            self.busy -= owned.keys()
            self._released()

    async def let_all_go(self) -> None:
        """Let all slices go, and wait until that is done."""
        if self.mine:
            self.let_go(list(self.mine))
        if self._releases:
            await asyncio.wait(set(self._releases))

    def lose(self) -> None:
        """Stop serving all slices immediately."""
        self.mine.clear()
        for task in self._takes:
            task.cancel()
        self._owner.lose()


def _start(work: Coroutine[object, object, None], among: set[asyncio.Task[None]]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    among.add(task)
    task.add_done_callback(among.discard)
