"""SQLite's passes: statements end the untied jobs of a claim that passed queues in memory, without reading them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import text

from stanchion.stores.fields.jobs import TIES
from stanchion.stores.fields.sql import in_time, literal, missing
from stanchion.stores.records.jobs import UNLANED, JobState
from stanchion.stores.records.outcomes import Commit, Pass, Passage
from stanchion.stores.rules.lifecycle.outcomes import PASSED, counted_as, steps_of
from stanchion.stores.rules.lifecycle.trail import STOPS_MAX
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.engine.schema import HISTORY_COLUMNS
from stanchion.stores.sql.jobs.moves import rest_of_trail, shown, stops_in
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sqlite.outcomes.moves import CAME_WITH, CHANGED_BEFORE, TRAIL_HERE, WAYS_MOST

_HELD = text(f"""
    SELECT count(*), max(delivery), (SELECT max_running IS NOT NULL FROM stanchion_queues WHERE name = :queue),
        coalesce((SELECT history_ttl > 0 FROM stanchion_queues WHERE name = :target), 1)
    FROM stanchion_jobs
    WHERE id IN (SELECT value FROM json_each(:ids)) AND queue = :queue AND token = :token AND state = 'running'
        AND {in_time(":now")} AND {missing(TIES)} AND (trail IS NULL OR {stops_in("trail")} < :stops_most)
""")
_ENDED: Final = {
    **{name: literal(default) for name, default in PASSED.items()},
    "queue": ":target",
    "lane": str(UNLANED),
    "state": f"'{JobState.DONE.value}'",
    "payload": "coalesce(:payload, payload)",
    "headers": "coalesce(:headers, headers)",
    "arrival_payload": "NULL",
    "attempts": "1",
    "entry_payload": f"""CASE
        WHEN NOT :keep_entry THEN entry_payload
        WHEN trail IS NULL THEN {CAME_WITH}
        WHEN {CHANGED_BEFORE} THEN entry_payload
        ELSE {CAME_WITH}
    END""",
    "trail": f"{TRAIL_HERE} || ',' || attempts || :rest",
    "finished_at": ":now",
    "result": ":result",
}
_KEEP = text(f"""
    INSERT INTO stanchion_history ({", ".join(HISTORY_COLUMNS)})
    SELECT {", ".join(_ENDED.get(name, name) for name in HISTORY_COLUMNS)}
    FROM stanchion_jobs WHERE id = :job AND queue = :queue
""")


class _Way(NamedTuple):
    """A path that some jobs of a claim have taken."""

    queue: str
    token: str
    passages: tuple[Passage, ...]
    keep_entry: bool

    @property
    def target(self) -> str:
        """The queue where they end."""
        return self.passages[-1].queue

    def given(self, now: int) -> Params:
        """Return the parameters of its statements."""
        return {
            "queue": self.queue,
            "target": self.target,
            "here": shown(self.queue),
            "rest": rest_of_trail(self.passages, str(now)),
            "keep_entry": self.keep_entry and any(passage.changed for passage in self.passages),
            "now": now,
        }


class SqlitePasses:
    """Ends the untied jobs of a claim that passed queues, one statement per job."""

    def __init__(self, db: Database, jobs: Jobs, queues: QueueRows) -> None:
        self._db, self._jobs, self._queues = db, jobs, queues

    def pass_in(self, run: Runner, passes: Sequence[Pass]) -> list[JobState] | None:
        ways: dict[_Way, dict[str, Params]] = defaultdict(dict)
        ends = [one.then for one in passes if isinstance(one.then, Commit)]
        for one, end in zip(passes, ends, strict=True):
            (queue, job, token), passages, _, payload, headers, keep_entry = one
            if bytes in (type(payload), type(end.result)):
                return None
            own: Params = {"job": job, "payload": payload, "headers": headers, "result": end.result}
            ways[_Way(queue, token, passages, keep_entry)][job] = own
        ids = {job for jobs in ways.values() for job in jobs}
        if len(ways) > WAYS_MOST or len(ids) < len(passes):
            return None
        now = self._db.clock(run)
        held = [self._held(run, way, list(jobs), now) for way, jobs in ways.items()]
        if any(count < len(jobs) for (count, *_), jobs in zip(held, ways.values(), strict=True)):
            return None
        self._queues.insert(run, {passage.queue for way in ways for passage in way.passages})
        counted: Counter[tuple[str, str]] = Counter()
        for (way, jobs), (number, delivery, bounded, keeps) in zip(ways.items(), held, strict=True):
            if bounded:
                run.woken.add(way.queue)  # room for another
            if keeps:
                given = way.given(now)
                run.send_each(_KEEP, [{**given, **own} for own in jobs.values()])
            counted[way.target, counted_as(ends[0], delivery)] += number
            for step in steps_of(way.queue, way.passages):
                counted[step] += number
        self._jobs.remove(run, ids, {way.queue for way in ways})
        self._jobs.count(run, counted)
        run.ended.update(ids)
        return [JobState.DONE] * len(passes)

    def _held(self, run: Runner, way: _Way, ids: Sequence[str], now: int) -> tuple[int, str | None, bool, bool]:
        """Return the number of held, untied jobs, their delivery, and if the queues are bounded and keep history."""
        given = {"queue": way.queue, "token": way.token, "target": way.target, "ids": json.dumps(ids), "now": now}
        ((count, delivery, bounded, keeps),) = run.rows(
            _HELD, {**given, "stops_most": STOPS_MAX - 1 - len(way.passages)}
        )
        return count, delivery, bool(bounded), bool(keeps)
