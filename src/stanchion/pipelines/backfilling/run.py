"""Running a backfill.

    source ──a page of items──► plan ──copies──► stage, unseen ──► publish: the copies, and the state after the page

Publishing is one step. A death before it leaves a stage that is dropped, and the page is planned again; a death after
it leaves nothing to repeat. On a store without transactions the state is written first, and `recover` completes the
page after a death: each copy is stored once, too.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import sleep

from stanchion.context.context import Context
from stanchion.core.times import moment
from stanchion.errors import InvalidInput
from stanchion.jobs.insert import chunks, make_ready
from stanchion.pipelines.backfilling.plan import Choice, Planner, items_on_arrival
from stanchion.pipelines.backfilling.record import Asked, Backfill, BackfillRecord, load
from stanchion.pipelines.backfilling.sources import Found, HistoryItems, Source
from stanchion.pipelines.topology import Topology
from stanchion.stores.hand_over import weight
from stanchion.stores.records.jobs import SECOND, NewJob
from stanchion.stores.records.staging import Publication

PAGE = 500
"""Jobs that are looked at, and at most enqueued, in one step; less where they are large."""

_CHARACTERS = 8 * 1024 * 1024
"""Characters of jobs in one step, unless a single job has more."""

_SHOWN = 20
_POLL_SECONDS = 0.2

Watch = Callable[[Backfill], object]


class BackfillRun:
    """One process that runs a backfill. `archive`: where its items come from, if not from history.

    `max_live`: wait while the stations would hold more live items than that.
    """

    def __init__(
        self,
        context: Context,
        topology: Topology,
        record: BackfillRecord,
        archive: Source | None,
        watch: Watch,
        max_live: int | None = None,
    ) -> None:
        self._context, self._topology, self._watch, self._max_live = context, topology, watch, max_live
        self._record = record
        asked, queue = record.asked, topology.queue(record.asked.station)
        self._queues = topology.queues_after(queue)
        self._source = archive or HistoryItems(context.store, topology, queue, asked.since, record.until)
        self._planner = Planner(context, topology, record, stored=archive is None)
        self._told: list[str] = []
        self._purged = self._purged_before()

    def count(self) -> Backfill:
        """Return the remaining work of the backfill, and change nothing."""
        record = replace(self._record, enqueued=0, left_out={})
        for page, _ in self._pages() if record.done_at is None else ():
            if page:
                chosen = self._planner.choices([one.row for one in page])
                record = record.behind(page[-1].place, *self._counted(chosen))
                self._watch(self._shown(record, dry_run=True))
        return self._shown(record, dry_run=True)._replace(fraction=1.0)

    def run(self) -> Backfill:
        """Enqueue all pages after the state; return the result."""
        was_done = self._record.done_at is not None
        while self._record.done_at is None:
            for page, is_last in self._pages():
                if not self._enqueue(page, last=is_last):
                    break  # another process was quicker: continue after its page
        return self._shown(self._record)._replace(was_done=was_done)

    def _pages(self) -> Iterator[tuple[list[Found], bool]]:
        """Yield the items after the state, page by page, and whether that is the last page, which may be empty."""
        page, size, items, most = list[Found](), 0, 0, self._max_live or math.inf
        for found in self._source.rows(self._record.after):
            its_size, its_items = weight(found.row), items_on_arrival(found.row)
            if page and (len(page) == PAGE or size + its_size > _CHARACTERS or items + its_items > most):
                yield page, False
                page, size, items = [], 0, 0
            page.append(found)
            size, items = size + its_size, items + its_items
        yield page, True

    def _enqueue(self, page: list[Found], *, last: bool) -> bool:
        """Enqueue the copies of a page and write the state after it, in one step; False if another process did."""
        before, store = self._record, self._context.store
        chosen = self._planner.choices([one.row for one in page])
        if self._waited_for_room(chosen):
            chosen = self._planner.choices([one.row for one in page])
        place = page[-1].place if page else before.after
        after = before.behind(place, *self._counted(chosen), store.now() if last else None)
        write, attempt = f"{before.change.kind}:{before.name}:{before.pages}", secrets.token_hex(8)
        staged = self._stage(write, attempt, [one.copy for one in chosen if one.copy is not None])
        attempts = ((attempt, staged),) if staged else ()
        published = store.publish(Publication(write, attempts, value=after.change))
        self._record = replace(after, version=before.version + 1) if published else self._by_another()
        self._watch(self._shown(self._record))
        return published

    def _by_another(self) -> BackfillRecord:
        """Return the state that another process has written, or an earlier try of this one."""
        found = load(self._context.store, self._record.name)
        if found is None:
            raise InvalidInput(f"the state of the backfill {self._record.name!r} was deleted while it ran")
        return found

    def _stage(self, write: str, attempt: str, copies: list[NewJob]) -> int:
        if copies:
            store = make_ready(self._context, copies)
            for chunk in chunks(copies):
                store.stage(write, attempt, chunk)
        return len(copies)

    def _counted(self, chosen: list[Choice]) -> tuple[int, Counter[str]]:
        for one in chosen:
            if one.copy is None and one.reason not in ("live", "copy") and len(self._told) < _SHOWN:
                self._told.append(f"item {one.id} {one.told}")
        left_out: Counter[str] = Counter()
        for one in chosen:
            if one.copy is None:
                left_out[one.reason] += one.items
        return _copied(chosen), left_out

    def _waited_for_room(self, chosen: list[Choice]) -> bool:
        """Wait until the stations hold few enough items for these as well; return whether they held too many.

        A chunk of more items than the stations may hold has room once they hold none.
        """
        waited, items = False, _copied(chosen)
        while self._max_live is not None and items:
            stations = [queue for queue in self._queues if queue in self._topology.queues]  # letters may stay for long
            live = sum(one.items.total for one in self._context.store.stats(stations, ["items"]).values())
            if live + items <= self._max_live or not live:
                break
            sleep(_POLL_SECONDS)
            waited = True
        return waited

    def _purged_before(self) -> int | None:
        """Return up to when history is purged where items of the window end; None if the window begins later."""
        if self._record.asked.source is not None:
            return None
        kept = {settings.name: settings.shortest_ttl for settings in self._context.store.queues(self._queues)}
        shortest = min((kept[queue] for queue in self._queues if queue in kept), default=None)
        if shortest is None:
            return None
        before, since = self._record.began_at - int(shortest * SECOND), self._record.asked.since
        return before if since is None or since < before else None

    def _shown(self, record: BackfillRecord, *, dry_run: bool = False) -> Backfill:
        more: dict[str, object] = {"told": tuple(self._told), "purged_before": moment(self._purged), "dry_run": dry_run}
        if record.done_at is None and record.after is not None:
            begin = record.asked.since if self._purged is None else self._purged
            if begin is not None:
                done = (self._source.reached(record.after) - begin) / max(1, record.until - begin)
                more["fraction"] = min(1.0, max(0.0, done))
        return Backfill.of(record, **more)


def _copied(chosen: list[Choice]) -> int:
    return sum(one.items for one in chosen if one.copy is not None)


def opened(context: Context, name: str, asked: Asked) -> BackfillRecord:
    """Return the record of a backfill, a new one if it has none. Raises InvalidInput if the name stands for another."""
    store = context.store
    while (found := existing(context, name, asked)) is None:
        fresh = BackfillRecord(name, asked, store.now())
        if store.compare_and_set(*fresh.change):
            return replace(fresh, version=1)
    return found


def existing(context: Context, name: str, asked: Asked) -> BackfillRecord | None:
    """Return the record of a backfill, or None. Raises InvalidInput if the name stands for another."""
    found = load(context.store, name)
    if found is not None and found.asked != asked:
        raise InvalidInput(f"the backfill {name!r} is {_words(found.asked)}, not {_words(asked)}; use another name")
    return found


def _words(asked: Asked) -> str:
    def time_of(at: int | None, otherwise: str) -> str:
        return otherwise if at is None else f"{moment(at):%Y-%m-%d %H:%M:%S.%f}"

    window = f"from {time_of(asked.since, 'the beginning')} until {time_of(asked.until, 'its start')}"
    source = "history" if asked.source is None else asked.source
    rank = "" if asked.priority is None else f", with priority {asked.priority}"
    return f"of station {asked.station!r} {window} of {source}{rank}"
