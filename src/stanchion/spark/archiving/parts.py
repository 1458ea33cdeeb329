"""Writing one part of history to files, in this process or in an executor of Spark.

history ──not archived yet──► a file, to be committed
     └──archived already, by a run that died before it purged──► deleted from the store
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from stanchion.spark.archiving.files import End, Files, Part, Written, ends_in
from stanchion.spark.archiving.typed import TypedColumns
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRef, JobRow

PURGED_AT_ONCE = 1000


class Archived:
    """The finishes in a version of the archive. A file is read only when finishes within its bounds are looked up."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._unread = list(parts)
        self._ends: set[End] = set()

    def among(self, ends: Sequence[End]) -> set[End]:
        """Return the finishes among these that are archived."""
        first, last = min(end for _, end in ends), max(end for _, end in ends)
        here = [part for part in self._unread if part.first <= last and part.last >= first]
        for batch in ends_in([Path(part.place) for part in here]):
            self._ends.update(batch)
        self._unread = [part for part in self._unread if part not in here]
        return self._ends.intersection(ends)


class Purger:
    """Deletes archived jobs from the store, unless they are to be kept."""

    def __init__(self, store: Store, *, keep: bool) -> None:
        self._store, self._keep = store, keep
        self.purged = 0

    def purge(self, ends: Sequence[End]) -> None:
        """Delete exactly these finishes."""
        if self._keep:
            return
        for first in range(0, len(ends), PURGED_AT_ONCE):
            self.purged += sum(self._store.delete([JobRef(*end) for end in ends[first : first + PURGED_AT_ONCE]]))


def fresh(pages: Iterable[list[JobRow]], archived: Archived, purger: Purger) -> Iterator[list[JobRow]]:
    """Yield finished jobs that are not archived yet; purge the archived ones."""
    for page in pages:
        ends = [end_of(row) for row in page]
        known = archived.among(ends) if ends else set()
        purger.purge(sorted(known))
        rows = [row for row, end in zip(page, ends, strict=True) if end not in known]
        if rows:
            yield rows


def write_part(folder: Path, pages: Iterable[list[JobRow]], typed: TypedColumns) -> list[Written]:
    """Write finished jobs to new files; delete them all on failure."""
    files = Files(folder, typed)
    try:
        for page in pages:
            files.add(page)
        return files.close()
    except BaseException:
        files.drop()
        raise


def end_of(row: JobRow) -> End:
    """Return the finish of a job."""
    assert row.finished_at is not None  # noqa: S101 - it comes from history
    return row.id, row.finished_at


def texts(values: object) -> Any:
    """Return lists from JSON as tuples, at any depth."""
    return tuple(map(texts, values)) if isinstance(values, list | tuple) else values
