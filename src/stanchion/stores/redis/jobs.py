"""Jobs in Redis: scripts read and change them, each on the keys of one queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stanchion.stores.cas.chunks import chunks, grouped
from stanchion.stores.cas.entries import Entry, is_stale
from stanchion.stores.cas.jobs import Change, Result, Results, Seen
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.slots import ORDER, Slot
from stanchion.stores.redis.client.layout import FIELD
from stanchion.stores.redis.client.places import Places
from stanchion.stores.redis.client.rows import ROW, STATE_FIELDS, apart_text, body_text, rev_of, seen_in, state_text
from stanchion.stores.redis.client.server import Call, Server
from stanchion.stores.redis.client.settings import settings_in
from stanchion.stores.rules.expiry import expiry_of

SCRIPT_JOBS_MAX = 2000
"""Jobs per script call; the server serves no other client meanwhile."""

_RESULTS = (Result.CHANGED, Result.DONE, Result.KEY_TAKEN)
"""Results by the number that the script `change` returns."""


class Jobs:
    """The primitives of `stores.cas` on jobs, their outbox, and moves between queues."""

    def __init__(self, server: Server, places: Places) -> None:
        self.server, self.places = server, places

    def now(self) -> int:
        """Return the store's clock."""
        return self.server.now()

    def script(self, name: str, queue: str, *arguments: object) -> Any:
        """Run a script on a queue; it must be safe to repeat."""
        return self.server.call(lambda _again: self.server.run(name, self.server.keys.queue(queue), *arguments))

    # -- reading

    def read(self, ids: Sequence[str], queues: Sequence[str] | None = None) -> tuple[int, dict[str, Seen]]:
        """Return the store's clock, and the jobs that are live or in history, by id; see `cas.jobs.Jobs`."""
        seen: dict[str, Seen] = {}
        now = None
        wanted = list(dict.fromkeys(ids))
        for queue, part in self._grouped(ids, queues).items():
            now = self.read_in(queue, part, seen)
        if queues is not None:
            return self.now() if now is None else now, seen
        missing = [job_id for job_id in wanted if job_id not in seen]
        for queue in self.places.queues() if missing else ():
            now = self.read_in(queue, missing, seen)
            missing = [job_id for job_id in missing if job_id not in seen]
            if not missing:
                break
        return self.now() if now is None else now, seen

    def _grouped(self, ids: Sequence[str], queues: Sequence[str] | None) -> dict[str, list[str]]:
        """Return the ids by queue: by these queues, or else by the queues where the jobs were last seen."""
        places = map(self.places.queue_of, ids) if queues is None else queues
        groups: dict[str, dict[str, None]] = {}
        for queue, job_id in zip(places, ids, strict=True):
            if queue is not None:
                groups.setdefault(queue, {})[job_id] = None
        return {queue: list(part) for queue, part in groups.items()}

    def read_in(self, queue: str, ids: Sequence[str], seen: dict[str, Seen]) -> int:
        """Add the jobs found in this queue to `seen`; return the clock."""
        now = 0
        for part in chunks(ids, SCRIPT_JOBS_MAX):
            clock, text, leaving = self.script("read", queue, *part)
            now = int(clock)
            found = {one.row.id: one for one in seen_in(text.decode(), queue, now)}
            seen.update(found)
            self.places.remember(queue, found)
            for target in self.deliver(queue, [job_id.decode() for job_id in leaving]):
                now = self.read_in(target, [job_id.decode() for job_id in leaving], seen)
        return now

    def first_each(self, wanted: Sequence[tuple[str, str, str]]) -> list[Seen | None]:
        """Return the first job for each queue, index and name in the index."""
        keys = self.server.keys
        calls = [self.server.script("first", keys.queue(queue), index, name, 1) for queue, index, name in wanted]
        found: list[Seen | None] = []
        for (queue, _, _), (clock, text) in zip(wanted, self.server.all(calls), strict=True):
            found.append(next(iter(seen_in(text.decode(), queue, int(clock))), None))
            self.places.remember(queue, [seen.row.id for seen in found[-1:] if seen])
        return found

    def settings_of(self, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Return the settings of these queues; defaults for a queue that has none."""
        return {queue: self._settings(queue) for queue in list(queues)}

    def _settings(self, queue: str) -> QueueSettings:
        return settings_in(queue, self.server.command("HGETALL", self.server.keys.queue(queue) + "settings"))

    # -- changes

    def compare_and_set(self, changes: Sequence[Change]) -> Results:
        """Apply each change whose job is unchanged since it was read."""
        results: dict[str, Result] = {}
        repeated = False
        for queue, group in grouped(changes, lambda change: change.seen.row.queue).items():
            for part in chunks(group, SCRIPT_JOBS_MAX):
                found, again = self._change_in(queue, part)
                results.update(zip((change.row.id for change in part), found, strict=True))
                repeated = repeated or again
        return Results([results[change.row.id] for change in changes], repeated)

    def _change_in(self, queue: str, changes: Sequence[Change]) -> tuple[list[Result], bool]:
        arguments: list[str] = []
        counts = [_counts(change) for change in changes]
        elsewhere = {change.row.queue for change in changes}.union(*counts) - {queue}
        cluster = self.server.address.cluster
        for target in elsewhere:
            self.places.list_queue(target)
        self.announce(after for (before, *_), after, *_ in changes if _found_by(before) != _found_by(after))
        self.list_expiring(after for (before, *_), after, *_ in changes if before.expires != after.expires)
        leaving: dict[str, list[str]] = {}
        for ((before, version, _), after, step, entry, _), counted in zip(changes, counts, strict=True):
            away, rev = after.queue if after.queue != queue else "", rev_of(version) + 1
            others = [other for other in counted if other != queue]
            leaving[before.id] = [before.id, *(f"{before.id}:{rev}:{other}" for other in others)]
            arguments += (
                before.id,
                version,
                state_text(after, rev),
                "" if body_text(before) == body_text(after) else body_text(after),
                "" if (apart_text(before), before.queue) == (apart := apart_text(after), after.queue) else apart,
                step or "",
                counted.get(queue, ""),
                self.server.keys.queue(away) if away else "",
                away if cluster else "",
                ROW.join(
                    FIELD.join((self.server.keys.queue(other), other if cluster else "", counted[other]))
                    for other in others
                ),
                *entry_texts(entry),
            )
        key = self.server.keys.queue(queue)
        answers, again = self.server.call(lambda again: (self.server.run("change", key, *arguments), again))
        found = [_RESULTS[answer] for answer in answers]
        for change in changes:
            self.places.remember(change.row.queue, [change.row.id])
        if elsewhere and cluster:
            done = [change.row.id for change, result in zip(changes, found, strict=True) if result is Result.DONE]
            self.deliver(queue, [name for job in done for name in leaving[job]])
        return found, again

    def announce(self, jobs: Iterable[JobRow | NewJob]) -> None:
        """Record where to find jobs that wait or belong to a flow, before they are stored."""
        calls: dict[tuple[object, ...], None] = {}
        of_flows: dict[str, set[str]] = {}
        keys = self.server.keys
        for job in jobs:
            if (slot := job.waits_for) is not None and slot.kind != ORDER:
                calls[("SADD", keys.slot(slot) + "queues", job.queue)] = None
            if job.flow_root is not None:
                of_flows.setdefault(job.flow_root, set()).add(f"{job.id}{FIELD}{job.queue}")
        if of_flows:
            now = self.now()
            listed = [part for root in of_flows for part in (now, root)]
            calls[("ZADD", keys.own("flows"), "NX", *listed)] = None
        for root, members in of_flows.items():
            calls[("ZADD", keys.flow(root) + "jobs", *(part for member in members for part in (0, member)))] = None
        self.server.all([Call(parts) for parts in calls])

    def list_expiring(self, rows: Iterable[JobRow]) -> None:
        """List live jobs that expire. A push does it itself; upkeep removes jobs from the list that do not expire."""
        for row in rows:
            if row.expires is not None and row.finished_at is None:
                self.server.command("ZADD", self.server.keys.queue(row.queue) + "overdue", expiry_of(row), row.id)

    def deliver(self, queue: str, ids: Sequence[str] | None = None) -> set[str]:
        """Deliver jobs and counters that are leaving the queue; return their target queues. `ids` None: all.

        A job leaves in one atomic step and arrives in another, on another node of a cluster. Any process that finds a
        job in transit delivers it: (1) it left, (2) it arrives, and the target queue stores an idempotency key, (3) the
        old queue forgets it. After a death in between, or a race of two processes, the key prevents a second arrival,
        even if the job is done by then; `maintain` deletes old keys.
        """
        if not self.server.address.cluster or ids == []:
            return set()
        leaving = self.server.keys.queue(queue) + "leaving"
        read = ("HVALS", leaving) if ids is None else ("HMGET", leaving, *ids)
        targets = set()
        for text in self.server.command(*read):
            if text is None:
                continue
            target, name, *rest = text.decode().split(FIELD)
            targets.add(target)
            self.places.list_queue(target)
            if len(rest) == 1:
                self.script("count", target, name, *rest)
            else:
                self.script("arrive", target, name, FIELD.join(rest[:STATE_FIELDS]), FIELD.join(rest[STATE_FIELDS:]))
                self.places.remember(target, [name])
            self.script("left", queue, name, text)
        return targets

    # -- the outbox

    def entries(self, before: int) -> Iterator[Entry]:
        """Return the stale outbox entries."""
        for queue in self.places.with_any(self.places.queues(), "outbox"):
            yield from (entry for entry in self.entries_of(queue) if is_stale(entry.written_at, before))

    def entries_of(self, queue: str) -> list[Entry]:
        """Return the outbox entries of a queue."""
        return _entries_in(queue, self.server.command("HGETALL", self.server.keys.queue(queue) + "outbox"))

    def delete_entries(self, entries: Sequence[Entry]) -> None:
        """Delete applied entries."""
        by_queue = grouped(entries, lambda entry: entry.queue).items()
        outboxes = ((self.server.keys.queue(queue) + "outbox", its) for queue, its in by_queue)
        self.server.all([Call(("HDEL", outbox, *(entry.key for entry in its))) for outbox, its in outboxes])


def _counts(change: Change) -> dict[str, str]:
    """Return what a change adds to the counters of queues, as the scripts take it, by queue."""
    found: dict[str, list[str]] = {}
    for queue, event, items in change.tallies():
        found.setdefault(queue, []).append(f"{event} {items}")
    return {queue: " ".join(texts) for queue, texts in found.items()}


def _found_by(row: JobRow) -> tuple[str | Slot | None, ...]:
    return row.queue, row.waits_for, row.flow_root


def entry_texts(entry: Entry | None) -> tuple[str, str]:
    """Return an outbox entry in the form the scripts take: its key, and the rest."""
    return ("", "") if entry is None else (entry.key, FIELD.join((str(entry.written_at), entry.job, entry.text)))


def _entries_in(queue: str, stored: Mapping[bytes, bytes]) -> list[Entry]:
    entries = ((key.decode(), *text.decode().split(FIELD, 2)) for key, text in stored.items())
    return [Entry(key, int(written_at), queue, job, text) for key, written_at, job, text in entries]
