"""Queues that expire, in Redis: their use is noted beside their settings."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.cas.mixins.flows import Following
from stanchion.stores.cas.mixins.jobs import Context, Decision
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.outcomes import Abandon
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.redis.client.rows import is_bound
from stanchion.stores.redis.client.server import Call
from stanchion.stores.redis.jobs import portions, settings_in
from stanchion.stores.redis.slots import Gating
from stanchion.stores.rules import outcomes as outcome_rules
from stanchion.stores.rules.expiry import Expiring, Use

_AT_ONCE = 500
_LOOKED_AT = 1000

FORGOTTEN_USE = ("active_events", "", "active_at", "")
"""Settings with which the time of a queue begins again."""


class ExpiringQueues(Gating, Following):
    """Notes when queues were used, and removes those that were not."""

    def expiring(self) -> list[Expiring]:
        """Return the queues that expire."""
        return [one for names in portions(self.queue_names(), _AT_ONCE) for one in self._expiring_of(names)]

    def _expiring_of(self, names: Sequence[str]) -> list[Expiring]:
        asked = [Call(("HGET", self.key(name) + "settings", "expires")) for name in names]
        wanted = [name for name, expires in zip(names, self.server.all(asked), strict=True) if expires]
        read = [
            Call((command, self.key(name) + key))
            for name in wanted
            for command, key in (("HGETALL", "settings"), ("HVALS", "counts"))
        ]
        found = []
        for name, (stored, counts) in zip(wanted, portions(self.server.all(read), 2), strict=True):
            fields = stored if isinstance(stored, dict) else dict(zip(stored[::2], stored[1::2], strict=True))
            events, at = fields.get(b"active_events"), fields.get(b"active_at")
            noted = Use(int(events), int(at)) if events and at else None
            found.append(Expiring(settings_in(name, fields), sum(map(int, counts)), noted))
        return found

    def note_use(self, queue: str, use: Use) -> None:
        """Note the use of a queue."""
        self.script("use", queue, use.events, use.at)

    def remove_unused(self, settings: QueueSettings, noted: Use) -> None:
        """Remove a queue, unless anything has happened since this was noted."""
        queue, with_jobs = settings.name, settings.expires_with_jobs
        ended = 0
        if with_jobs:
            seen = Use(sum(one.events for one in self._expiring_of([queue])), noted.at)
            if self._runs(queue) or seen != noted:
                return
            ended = self.end_bound(queue, noted.at)
        if self.script("remove", queue, noted.events, noted.at, ended, "1" if with_jobs else ""):
            self.unlist_queue(queue)

    def _runs(self, queue: str) -> bool:
        return bool(self.server.command("SCARD", self.key(queue) + "running"))

    def end_bound(self, queue: str, before: int | None = None) -> int:
        """Cancel the jobs that gates or flows know, with all that this entails; return how many they were.

        `before`: only those that were stored by then, and do not run.
        """

        def decide(_index: int, row: JobRow | None, context: Context) -> Decision[bool]:
            if row is None or row.queue != queue or row.finished_at is not None:
                return Decision(False)
            if before is not None and (row.enqueued_at > before or row.state == JobState.RUNNING):
                return Decision(False)
            step = outcome_rules.settled(row, Abandon(row.id, row.token or ""), context.settings[queue], context.now)
            return Decision(True, step.row, step.counted)

        ended, cursor = 0, b"0"
        while True:
            cursor, found = self.server.command("HSCAN", self.key(queue) + "live", cursor, "COUNT", _LOOKED_AT)
            bound = [job_id.decode() for job_id, state in found.items() if is_bound(state.decode())]
            self.remember(queue, bound)
            ended += sum(self.decide_each(bound, decide))
            if int(cursor) == 0:
                break
        self.follow_up(self.duties_of(queue))
        return ended
