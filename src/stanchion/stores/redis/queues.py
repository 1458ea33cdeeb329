"""Queues in Redis: settings, figures, removal, and the use of expiring queues, stored with the settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from stanchion.stores.cas.chunks import chunks
from stanchion.stores.cas.entries import FollowUp
from stanchion.stores.cas.jobs import Decision, Facts, JobLoop
from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.records.outcomes import Abandon
from stanchion.stores.records.queues import Counts, Head, QueueSettings, QueueStats, Sizes, Stat
from stanchion.stores.redis.client.places import Places
from stanchion.stores.redis.client.rows import is_bound
from stanchion.stores.redis.client.schema import Schema
from stanchion.stores.redis.client.server import Call, Server
from stanchion.stores.redis.client.settings import settings_in, stored_setting
from stanchion.stores.redis.jobs import Jobs
from stanchion.stores.rules.lifecycle import outcomes as outcome_rules
from stanchion.stores.rules.lifecycle.jobs import items_of_all
from stanchion.stores.rules.query import counts_states, stats_in
from stanchion.stores.rules.upkeep import Expiring, Use

_AT_ONCE = 500
_LOOKED_AT = 1000

_EXPIRING = "expiring"
"""The list of queues that may have `expires`."""

_LISTED_MICROS = 60 * SECOND
"""Minimum microseconds that a queue stays listed."""

_CLEARED_USE = ("active_events", "", "active_at", "")
"""Settings to clear so that the expiry of a queue starts again."""


class Queues:
    """Makes, configures and removes queues."""

    def __init__(self, jobs: Jobs, loop: JobLoop, follow_up: FollowUp) -> None:
        self._jobs, self._server, self._keys = jobs, jobs.server, jobs.server.keys
        self._loop, self._follow_up = loop, follow_up
        self._knows_expiring = False
        self._schema = Schema(jobs.server)
        self._lapsing: set[str] = set()
        """Queues whose keys had a TTL at the last look."""
        self.now = jobs.now

    def configure(self, queue: str, changes: Mapping[str, object]) -> QueueSettings:
        """Make the queue if missing, apply the changes, return its settings."""
        self._jobs.places.list_queue(queue, again=True)
        if changes.get("expires") is not None:
            self._server.all([self._server.enlist(_EXPIRING, queue)])
        given = [text for name, value in changes.items() for text in stored_setting(name, value)]
        given += _CLEARED_USE if "expires" in changes else ()
        flat = self._jobs.script("configure", queue, *given)
        return settings_in(queue, dict(zip(flat[::2], flat[1::2], strict=True)))

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        """Return the settings of queues, by name: of all, or of the known ones among `names`."""
        listed = self._keys.own("queues")
        wanted = self._jobs.places.queues() if names is None else sorted(set(names))
        asked = [Call(("SISMEMBER", listed, name)) for name in wanted] if names is not None else []
        found = self._server.all([*asked, *(Call(("HGETALL", self._keys.queue(name) + "settings")) for name in wanted)])
        there = found[: len(asked)] or [1] * len(wanted)
        each = zip(wanted, there, found[len(asked) :], strict=True)
        # The keys of a queue may have lapsed, and its name be listed still.
        return [settings_in(name, stored) for name, known, stored in each if known and stored]

    def drop_queue(self, queue: str) -> int:
        """Delete the queue with its live jobs, history and counts; return the number of live jobs."""
        ended = len(self._end_bound(queue))
        jobs = self._jobs.script("delete", queue)
        self._jobs.places.unlist_queue(queue)
        return ended + int(jobs)

    def purge(self, queue: str, older_than: float | None = None, limit: int = 500) -> int:
        """Delete up to `limit` finished jobs that ended over `older_than` seconds ago (None: the queue's TTL)."""
        return int(self._jobs.script("purge", queue, "" if older_than is None else older_than, limit))

    # -- expiring queues

    def expiring(self) -> list[Expiring]:
        """Return the queues that have `expires`. The first call of a process reads all, later ones those listed."""
        listed = [name.decode() for name in self._server.command("ZRANGE", self._keys.own(_EXPIRING), 0, -1)]
        names = listed if self._knows_expiring else self._jobs.places.queues()
        found = [one for part in chunks(names, _AT_ONCE) for one in self._expiring_of(part)]
        expire = {one.settings.name for one in found}
        calls = [self._server.enlist(_EXPIRING, *(expire - {*listed}))] if expire - {*listed} else []
        if others := sorted({*listed} - expire):  # one that is given an expiry now is listed again before
            self._forget_lapsed(others)
            old = self._server.now() - _LISTED_MICROS
            calls.append(self._server.script("unlist", self._keys.own(_EXPIRING), old, *others))
        self._server.all(calls)
        self._lapse([one.settings.name for one in found if one.settings.name not in self._lapsing])
        self._knows_expiring = True
        return found

    def _lapse(self, names: Sequence[str]) -> None:
        """Give the keys of the idle ones among these queues a TTL; see the script `lapse`."""
        if names and self._schema.may_lapse():
            self._server.all([self._server.script("lapse", self._keys.queue(name)) for name in names])

    def _forget_lapsed(self, names: Sequence[str]) -> None:
        """Unlist the queues whose keys have expired."""
        there = self._server.all([Call(("EXISTS", self._keys.queue(name) + "settings")) for name in names])
        for name, exists in zip(names, there, strict=True):
            if not exists:
                self._jobs.places.unlist_queue(name)

    def _expiring_of(self, names: Sequence[str]) -> list[Expiring]:
        asked = [Call(("HGET", self._keys.queue(name) + "settings", "expires")) for name in names]
        wanted = [name for name, expires in zip(names, self._server.all(asked), strict=True) if expires]
        read = [
            Call((command, self._keys.queue(name) + key))
            for name in wanted
            for command, key in (("HGETALL", "settings"), ("HVALS", "counts"))
        ]
        found = []
        self._lapsing.difference_update(names)
        for name, (stored, counts) in zip(wanted, chunks(self._server.all(read), 2), strict=True):
            fields = stored if isinstance(stored, dict) else dict(zip(stored[::2], stored[1::2], strict=True))
            events, at = fields.get(b"active_events"), fields.get(b"active_at")
            recorded = Use(int(events), int(at)) if events and at else None
            if fields.get(b"lapses_at"):
                self._lapsing.add(name)
            found.append(Expiring(settings_in(name, fields), sum(map(int, counts)), recorded))
        return found

    def note_use(self, queue: str, use: Use) -> None:
        """Store the use of a queue."""
        self._jobs.script("use", queue, use.events, use.at)

    def remove_unused(self, settings: QueueSettings, recorded: Use) -> None:
        """Remove a queue, unless an event happened since `recorded`."""
        queue, with_jobs = settings.name, settings.expires_with_jobs
        ended = 0
        if with_jobs:
            seen = Use(sum(one.events for one in self._expiring_of([queue])), recorded.at)
            if self._runs(queue) or seen != recorded:
                return
            ended = items_of_all(self._end_bound(queue, recorded.at))
        if self._jobs.script("remove", queue, recorded.events, recorded.at, ended, "1" if with_jobs else ""):
            self._jobs.places.unlist_queue(queue)

    def _runs(self, queue: str) -> bool:
        return bool(self._server.command("ZCARD", self._keys.queue(queue) + "running"))

    def _end_bound(self, queue: str, before: int | None = None) -> list[JobRow]:
        """Cancel the jobs that use slots, belong to flows or are chunks, with all consequences; return them.

        `before`: only jobs stored by then that do not run.
        """

        def decide(_index: int, row: JobRow | None, facts: Facts) -> Decision[JobRow | None]:
            if row is None or row.queue != queue or row.finished_at is not None:
                return Decision(None)
            if before is not None and (row.enqueued_at > before or row.state == JobState.RUNNING):
                return Decision(None)
            step = outcome_rules.settled(row, Abandon(row.lease), facts.settings[queue], facts.now)
            return Decision(row, step.row, step.counted)

        ended, cursor = list[JobRow](), b"0"
        while True:
            cursor, found = self._server.command("HSCAN", self._keys.queue(queue) + "live", cursor, "COUNT", _LOOKED_AT)
            bound = [job_id.decode() for job_id, state in found.items() if is_bound(state.decode())]
            self._jobs.places.remember(queue, bound)
            ended += [row for row in self._loop.decide_each(bound, decide) if row is not None]
            if int(cursor) == 0:
                break
        self._follow_up(self._jobs.entries_of(queue))
        return ended


_FEW = 4
"""Number of queues from which it pays to ask first which of them have live jobs."""


class Stats:
    """Counts jobs: several queues in one round trip, all queues without jobs by one command."""

    def __init__(self, server: Server, places: Places) -> None:
        self._server, self._places, self._key = server, places, server.keys.queue

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        """Return the figures of these queues, only the fields named."""
        asked = [one for one in _READ if one in fields or (one == "states" and counts_states(fields))]
        names = list(dict.fromkeys(queues))
        alone = len(names) < _FEW or self._server.address.cluster or asked == ["totals"]
        busy = set(names if alone else self._places.with_any(names, "live"))
        wanted = [(queue, field) for queue in names for field in asked if field == "totals" or queue in busy]
        found: dict[str, dict[str, Any]] = {queue: {} for queue in names}
        answers = self._server.all([self._call(field, queue) for queue, field in wanted])
        for (queue, field), answer in zip(wanted, answers, strict=True):
            found[queue][field] = _READ[field](answer)
        stats = dict[str, QueueStats]()
        for queue, figures in found.items():
            jobs, more = (figures.pop(name, Sizes()) for name in ("states", "items"))
            stats[queue] = stats_in(jobs, more, fields)._replace(**figures)
        return stats

    def _call(self, field: Stat, queue: str) -> Call:
        key = self._key(queue)
        if field == "totals":
            return Call(("HGETALL", f"{key}counts"))
        if field == "chunks":
            return Call(("SCARD", f"{key}chunks"))
        return self._server.script("sizes" if field == "states" else field, key)

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        """Count the queued jobs of these lanes (None: of all), each up to `at_most`."""
        wanted = ("all",) if lanes is None else ("", *lanes)
        (found,) = self._server.all([self._server.script("depths", self._key(queue), at_most, *wanted)])
        return {lane: depth for lane, depth in zip(found[::2], found[1::2], strict=True) if depth}


def _sizes(answer: Sequence[int]) -> Sizes:
    total, ready, scheduled, running = answer
    return Sizes(total, ready, scheduled, total - ready - scheduled - running, running)


def _counts(answer: dict[bytes, bytes] | list[bytes]) -> Counts:
    pairs = answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)
    return Counts(**{name.decode(): int(number) for name, number in pairs})


def _due(answer: bytes | int) -> int | None:
    return int(answer) if answer else None


def _heads(answer: Sequence[bytes]) -> tuple[Head, ...]:
    now, *pairs = answer
    found = []
    for name, run_at in zip(pairs[::2], pairs[1::2], strict=True):
        lane, rank = name.decode().split(":")
        found.append(Head(int(lane), _TOP - int(rank), int(run_at), int(run_at) - int(now)))
    return tuple(found)


_TOP = 5000
"""A ready list is named by its lane, and by this minus its rank."""

_READ: dict[Stat, Callable[[Any], Any]] = {
    "states": _sizes,
    "items": _sizes,
    "chunks": int,
    "totals": _counts,
    "next_due": _due,
    "heads": _heads,
}
