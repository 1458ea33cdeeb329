"""Workers in Redis: a hash of what they say of themselves, and beside it one of the jobs that they have begun."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.redis.client.rows import FIELD, ROW
from stanchion.stores.redis.jobs import Jobs
from stanchion.stores.rules.liveness import alive, beat_of

_DESCRIBED = ("id", "host", "pid", "queues", "threads", "heartbeat", "state")


class Workers:
    """Who lives, and which running jobs those hold who do not."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs, self._server = jobs, jobs.server

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        """Record that these workers are alive; return how many are, and which jobs of these are to stop."""
        # Beside the row, which earlier releases read in a form of its own; before it, so that no job begins unsaid.
        began = {worker.id: "" if worker.began is None else json.dumps(worker.began) for worker in workers}
        self._run("began", "began", began)
        clock, stored = self._run("beat", "workers", {worker.id: _described(worker) for worker in workers})
        return beat_of(workers, [_worker_in(one) for one in stored], self._asked_to_stop(workers), int(clock))

    def _run(self, script: str, name: str, texts: Mapping[str, str]) -> Any:
        arguments = [text for one in texts.items() for text in one]
        return self._server.call(lambda _again: self._server.run(script, self._server.keys.own(name), *arguments))

    def _asked_to_stop(self, workers: Sequence[WorkerRow]) -> list[str]:
        asked: list[str] = []
        for queue in dict.fromkeys(queue for worker in workers for queue in worker.queues):
            found = self._server.command("SMEMBERS", self._server.keys.queue(queue) + "stopping")
            self._jobs.places.remember(queue, ids := [job_id.decode() for job_id in found])
            asked += ids
        if not asked:
            return []
        mine = {worker.id for worker in workers}
        rows = (seen.row for seen in self._jobs.read(asked)[1].values())
        return [row.id for row in rows if row.cancel_requested and row.worker in mine]

    def leave(self, worker: str) -> None:
        """Forget a worker that has given back all its jobs."""
        self._server.command("HDEL", self._server.keys.own("workers"), worker)
        self._server.command("HDEL", self._server.keys.own("began"), worker)

    def workers(self) -> list[WorkerRow]:
        """Return all known workers, also those that are late, with their number of running jobs."""
        running = Counter(worker for _, worker, _ in self._holders())
        rows = sorted(self.known_workers().values(), key=lambda worker: (worker.started_at, worker.id))
        return [replace(worker, running=running[worker.id]) for worker in rows]

    def known_workers(self) -> dict[str, WorkerRow]:
        """Return all workers that have a row."""
        found = self._server.command("HVALS", self._server.keys.own("workers"))
        began = self._server.command("HGETALL", self._server.keys.own("began"))
        workers = {worker.id: worker for worker in map(_worker_in, found)}
        for name, listed in began.items():
            if (worker := workers.get(name.decode())) is not None:
                workers[worker.id] = replace(worker, began=tuple(json.loads(listed)))
        return workers

    def suspects(self, workers: Mapping[str, WorkerRow], now: int, limit: int) -> list[str]:
        """Return the ids of running jobs whose holder may be gone."""

        def gone(worker: str, lease: int | None) -> bool:
            if not worker:
                return lease is not None and lease <= now
            return worker not in workers or not alive(workers[worker], now)

        return [job_id for job_id, worker, lease in self._holders() if gone(worker, lease)]

    def _holders(self) -> list[tuple[str, str, int | None]]:
        """Return the running jobs of all queues: id, worker or '', end of the lease."""
        held = []
        for queue in self._jobs.places.queues():
            text = self._jobs.script("holders", queue).decode()
            for row in text.split(ROW) if text else ():
                job_id, worker, lease = row.split(FIELD)
                self._jobs.places.remember(queue, [job_id])
                held.append((job_id, worker, int(lease) if lease else None))
        return held

    def forget_dead(self, now: int) -> None:
        """Forget dead workers that hold no job."""
        busy = {worker for _, worker, _ in self._holders()}
        for worker in self.known_workers().values():
            if worker.id not in busy and not alive(worker, now):
                self.leave(worker.id)


def _described(worker: WorkerRow) -> str:
    return json.dumps({name: getattr(worker, name) for name in _DESCRIBED})


def _worker_in(stored: bytes) -> WorkerRow:
    """Return a worker as it is stored: since when it lives, when it was heard of, and what it says of itself."""
    started_at, last_seen_at, description = stored.decode().split(FIELD)
    fields = json.loads(description)
    fields["queues"] = tuple(fields["queues"])
    return WorkerRow(**fields, started_at=int(started_at), last_seen_at=int(last_seen_at))
