"""Pushes that may be repeated: their state under an Idempotency-Key.

begin: the ids of the jobs are written down ──► the jobs are stored under them ──► finish: the answer is stored

A repeat after a death in between stores the jobs that are missing, under the same ids. Records live in a fixed number
of versioned values, so that none has to be purged: each holds the newest records of its share of all keys.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from stanchion.core.ids import beside, new_ids
from stanchion.ops.web.api.problems import Problem, Wrong
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND

KIND: Final = "web-push"
SLOTS: Final = 4096
"""Values over which the keys are spread."""

HELD: Final = 32
"""Records of a value at most: the newest."""

KEPT: Final = 24 * 3600 * SECOND
"""Microseconds that a key is valid."""


class Record(NamedTuple):
    """One push. `print`: of its body. `duplicates`: ids of existing jobs, by index, once it is `done`."""

    key: str
    print: str
    first: str
    jobs: int
    at: int
    done: bool = False
    duplicates: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Push:
    """A push under a key. `stored`: the earlier answer; None: its jobs are to be stored under `ids`."""

    slot: str
    record: Record
    ids: list[str]
    stored: list[dict[str, Any]] | None


class Repeats:
    """The records of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, key: Sequence[str], body: object, jobs: int, now: int) -> Push:
        """Return the push under a key. Raises Problem if the key was used for another one."""
        digest, of_body = _digest(key), _digest(body)
        slot = str(int(digest[:8], 16) % SLOTS)
        while True:
            records, version = self._read(slot)
            for record in records:
                if record.key == digest and record.at > now - KEPT:
                    if record.print != of_body:
                        wrong = Wrong("was used for another body", parameter="Idempotency-Key")
                        raise Problem("invalid", "this Idempotency-Key was used for another body: take a new one for "
                                      "each request that is not a repeat", [wrong])  # fmt: skip
                    return _push(slot, record)
            record = Record(digest, of_body, new_ids(jobs)[0], jobs, now)
            kept = [one for one in records if one.at > now - KEPT and one.key != digest][1 - HELD :]
            if self._write(slot, [*kept, record], version):
                return _push(slot, record)

    def finish(self, push: Push, stored: Sequence[dict[str, Any]]) -> None:
        """Store the answer."""
        others = {str(index): one["id"] for index, one in enumerate(stored) if one["duplicate"]}
        self._change(push, push.record._replace(done=True, duplicates=others))

    def forget(self, push: Push) -> None:
        """Forget a push that was refused, so that its key can be used again."""
        self._change(push, None)

    def _change(self, push: Push, after: Record | None) -> None:
        while True:
            records, version = self._read(push.slot)
            if push.record not in records:  # there was a faster one
                return
            changed = [after if one == push.record else one for one in records]
            if self._write(push.slot, [one for one in changed if one is not None], version):
                return

    def _read(self, slot: str) -> tuple[list[Record], int]:
        for value in self._store.values(KIND, [slot]):
            return [Record(*row) for row in json.loads(value.text)], value.version
        return [], 0

    def _write(self, slot: str, records: Sequence[Record], version: int) -> bool:
        text = json.dumps(records, default=dict, separators=(",", ":")) if records else None
        return self._store.compare_and_set(KIND, slot, text, version)


def _push(slot: str, record: Record) -> Push:
    ids = [beside(record.first, distance) for distance in range(record.jobs)]
    stored = [
        {"id": record.duplicates.get(str(index), job_id), "duplicate": str(index) in record.duplicates}
        for index, job_id in enumerate(ids)
    ]
    return Push(slot, record, ids, stored if record.done else None)


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
