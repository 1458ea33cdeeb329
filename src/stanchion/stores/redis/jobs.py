"""What every part of the Redis store works with: the keys, and which queue a job is in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from stanchion.stores.cas.mixins.jobs import Change, Duty, Seen, Swap, Swapped
from stanchion.stores.cas.mixins.staging import Publishing
from stanchion.stores.records.jobs import SECOND, JobRow, NewJob
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.redis.client.rows import FIELD, STATE_FIELDS, body_text, rev_of, seen_in, state_text
from stanchion.stores.redis.client.server import Call, Server
from stanchion.stores.redis.values import Values
from stanchion.stores.redis.wakeup import StreamSignals
from stanchion.stores.rules.slots import is_node_gate, semaphore_of

T = TypeVar("T")

_REMEMBERED = 65_536
_AT_ONCE = 2000
"""Jobs per call of a script: for so long nobody else is served."""


class RedisBase(Publishing):
    """Jobs as they are seen and swapped, by scripts of one queue each."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._values = Values(server)
        self._queue_of: dict[str, str] = {}
        self._listed: set[str] = set()
        self.signals = StreamSignals(server, self.key)

    # -- keys

    def key(self, queue: str) -> str:
        """Return how the keys of a queue begin; the braces put them all in one slot of a cluster."""
        return f"{self.server.address.prefix}:{_tag(queue)}:"

    def gate_key(self, gate: str) -> str:
        """Return how the keys of a gate begin."""
        return f"{self.server.address.prefix}:gate:{_tag(gate)}:"

    def flow_key(self, node: str) -> str:
        """Return how the keys of a part of a flow begin; those of its root are also those of the whole."""
        return f"{self.server.address.prefix}:flow:{_tag(node)}:"

    def stage_key(self, write: str) -> str:
        """Return how the keys of what is staged under a write begin."""
        return f"{self.server.address.prefix}:stage:{_tag(write)}:"

    def own_key(self, name: str) -> str:
        """Return a key that belongs to no queue."""
        return f"{self.server.address.prefix}:{name}"

    def script(self, name: str, queue: str, *arguments: Any) -> Any:
        """Run a script on a queue; a repeat must do no harm."""
        return self.server.call(lambda _again: self.server.run(name, self.key(queue), *arguments))

    def queue_names(self) -> list[str]:
        """Return the names of all queues."""
        found = self.server.command("SMEMBERS", self.own_key("queues"))
        return sorted(name.decode() for name in found)

    def list_queue(self, queue: str, *, anew: bool = False) -> None:
        """Make sure that the queue is among those that recovery and upkeep look at."""
        if anew or queue not in self._listed:
            listed = self.own_key("queues")
            # A full server refuses SADD, also of what is there.
            if not self.server.command("SISMEMBER", listed, queue):
                self.server.command("SADD", listed, queue)
            self._listed.add(queue)

    def unlist_queue(self, queue: str) -> None:
        """Have a queue that was deleted not be looked at any more, unless it has been made again meanwhile."""
        self._listed.discard(queue)
        self.server.command("SREM", self.own_key("queues"), queue)
        if self.server.command("EXISTS", self.key(queue) + "settings"):
            self.list_queue(queue, anew=True)

    def enlist(self, name: str, *members: str, at: int | None = None, known: bool = False) -> Call:
        """Return a call that notes names in a sorted set, at a moment (None: now), be the server full.

        `known`: only those that are there already.
        """
        moment = "" if at is None else at
        return self.server.script("enlist", self.own_key(name), moment, "1" if known else "", *members)

    def announce(self, jobs: Iterable[JobRow | NewJob]) -> None:
        """Note, before they are stored, where jobs are to be looked for that wait, or are part of a flow."""
        calls: dict[tuple[Any, ...], None] = {}
        of_flows: dict[str, set[str]] = {}
        for job in jobs:
            if job.waits_for is not None and (is_node_gate(job.waits_for) or semaphore_of(job.waits_for) is not None):
                calls[("SADD", self.gate_key(job.waits_for) + "queues", job.queue)] = None
            if job.flow is not None:
                of_flows.setdefault(job.flow.partition(":")[0], set()).add(f"{job.id}{FIELD}{job.queue}")
        if of_flows:
            now = self.now()
            listed = [part for root in of_flows for part in (now, root)]
            calls[("ZADD", self.own_key("flows"), "NX", *listed)] = None
        for root, members in of_flows.items():
            calls[("ZADD", self.flow_key(root) + "jobs", *(part for member in members for part in (0, member)))] = None
        self.server.all([Call(parts) for parts in calls])

    # -- where jobs are

    def remember(self, queue: str, ids: Iterable[str]) -> None:
        """Note which queue these jobs are in; a wrong note costs a search, no more."""
        self._queue_of.update(dict.fromkeys(ids, queue))
        if len(self._queue_of) > _REMEMBERED:
            for job_id in list(islice(self._queue_of, len(self._queue_of) // 2)):
                self._queue_of.pop(job_id, None)

    def by_queue(self, ids: Iterable[str]) -> dict[str | None, list[str]]:
        """Group ids by the queue that they were seen in last; None for those never seen."""
        groups: dict[str | None, list[str]] = {}
        for job_id in ids:
            groups.setdefault(self._queue_of.get(job_id), []).append(job_id)
        return groups

    def look(self, ids: Sequence[str]) -> tuple[int, dict[str, Seen]]:
        seen: dict[str, Seen] = {}
        now = None
        wanted = list(dict.fromkeys(ids))
        for queue, part in self.by_queue(wanted).items():
            if queue is not None:
                now = self.look_in(queue, part, seen)
        missing = [job_id for job_id in wanted if job_id not in seen]
        for queue in self.queue_names() if missing else ():
            now = self.look_in(queue, missing, seen)
            missing = [job_id for job_id in missing if job_id not in seen]
            if not missing:
                break
        return self.now() if now is None else now, seen

    def look_in(self, queue: str, ids: Sequence[str], seen: dict[str, Seen]) -> int:
        """Add those of the jobs that are in this queue; return the clock."""
        now = 0
        for part in portions(ids, _AT_ONCE):
            clock, text, leaving = self.script("look", queue, *part)
            now = int(clock)
            found = {one.row.id: one for one in seen_in(text.decode(), queue)}
            seen.update(found)
            self.remember(queue, found)
            for target in self.deliver(queue, [job_id.decode() for job_id in leaving]):
                now = self.look_in(target, [job_id.decode() for job_id in leaving], seen)
        return now

    # -- changes

    def swap(self, changes: Sequence[Change]) -> Swapped:
        swaps: dict[str, Swap] = {}
        repeated = False
        by_queue: dict[str, list[Change]] = {}
        for change in changes:
            by_queue.setdefault(change.seen.row.queue, []).append(change)
        for queue, group in by_queue.items():
            for part in portions(group, _AT_ONCE):
                found, again = self._swap_in(queue, part)
                swaps.update(zip((change.row.id for change in part), found, strict=True))
                repeated = repeated or again
        return Swapped([swaps[change.row.id] for change in changes], repeated)

    def _swap_in(self, queue: str, changes: Sequence[Change]) -> tuple[list[Swap], bool]:
        arguments: list[str] = []
        elsewhere = {change.row.queue for change in changes} - {queue}
        for target in elsewhere:
            self.list_queue(target)
        self.announce(after for (before, _), after, _, _ in changes if _stands(before) != _stands(after))
        for (before, version), after, counted, duty in changes:
            away = after.queue if after.queue != queue else ""
            arguments += (
                before.id,
                version,
                state_text(after, rev_of(version) + 1),
                "" if body_text(before) == body_text(after) else body_text(after),
                counted or "",
                self.key(away) if away else "",
                away if self.server.address.cluster else "",
                *duty_texts(duty),
            )
        answers, again = self.server.call(lambda again: (self.server.run("swap", self.key(queue), *arguments), again))
        found = [_SWAPS[answer] for answer in answers]
        done = [change.row.id for change, swap in zip(changes, found, strict=True) if swap is Swap.DONE]
        for change in changes:
            self.remember(change.row.queue, [change.row.id])
        if elsewhere and self.server.address.cluster:
            self.deliver(queue, done)
        return found, again

    def deliver(self, queue: str, ids: Sequence[str] | None = None) -> set[str]:
        """Bring jobs that are leaving the queue to theirs, and return those queues. None: all that are leaving.

        A job leaves in one atomic step and arrives in another, on another node of a cluster. Whoever comes upon
        one on its way takes it there: (1) it left, (2) it arrives, and the new queue marks that, (3) the old queue
        forgets it. After a death between any two of them, or a race of two who bring it, the mark tells a second
        arrival from the first, also when the job is done by then; `maintain` clears old marks.
        """
        if not self.server.address.cluster or ids == []:
            return set()
        leaving = self.key(queue) + "leaving"
        read = ("HVALS", leaving) if ids is None else ("HMGET", leaving, *ids)
        targets = set()
        for text in self.server.command(*read):
            if text is None:
                continue
            target, job_id, *rest = text.decode().split(FIELD)
            targets.add(target)
            self.list_queue(target)
            self.script("arrive", target, job_id, FIELD.join(rest[:STATE_FIELDS]), FIELD.join(rest[STATE_FIELDS:]))
            self.script("left", queue, job_id, text)
            self.remember(target, [job_id])
        return targets

    # -- settings and workers

    def settings_of(self, queues: Iterable[str]) -> dict[str, QueueSettings]:
        names = list(queues)
        return {queue: self._settings(queue) for queue in names}

    def _settings(self, queue: str) -> QueueSettings:
        found = self.server.command("HGETALL", self.key(queue) + "settings")
        return settings_in(queue, found)

    def now(self) -> int:
        seconds, micros = self.server.time()
        return seconds * SECOND + micros + int(self.server.skew * SECOND)


def _tag(name: str) -> str:
    """Return a name in braces, and with none in it."""
    escaped = name.replace("%", "%25").replace("}", "%7D")
    return f"{{{escaped}}}"


def _stands(row: JobRow) -> tuple[str | None, ...]:
    return row.queue, row.waits_for, row.flow


def duty_texts(duty: Duty | None) -> tuple[str, str]:
    """Return a duty as the scripts take it: its mark, and the rest; `duties_in` reads them."""
    return ("", "") if duty is None else (duty.mark, FIELD.join((str(duty.noted_at), duty.job, duty.text)))


def duties_in(queue: str, stored: Mapping[bytes, bytes]) -> list[Duty]:
    """Return the duties of a queue."""
    noted = ((mark.decode(), *text.decode().split(FIELD, 2)) for mark, text in stored.items())
    return [Duty(mark, int(noted_at), queue, job, text) for mark, noted_at, job, text in noted]


_SWAPS = (Swap.CHANGED, Swap.DONE, Swap.KEY_TAKEN)


def portions(items: Sequence[T], most: int) -> list[Sequence[T]]:
    """Return the items in parts of at most `most`."""
    return [items[first : first + most] for first in range(0, len(items), most)]


_DECLARED = "declared "
"""So begin the names of what the code has declared; its values are JSON."""


def stored_setting(name: str, value: Any) -> list[str]:
    """Return a setting as it is stored: its name, and its value; or several of them."""
    if name == "declared":
        return [text for one, its in value.items() for text in (_DECLARED + one, json.dumps(its))]
    if value is None:
        return [name, ""]
    return [name, str(int(value)) if isinstance(value, bool) else str(value)]


def settings_in(queue: str, stored: Mapping[bytes, bytes]) -> QueueSettings:
    """Return the settings in the hash of a queue."""
    given = {name: kind(stored[name.encode()].decode()) for name, kind in _KINDS.items() if name.encode() in stored}
    declared = {name: value for name, value in stored.items() if name.startswith(_DECLARED.encode())}
    read = {name.decode().removeprefix(_DECLARED): json.loads(value) for name, value in declared.items()}
    return QueueSettings(queue, **given, declared=read)


def _unless_empty(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: kind(text) if text else None


_KINDS: dict[str, Callable[[str], Any]] = {
    "paused": lambda text: text == "1",
    "max_rate": _unless_empty(float),
    "max_running": _unless_empty(int),
    "lanes": int,
    "lanes_per_tenant": int,
    "history_ttl": float,
    "dead_letter": _unless_empty(str),
    "lease": float,
    "laned": lambda text: text == "1",
    "expires": _unless_empty(float),
    "expires_with_jobs": lambda text: text == "1",
}
