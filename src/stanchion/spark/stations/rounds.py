"""Rounds: the Spark jobs whose tasks work on plain stations, as a value in the store, named by a queue of theirs.

Spark can't ask a task to stop, only kill its Python process. So a task works for as long as its round goes on: the
driver renews the round, and takes it out of the value to end it. A driver that dies renews nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND

KIND: Final = "spark-rounds"

Untils = dict[str, int]
"""When each round ends unless it is renewed, by the store's clock, by the id of the round."""


def renew(store: Store, queue: str, round_id: str, seconds: float) -> None:
    """Let a round go on for so long from now; forget rounds that nobody renewed in time."""
    now = store.now()

    def renewed(untils: Untils) -> Untils:
        going_on = {one: until for one, until in untils.items() if until > now}
        return {**going_on, round_id: now + int(seconds * SECOND)}

    _change(store, queue, renewed)


def end(store: Store, queue: str, round_id: str) -> None:
    """End a round: its tasks stop."""
    _change(store, queue, lambda untils: {one: until for one, until in untils.items() if one != round_id})


def goes_on(store: Store, queue: str, round_id: str) -> bool:
    """Return whether the tasks of a round are to work."""
    untils, _ = _read(store, queue)
    return round_id in untils and untils[round_id] > store.now()


def _change(store: Store, queue: str, changed: Callable[[Untils], Untils]) -> None:
    while True:
        before, version = _read(store, queue)
        after = changed(before)
        if after == before:
            return
        text = json.dumps(after, separators=(",", ":")) if after else None
        if store.compare_and_set(KIND, queue, text, version):
            return


def _read(store: Store, queue: str) -> tuple[Untils, int]:
    found = next(iter(store.values(KIND, [queue])), None)
    return ({}, 0) if found is None else (json.loads(found.text), found.version)
