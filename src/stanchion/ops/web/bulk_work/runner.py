"""Runs bulk work: a thread of this process, which works in rounds and continues the work of dead processes."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from stanchion.context.context import Context
from stanchion.core.ids import id_named
from stanchion.errors import InvalidInput, StanchionError
from stanchion.ops.audit import AuditLog, Entry
from stanchion.ops.reads.filters import JobFilter
from stanchion.ops.reads.lists import page_of
from stanchion.ops.redriving import Verdict, cancelled, copied, left_out, retried
from stanchion.ops.web.bulk_work.bulk import OWNED, BulkWork, BulkWorks
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND

ROUND: Final = 500
"""Jobs of one round."""

LOOKS: Final = 5.0
"""Seconds between checks for works that have lost their process."""

SOON: Final = 1.0
"""Seconds that the creator of a work waits for its end, to see its effect."""

_log = logging.getLogger("stanchion.web")


class Runner:
    """Works on all works that no live process owns."""

    def __init__(self, context: Callable[[], Context], works: BulkWorks, audit: AuditLog) -> None:
        self._context, self._works, self._audit = context, works, audit
        self._me = secrets.token_hex(8)
        self._wake, self._closed = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def _store(self) -> Store:
        return self._context().fresh_store

    def nudge(self) -> None:
        """Check for work now; the first call starts the thread."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._closed.clear()
                self._thread = threading.Thread(target=self._run, name="stanchion-web-bulk", daemon=True)
                self._thread.start()
        self._wake.set()

    def soon(self, work_id: str) -> BulkWork | None:
        """Return a work once it has ended, or as it is after SOON; None if it is unknown."""
        deadline = time.monotonic() + SOON
        while (found := self._works.find(work_id)) is not None:
            if found[0].state != "running" or time.monotonic() >= deadline:
                return found[0]
            time.sleep(0.02)
        return None

    def close(self) -> None:
        """Stop after the round under way."""
        self._closed.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(10)

    def _run(self) -> None:
        while not self._closed.is_set():
            self._wake.clear()
            try:
                pause = self.step()
            except StanchionError as error:
                _log.warning("bulk work waits: %s", error)
                pause = LOOKS
            self._wake.wait(pause)

    def step(self) -> float:
        """Do one round of each work that is due here; return the seconds until the next one."""
        pause = LOOKS
        for work, version in self._works.all():
            if self._closed.is_set() or work.state != "running":
                continue
            now = self._store().now()
            if work.owner in ("", self._me) or now - work.beat > OWNED:
                pause = min(pause, self._round(work, version, now))
        return pause

    def _round(self, work: BulkWork, version: int, now: int) -> float:
        """Do one round; return the seconds until the next one of this work."""
        size = ROUND if not work.rate else max(1, min(ROUND, round(work.rate)))
        if work.rate and work.owner == self._me and (early := work.beat + int(size / work.rate * SECOND) - now) > 0:
            return early / SECOND
        began = time.monotonic()
        try:
            ids, cursor = self._next(work, size)
            verdicts = self._act(work, ids)
        except InvalidInput as error:  # its filter is of another release
            self._works.write(work._replace(state="stopped", ended_at=now, error=str(error)), version)
            return LOOKS
        after = work.after(verdicts)._replace(
            cursor=cursor,
            owner=self._me,
            beat=now,
            state="finished" if cursor is None else "running",
            ended_at=now if cursor is None else 0,
        )
        if self._works.write(after, version):
            if after.state == "finished":
                self._tell(after, now)
        elif (stopped := self._works.find(work.id)) is not None and stopped[0].state == "stopped":
            self._works.write(stopped[0].after(verdicts), stopped[1])
        return max(0.0, size / work.rate - (time.monotonic() - began)) if work.rate else 0.0

    def _next(self, work: BulkWork, size: int) -> tuple[Sequence[str], str | None]:
        """Return the jobs of the next round, and the cursor after them; None at the end."""
        if work.ids:
            first = int(work.cursor or 0)
            behind = first + size
            return work.ids[first:behind], str(behind) if behind < len(work.ids) else None
        wanted = JobFilter.of_text(work.where)
        page = page_of(self._context(), self._store(), wanted.query(work.at), work.at, work.cursor, size)
        return [job.id for job in page.jobs if wanted.error in ("", job.error_group)], page.next

    def _act(self, work: BulkWork, ids: Sequence[str]) -> list[Verdict]:
        """Act on these jobs."""
        if not ids:
            return []
        store = self._store()
        if work.act == "retry":
            return retried(store, ids)
        if work.act == "replay":  # a repeated round makes no second copy
            return copied(store, ids, [id_named(f"{work.id}:{one}", work.at) for one in ids])
        return cancelled(store, ids, work.at)

    def _tell(self, work: BulkWork, now: int) -> None:
        note = left_out(work.reasons)
        self._audit.add(Entry(now, work.who, f"{work.act}: finished", work.subject, work.done, note))
