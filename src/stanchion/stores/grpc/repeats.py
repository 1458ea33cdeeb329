"""Verbs that must recognise their own effect if the reply was lost.

The store repeats its own calls to the database, and recognises these. A client that repeats a call of a manager reads
the stored state instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.grpc.client.calls import Calls
from stanchion.stores.records.calls import seconds_for
from stanchion.stores.records.jobs import JobRef
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.values import VersionedValue


class Repeats:
    """Calls that may be repeats."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write a value if its version is the given one; a repeat recognises its own write by the text."""
        written, again = self._calls.make_repeatable(
            "compare_and_set", None, kind=kind, name=name, text=text, version=version
        )
        return bool(written) or (again and self._is_now(kind, name, text, version + 1))

    def publish(self, publication: Publication) -> bool:
        """Publish staged jobs; a repeat recognises its own publication by the text of its value."""
        jobs = sum(jobs for _, jobs in publication.attempts)
        done, again = self._calls.make_repeatable("publish", seconds_for(jobs), publication=publication)
        if done or not again or publication.value is None:
            return bool(done)
        kind, name, text, version = publication.value
        return self._is_now(kind, name, text, version + 1)

    def delete(self, refs: Sequence[JobRef]) -> list[bool]:
        """Delete jobs; in a repeat, missing jobs count as deleted."""
        deleted, again = self._calls.make_repeatable("delete", seconds_for(len(refs)), refs=refs)
        if not again or all(deleted):
            return list(deleted)
        left = self._calls.make("fetch", ids=[ref.id for ref in refs])
        return [done or ref.id not in left for ref, done in zip(refs, deleted, strict=True)]

    def _is_now(self, kind: str, name: str, text: str | None, version: int) -> bool:
        found: list[VersionedValue] = self._calls.make("values", kind=kind, names=[name])
        return found == ([] if text is None else [VersionedValue(name, text, version)])
