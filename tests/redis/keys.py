"""The keys of a queue against each other: a change that was made by half shows here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stanchion.stores.redis.client.layout import FIELD, STATE
from stanchion.stores.redis.store import RedisStore


def broken_rules(store: RedisStore, queue: str) -> list[str]:
    """Return every rule of prelude.lua that the keys of the queue break; empty when all is well."""
    return list(_Keys(store, queue).broken())


class _Keys:
    """All that a queue has, as it is stored."""

    def __init__(self, store: RedisStore, queue: str) -> None:
        self._client, self._prefix = store.server.client, store.server.keys.queue(queue)
        self.live = {job: _fields(text) for job, text in self._hash("live").items()}
        self.past = {job: _fields(text) for job, text in self._hash("past").items()}
        self.body, self.keys = set(self._hash("body")), self._hash("keys")
        self.ids, self.ended, self.letters = self._zset("ids"), self._zset("ended"), set(self._zset("letters"))
        self.stopping, self.chunks = self._set("stopping"), self._set("chunks")
        self.leases = self._zset("leases")
        self.running, self.orders, self.waits = (
            {tuple(one.split(FIELD)) for one in self._zset(name)} for name in ("running", "orders", "waits")
        )
        self.ready = {name: self._zset(f"ready:{name}") for name in self._zset("ready")}
        self.counts = {name: int(number) for name, number in self._hash("counts").items()}

    def broken(self) -> Iterator[str]:
        queued = {job: fields for job, fields in self.live.items() if fields["state"] == "queued"}
        running = {job: fields for job, fields in self.live.items() if fields["state"] == "running"}
        jobs = self.live.keys() | self.past.keys()
        listed = {job: (name, due) for name, entries in self.ready.items() for job, due in entries.items()}

        yield from _unequal("jobs and bodies", jobs, self.body)
        yield from _unequal("jobs and ids", jobs, self.ids.keys())
        yield from _unequal(
            "dead letters",
            {job for job, fields in (self.live | self.past).items() if fields["dead_from"]},
            self.letters,
        )
        yield from _unequal("live and finished jobs in common", self.live.keys() & self.past.keys(), set())
        yield from _unequal(
            "queued jobs and ready lists",
            {
                (job, f"{int(fields['lane']):05}:{5000 - int(fields['rank']):05}", float(fields["run_at"]))
                for job, fields in queued.items()
            },
            {(job, name, due) for job, (name, due) in listed.items()},
        )
        yield from _unequal(
            "order keys",
            {
                (fields["order_key"], fields["enqueued_at"].zfill(20), job)
                for job, fields in self.live.items()
                if fields["order_key"]
            },
            self.orders,
        )
        yield from _unequal(
            "waiting jobs",
            {
                (fields["waits_for"], fields["waits_since"].zfill(20), job)
                for job, fields in self.live.items()
                if fields["state"] == "waiting"
            },
            self.waits,
        )
        yield from _unequal("ready lists in use", {name for name, entries in self.ready.items() if not entries}, set())
        yield from _unequal(
            "running jobs",
            {("" if fields["lease_until"] else fields["worker"], job) for job, fields in running.items()},
            self.running,
        )
        yield from _unequal(
            "leases",
            {(job, float(fields["lease_until"])) for job, fields in running.items() if fields["lease_until"]},
            set(self.leases.items()),
        )
        yield from _unequal(
            "stopping", {job for job, fields in running.items() if fields["cancel_requested"]}, self.stopping
        )
        yield from _unequal("chunks", {job for job, fields in self.live.items() if fields["items"]}, self.chunks)
        yield from _unequal(
            "unique keys",
            {(fields["key"], job) for job, fields in self.live.items() if fields["key"]},
            set(self.keys.items()),
        )
        yield from _unequal(
            "ends", {(job, float(fields["finished_at"])) for job, fields in self.past.items()}, set(self.ended.items())
        )

    def _hash(self, name: str) -> dict[str, str]:
        found = self._client.hgetall(self._prefix + name)
        return {field.decode(): value.decode() for field, value in found.items()}

    def _set(self, name: str) -> set[str]:
        return {member.decode() for member in self._client.smembers(self._prefix + name)}

    def _zset(self, name: str) -> dict[str, float]:
        return {
            member.decode(): score for member, score in self._client.zrange(self._prefix + name, 0, -1, withscores=True)
        }


def _fields(text: str) -> dict[str, str]:
    return dict(zip(STATE, text.split(FIELD), strict=True))


def _unequal(what: str, some: Any, others: Any) -> Iterator[str]:
    if different := set(some) ^ set(others):
        yield f"{what}: {len(different)} differ, such as {sorted(map(str, different))[:3]}"
