"""`Queues.Topology`: the managers, and the slices they own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, TypedDict

from stanchion.manager.leadership.leadership import Manager
from stanchion.manager.server.tokens import Caller
from stanchion.stores.wire.messages import pb

_TICK = 0.1
"""Seconds between two looks whether something has changed."""


class Known(Protocol):
    """Who knows the managers. `version` counts their changes."""

    version: int

    @property
    def session(self) -> str: ...

    def managers(self) -> Sequence[Manager]: ...


class Own(TypedDict):
    """What a manager says of itself."""

    address: str
    session: str
    draining: bool


class Topology:
    """Informs subscribers about the managers, as this one knows them."""

    def __init__(self) -> None:
        self._known: Known | None = None
        self._changed = asyncio.Event()
        self._version = 0
        self._draining = self._ended = False

    async def follow(self, known: Known) -> None:
        """Tell changes, until cancelled."""
        self._known, seen = known, -1
        while True:
            if known.version != seen:
                seen = known.version
                self._tell()
            await asyncio.sleep(_TICK)

    def drain(self) -> None:
        """Announce that this manager ends soon."""
        self._draining = True
        self._tell()

    def end(self) -> None:
        """Tell nothing more."""
        self._ended = True
        self._changed.set()

    def _tell(self) -> None:
        self._version += 1
        self._changed.set()
        if not self._ended:
            self._changed = asyncio.Event()

    async def after(self, version: int) -> int | None:
        """Wait for a version after this one, and return it; None once there will be no other."""
        while self._version <= version:
            if self._ended:
                return None
            await self._changed.wait()
        return self._version

    def own(self) -> Own:
        """Return this manager's address, session, and whether it ends soon."""
        session = "" if self._known is None else self._known.session
        managers = () if self._known is None else self._known.managers()
        address = next((one.address for one in managers if one.session == session), "")
        return {"address": address, "session": session, "draining": self._draining}

    def reply(self, caller: Caller, queues: Sequence[str]) -> pb.TopologyReply:
        """Return the managers, with the slices of these queues, or of all without any, that the caller may use."""
        known = self._known
        reply = pb.TopologyReply(version=self._version)
        for one in () if known is None else known.managers():
            manager = reply.managers.add(address=one.address, session=one.session)
            manager.draining = self._draining and known is not None and one.session == known.session
            for owned in one.slices:
                if (not queues or owned.queue in queues) and caller.reaches(owned.queue):
                    lanes = pb.LaneRange(queue=owned.queue, first=owned.lanes[0], last=owned.lanes[1])
                    manager.slices.add(queue=owned.queue, slice=owned.slice, epoch=owned.epoch, lanes=lanes)
        return reply
