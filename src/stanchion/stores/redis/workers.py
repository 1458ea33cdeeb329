"""Workers in Redis: hashes of their descriptions, of the jobs they have begun, and of their times."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from stanchion.stores.cas.chunks import chunks
from stanchion.stores.records.workers import LEASES_SEARCHED_MAX, Beat, WorkerRow
from stanchion.stores.redis.client.layout import FIELD
from stanchion.stores.redis.client.server import Call
from stanchion.stores.redis.jobs import Jobs
from stanchion.stores.rules.leases.liveness import Leased, alive, beat_of, holders_of, orphaned_since
from stanchion.stores.rules.leases.serving import lanes_in
from stanchion.stores.rules.times import times_in, times_text

_DESCRIBED = ("id", "host", "pid", "queues", "threads", "heartbeat", "state", "lanes", "order")
_AT_ONCE = 500
"""Queues or holders in one round trip."""


class _Lost(NamedTuple):
    """Running jobs that may be lost: queue, number, and the command, index and bounds to read them."""

    queue: str
    jobs: int
    read: tuple[Any, ...]


class Workers:
    """Records workers, and finds the running jobs of dead ones."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs, self._server = jobs, jobs.server

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        """Record that these workers are alive; return the number of live workers, and the callers' jobs to cancel."""
        # In separate hashes, as earlier releases parse the row; written first, so that no job begins unrecorded.
        began = {worker.id: "" if worker.began is None else json.dumps(worker.began) for worker in workers}
        self._run("began", "began", began)
        self._run("began", "times", {worker.id: times_text(worker.times) or "" for worker in workers})
        clock, stored = self._run("beat", "workers", {worker.id: _described(worker) for worker in workers})
        return beat_of(workers, [_worker_in(one) for one in stored], self._asked_to_stop(workers), int(clock))

    def _run(self, script: str, name: str, texts: Mapping[str, str]) -> Any:
        arguments = [text for one in texts.items() for text in one]
        return self._server.call(lambda _again: self._server.run(script, self._server.keys.own(name), *arguments))

    def _asked_to_stop(self, workers: Sequence[WorkerRow]) -> list[str]:
        asked: list[str] = []
        served = list(dict.fromkeys(queue for worker in workers for queue in worker.queues))
        queues = self._jobs.places.with_any(served, "stopping")
        sets = self._server.all([Call(("SMEMBERS", self._server.keys.queue(queue) + "stopping")) for queue in queues])
        for queue, found in zip(queues, sets, strict=True):
            self._jobs.places.remember(queue, ids := [job_id.decode() for job_id in found])
            asked += ids
        if not asked:
            return []
        mine = {worker.id for worker in workers}
        rows = (seen.row for seen in self._jobs.read(asked)[1].values())
        return [row.id for row in rows if row.cancel_requested and row.worker in mine and row.lease_until is None]

    def leave(self, worker: str) -> None:
        """Forget a worker that holds no jobs any more."""
        self._server.command("HDEL", self._server.keys.own("workers"), worker)
        self._server.command("HDEL", self._server.keys.own("began"), worker)
        self._server.command("HDEL", self._server.keys.own("times"), worker)

    def workers(self, *, holders: bool = False) -> list[WorkerRow]:
        """Return all known workers, late ones included, with their numbers of running jobs; then holders of leases."""
        running = Counter[str]()
        for _, worker, jobs in self._holders():
            running[worker] += jobs
        rows = sorted(self.known_workers().values(), key=lambda worker: (worker.started_at, worker.id))
        times = self._server.command("HGETALL", self._server.keys.own("times"))
        known = [
            replace(worker, running=running[worker.id], times=times_in(times.get(worker.id.encode())))
            for worker in rows
        ]
        return known + holders_of(self._leased()) if holders else known

    def known_workers(self) -> dict[str, WorkerRow]:
        """Return all workers that have a row, by id."""
        found = self._server.command("HVALS", self._server.keys.own("workers"))
        began = self._server.command("HGETALL", self._server.keys.own("began"))
        workers = {worker.id: worker for worker in map(_worker_in, found)}
        for name, listed in began.items():
            if (worker := workers.get(name.decode())) is not None:
                workers[worker.id] = replace(worker, began=tuple(json.loads(listed)))
        return workers

    def seen_now(self, workers: Sequence[WorkerRow]) -> None:
        """Record a heartbeat of these workers, in the same state."""
        self._run("beat", "workers", {worker.id: _described(worker) for worker in workers})

    def leased(self, now: int) -> list[str]:
        """Return the ids of running jobs whose lease ends after this time, up to LEASES_SEARCHED_MAX."""
        read = ("ZRANGEBYSCORE", "leases", f"({now}", "+inf")
        found = self._of_each_queue("leases", lambda keys: Call(("ZCOUNT", keys + "leases", f"({now}", "+inf")))
        return self._some((_Lost(queue, jobs, read) for queue, jobs in found), LEASES_SEARCHED_MAX)

    def suspects(self, workers: Mapping[str, WorkerRow], now: int, limit: int) -> list[str]:
        """Return the ids of up to `limit` running jobs whose holder may be gone, jobs of unknown workers last."""
        expired = self._of_each_queue("leases", lambda keys: Call(("ZCOUNT", keys + "leases", "-inf", now)))
        gone = [_Lost(queue, jobs, ("ZRANGEBYSCORE", "leases", "-inf", now)) for queue, jobs in expired]
        unknown: list[tuple[str, str]] = []
        for queue, worker, jobs in self._holders():
            if worker and worker not in workers:
                unknown.append((queue, worker))
            elif worker and not alive(workers[worker], now):
                gone.append(_Lost(queue, jobs, ("ZRANGEBYLEX", "running", f"[{worker}{FIELD}", f"({worker} ")))
        found = self._some(gone, limit)
        if (since := orphaned_since(workers.values(), now)) is not None:
            found += self._orphans(unknown, since, limit - len(found))
        return found

    def _some(self, lost: Iterable[_Lost], limit: int) -> list[str]:
        """Return the ids of the first `limit` of these jobs."""
        asked = []
        for queue, jobs, (command, name, *bounds) in lost:
            if count := min(jobs, limit):
                key = self._server.keys.queue(queue) + name
                asked.append((queue, Call((command, key, *bounds, "LIMIT", 0, count))))
                limit -= count
        found: list[str] = []
        for (queue, _), members in zip(asked, self._server.all([call for _, call in asked]), strict=True):
            ids = [member.decode().rpartition(FIELD)[2] for member in members]
            self._jobs.places.remember(queue, ids)
            found += ids
        return found

    def _orphans(self, unknown: Sequence[tuple[str, str]], since: int, limit: int) -> list[str]:
        """Return the ids of up to `limit` jobs that these holders, each of a queue, have been running since then."""
        found: list[str] = []
        for holders in chunks(unknown, _AT_ONCE):
            if len(found) >= limit:
                break
            asked = [
                self._server.script("orphans", self._server.keys.queue(queue), worker, since, limit - len(found))
                for queue, worker in holders
            ]
            for (queue, _), ids in zip(holders, self._server.all(asked), strict=True):
                orphans = [job_id.decode() for job_id in ids]
                self._jobs.places.remember(queue, orphans)
                found += orphans
        return found[:limit]

    def _holders(self) -> Iterator[tuple[str, str, int]]:
        """Yield each worker with running jobs ('' for leases) per queue, with the number of jobs."""
        for queue, flat in self._of_each_queue("running", lambda keys: self._server.script("holders", keys)):
            for worker, jobs in zip(flat[::2], flat[1::2], strict=True):
                yield queue, worker.decode(), int(jobs)

    def _leased(self) -> Iterator[Leased]:
        """Yield the jobs that are held by leases under a name, by queue."""
        for queue, flat in self._of_each_queue(
            "leases", lambda keys: self._server.script("leased", keys, LEASES_SEARCHED_MAX)
        ):
            for name, *figures in zip(*(flat[part::4] for part in range(4)), strict=True):
                yield Leased(name.decode(), queue, *map(int, figures))

    def _of_each_queue(self, key: str, asked: Callable[[str], Call]) -> Iterator[tuple[str, Any]]:
        """Yield each queue that has a key with the reply to the call made for its key prefix."""
        places = self._jobs.places
        for queues in chunks(places.with_any(places.queues(), key), _AT_ONCE):
            calls = [asked(self._server.keys.queue(queue)) for queue in queues]
            yield from zip(queues, self._server.all(calls), strict=True)

    def forget_dead(self, now: int) -> None:
        """Forget dead workers without jobs."""
        busy = {worker for _, worker, _ in self._holders()}
        for worker in self.known_workers().values():
            if worker.id not in busy and not alive(worker, now):
                self.leave(worker.id)


def _described(worker: WorkerRow) -> str:
    return json.dumps({name: getattr(worker, name) for name in _DESCRIBED})


def _worker_in(stored: bytes) -> WorkerRow:
    """Return a worker from its stored form: start, last heartbeat, and description."""
    started_at, last_seen_at, description = stored.decode().split(FIELD)
    fields = json.loads(description)
    fields |= {"queues": tuple(fields["queues"]), "lanes": lanes_in(fields.get("lanes"))}
    return WorkerRow(**fields, started_at=int(started_at), last_seen_at=int(last_seen_at))
