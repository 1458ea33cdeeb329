"""The schemas of queues in one process: declared ones, and those in force, which payloads must fit.

The ones in force are read again once they are SETTINGS_SECONDS old, and before a payload is refused: so recent
additions of other processes are known.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from stanchion.context.queues.cached_settings import SETTINGS_SECONDS
from stanchion.context.queues.declared_settings import LOOK_SECONDS
from stanchion.core.values.codec import Codec
from stanchion.errors import InvalidInput, PayloadMisfit
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.queues import QueueSettings

if TYPE_CHECKING:
    from stanchion.schemas.kinds import Schema
    from stanchion.schemas.misfits import Checker, Misfit


class InForce(NamedTuple):
    """The schema of a queue, and its check."""

    schema: Schema
    checker: Checker


class QueueSchemas:
    """Schemas of queues as known to one process."""

    def __init__(self) -> None:
        self.declared: dict[str, Schema] = {}
        """By queue."""
        self._begin(None)

    def _begin(self, store: Store | None) -> None:
        self._store, self._missing, self._looked_at = store, set(self.declared), -math.inf
        self._read: dict[str, tuple[float, InForce | None]] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"declared": self.declared}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.declared = state["declared"]
        self._begin(None)

    def declare(self, queue: str, schema: Schema) -> None:
        """Note the schema of a queue, to be stored at its first use. Raises InvalidInput if there is another."""
        known = self.declared.setdefault(queue, schema)
        if known != schema:
            raise InvalidInput(f"the code declares two schemas for queue {queue!r}: {known}, and {schema}; declare one")
        if known is schema:
            self._missing.add(queue)

    def deleted(self, queue: str) -> None:
        """Record that this process has deleted a queue: its next use stores the declarations."""
        self._read.pop(queue, None)
        if queue in self.declared:
            self._missing.add(queue)

    def are_stored(self, store: Store) -> bool:
        """Return whether everything declared is known to be stored."""
        return not self.declared or (store is self._store and not self._missing)

    def store(self, store: Store, queues: Iterable[str], tx: object = None) -> bool:
        """Store the declared schemas of these queues, where they are new; return whether any was. Raises SchemaRefused.

        In a transaction nothing can be stored: raises InvalidInput if something would have to be.
        """
        if store is not self._store:
            self._begin(store)
        missing = sorted(self._missing.intersection(queues))
        if not missing:
            return False
        from stanchion.schemas.stored import check_declared, declare

        for queue in missing:
            if tx is None:
                declare(store, queue, self.declared[queue])
                self.forget()
            else:
                check_declared(store, queue, self.declared[queue])
            self._missing.discard(queue)
        return True

    def forget(self) -> None:
        """Read all again, as this process has just changed some."""
        self._read = {}

    def keep(self, store: Store) -> None:
        """Look every LOOK_SECONDS for declared schemas of queues that were deleted: their next use declares them."""
        if self.are_stored(store) and self.declared and time.monotonic() - self._looked_at > LOOK_SECONDS:
            self._looked_at = time.monotonic()
            there = {one.name for one in store.queues(self.declared) if one.schema_after is not None}
            self._missing |= self.declared.keys() - there

    def check(self, store: Store, codec: Codec, jobs: Sequence[NewJob], settings: Mapping[str, QueueSettings]) -> None:
        """Raise PayloadMisfit for the first job whose payload does not fit the schema of its queue.

        Calls of tasks are not checked. `settings`: of these jobs' queues, as far as known.
        """
        for queue, one in settings.items():
            if one.schema_after is not None and (known := self.in_force(store, queue)) is not None:
                self._check(store, queue, known, _payloads(codec, queue, known.schema, jobs))

    def in_force(self, store: Store, queue: str, *, fresh: bool = False) -> InForce | None:
        """Return the schema of a queue; None if it has none that this release knows."""
        if store is not self._store:
            self._begin(store)
        now = time.monotonic()
        read_at, known = self._read.get(queue, (0.0, None))
        if fresh or queue not in self._read or now - read_at > SETTINGS_SECONDS:
            from stanchion.schemas.misfits import Checker
            from stanchion.schemas.stored import stored_schema

            schema = None
            with suppress(InvalidInput):  # a newer release has stored it, and checks what this one can't
                schema = stored_schema(store, queue).schema
            if known is None or schema != known.schema:
                known = None if schema is None else InForce(schema, Checker(schema.struct))
            self._read[queue] = now, known
        return known

    def _check(self, store: Store, queue: str, known: InForce, payloads: Sequence[str | None]) -> None:
        if _misfit(known, payloads) is None:
            return
        fresh = self.in_force(store, queue, fresh=True)
        if fresh is not None and (found := _misfit(fresh, payloads)) is not None:
            place, misfit = found
            row = place + 1 if len(payloads) > 1 else None
            raise PayloadMisfit(queue, fresh.schema.version, misfit.path, misfit.reason, row)


def _payloads(codec: Codec, queue: str, schema: Schema, jobs: Sequence[NewJob]) -> list[str | None]:
    """Return the JSON of the payloads, of chunks that of each item.

    It is None for jobs of other queues, for calls, and for the items of chunks whose columns all fit.
    """
    texts: list[str | None] = []
    for job in jobs:
        if isinstance(job.payload, bytes):
            texts += _items_in(codec, schema, job.payload) if job.queue == queue else [None]
        else:
            texts.append(codec.opened(job.payload) if job.queue == queue and job.task is None else None)
    return texts


def _items_in(codec: Codec, schema: Schema, chunk: bytes) -> Sequence[str | None]:
    from stanchion.core.chunks.stored import opened

    items = opened(codec, chunk)
    table = items.columns()
    if table is not None:
        from stanchion.schemas.typed_columns import structs_of_columns

        if structs_of_columns(schema.struct, table) is not None:
            return [None] * len(items)
    texts: list[str] = items.texts().to_pylist()
    return texts


def _misfit(known: InForce, payloads: Sequence[str | None]) -> tuple[int, Misfit] | None:
    """Return the first payload that does not fit, by its place, and why."""
    check = known.checker.text
    for place, text in enumerate(payloads):
        if text is not None and (misfit := check(text)) is not None:
            return place, misfit
    return None
