"""What is stored of a stream, and what follows from it: tokens, workers, writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Self
from uuid import UUID, uuid5

from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records import Note, NoteChange, Outcome, Rollback

KIND = "stream"
PORTION = 1000
"""Outcomes that are settled in one call."""


class Position(NamedTuple):
    """A place in a stream: behind its batch number `seq`. This is all that a driver's log needs to keep."""

    stream: str
    seq: int


class Part(NamedTuple):
    """The jobs of a batch with ids from `first` to `last` (None: no bound), for one reader.

    `size`: how many jobs of the whole batch were in hand when it was divided.
    """

    name: str
    stream: str
    queue: str
    seq: int
    token: str
    epoch: int
    size: int
    first: str | None = None
    last: str | None = None


class Run(NamedTuple):
    """Who reads a batch: the `name` of one attempt of one query to process it."""

    name: str
    seq: int
    size: int


@dataclass(frozen=True, slots=True)
class StreamState:
    """The note of a stream.

    `epoch`: counts its drivers; `driver` tells the last of them from all others. `holder`: the epoch that reserved the
    last batch. `replays`: how often that was begun again since. `published`: the last batch whose new jobs were stored
    ahead of its end. `version`: of the note, not in it.
    """

    id: str
    queue: str
    driver: str
    epoch: int = 0
    acked: int = 0
    reserved: int = 0
    holder: int = 0
    replays: int = 0
    published: int = 0
    run: Run | None = None
    version: int = 0

    @classmethod
    def of(cls, note: Note) -> Self:
        """Return the state that a note tells of."""
        fields = json.loads(note.text)
        run = fields.pop("run")
        return cls(**fields, run=Run(*run) if run else None, version=note.version)

    @property
    def text(self) -> str:
        """The text of the note."""
        fields = asdict(self)
        del fields["version"]
        return json.dumps({**fields, "run": self.run}, separators=(",", ":"), sort_keys=True)

    @property
    def token(self) -> str:
        """The token of the last batch."""
        return self._token(self.reserved, self.holder)

    @property
    def next_token(self) -> str:
        """The token under which the present driver claims the next batch."""
        return self._token(self.reserved + 1, self.epoch)

    @property
    def pending(self) -> bool:
        """True while the last batch is not acknowledged."""
        return self.reserved > self.acked

    def _token(self, seq: int, epoch: int) -> str:
        return str(uuid5(UUID(self.id), f"{seq}:{epoch}"))

    def write(self, seq: int) -> str:
        """Return the name under which the outputs of a batch are staged."""
        return f"{KIND}:{self.id}:{seq}"

    def change(self, name: str) -> NoteChange:
        """Return the note to be written, over that from which this state was made."""
        return NoteChange(KIND, name, self.text, self.version)


def worker_id(name: str, epoch: int) -> str:
    """Return the id of the worker that holds the jobs which a driver of this epoch has claimed."""
    return f"{KIND}:{name}:{epoch}"


def load(store: Store, name: str) -> StreamState | None:
    """Return the state of a stream; None if there is none of the name."""
    return next((StreamState.of(note) for note in store.notes(KIND) if note.name == name), None)


def known(store: Store, name: str) -> StreamState:
    """Return the state of a stream; InvalidInput if there is none of the name."""
    state = load(store, name)
    if state is None:
        names = ", ".join(note.name for note in store.notes(KIND)) or "none"
        raise InvalidInput(f"no stream {name!r} (there are: {names}); the first query that reads it makes it")
    return state


def swap(store: Store, name: str, state: StreamState) -> StreamState | None:
    """Write a changed state; return it with its new version, or None when another was quicker.

    A compare-and-set whose answer was lost looks like one that failed; the text tells.
    """
    if store.set_note(*state.change(name)):
        return replace(state, version=state.version + 1)
    found = load(store, name)
    return found if found is not None and found.text == state.text else None


def ranges(ids: Sequence[str], count: int) -> list[tuple[str, str]]:
    """Divide ids in their order into up to `count` ranges of equal size; return the first and the last id of each."""
    count = min(count, len(ids))
    bounds = [len(ids) * n // count for n in range(count + 1)] if count else []
    return [(ids[first], ids[behind - 1]) for first, behind in pairwise(bounds)]


def give_back(store: Store, token: str, ids: list[str]) -> None:
    """Give jobs in hand back unharmed; those no longer in hand are back already."""
    settle(store, [Rollback(job_id, token, 0.0, refund=True) for job_id in ids])


def settle(store: Store, outcomes: list[Outcome]) -> int:
    """Settle outcomes in portions; return how many of them counted."""
    portions = (outcomes[first : first + PORTION] for first in range(0, len(outcomes), PORTION))
    return sum(state is not None for portion in portions for state in store.settle(portion))
