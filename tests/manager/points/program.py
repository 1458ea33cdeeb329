"""A manager that kills or stops itself at a named point, once: FATE is such as "kill claim 2" or "stop send 1".

python -m tests.manager.points.program manager --url ... --listen ...
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from stanchion.manager.dispatch.receivers.receiver import Guard, Sent
from stanchion.manager.dispatch.sender import Sender, Stored
from stanchion.manager.leadership.rows import SLICE
from stanchion.manager.server.streams.receivers import ReceiverStream
from stanchion.manager.service import process
from stanchion.manager.service.manager import Manager
from stanchion.ops.cli import main
from stanchion.ops.cli.wings import manager as command
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import NewJob, Pushed
from stanchion.stores.registry import open_store

LEASE = 2.0
POINTS = ("claim", "push", "send", "write", "settle", "slice")
"""After jobs are reserved, stored as running; before and after the last check whether they may be sent; after outcomes,
and the owner of a slice, are stored."""


class Fate:
    """Strikes at the n-th time that its point is reached."""

    def __init__(self, text: str) -> None:
        way, self._point, number = text.split()
        self._signal = signal.SIGKILL if way == "kill" else signal.SIGSTOP
        self._left = int(number)

    def at(self, point: str) -> None:
        """Take in that this process has reached a point."""
        if point == self._point:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), self._signal)


class Fated:
    """A store whose process may be struck after a call."""

    def __init__(self, store: Store, fate: Fate) -> None:
        self._store, self._fate = store, fate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def claim(self, claim: Claim) -> Claimed:
        claimed = self._store.claim(claim)
        if claim.ids and claimed.rows:
            self._fate.at("claim")
        return claimed

    def push(self, jobs: Sequence[NewJob], *given: Any, **options: Any) -> list[Pushed]:
        pushed = self._store.push(jobs, *given, **options)
        if any(one.token for one in pushed):
            self._fate.at("push")
        return pushed

    def settle(self, *given: Any, **options: Any) -> Any:
        states = self._store.settle(*given, **options)
        self._fate.at("settle")
        return states

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        done = self._store.compare_and_set(kind, name, text, version)
        if done and kind == SLICE:
            self._fate.at("slice")
        return done


def _fated(fate: Fate) -> None:
    vars(command)["open_store"] = lambda *given: Fated(open_store(*given), fate)
    send = Sender.send

    def sends(self: Sender, stored: Iterable[Stored]) -> None:
        jobs = list(stored)
        if jobs:
            fate.at("send")
        send(self, jobs)

    Sender.send = sends  # type: ignore[method-assign]
    write = ReceiverStream.send

    def writes(self: ReceiverStream, jobs: Sequence[Sent], guard: Guard) -> None:
        fate.at("write")
        write(self, jobs, guard)

    ReceiverStream.send = writes  # type: ignore[method-assign]


if __name__ == "__main__":
    vars(process)["Manager"] = partial(Manager, lease=LEASE)
    if text := os.environ.get("FATE"):
        _fated(Fate(text))
    main()
