"""SQLite's moves: the untied jobs of one claim are moved by one statement, without being read."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import text

from stanchion.core.values.framing import Content
from stanchion.stores.fields.jobs import KEPT, TIES, Step
from stanchion.stores.fields.sql import in_time, missing, resets
from stanchion.stores.records.jobs import SECOND, JobState
from stanchion.stores.records.outcomes import Move
from stanchion.stores.rules.lifecycle.trail import KEPT_MOST
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.jobs.moves import FEW_STOPS, shown
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.queues import QueueRows

_PAYLOAD = attrgetter("payload")  # called by built-ins, without a frame for each job

WAYS_MOST = 4
"""Paths with special statements; moves on more of them are applied job by job."""

CAME_WITH = "coalesce(arrival_payload, payload)"
"""The payload with which a job came to its queue."""
_HELD = f"""
    SELECT count(*), (SELECT max_running IS NOT NULL FROM stanchion_queues WHERE name = :queue)
    FROM stanchion_jobs
    WHERE id IN (SELECT value FROM json_each(:ids)) AND queue = :queue AND token = :token AND state = 'running'
        AND {in_time(":now")} AND {missing(TIES)} AND (trail IS NULL OR {FEW_STOPS})
"""
_ROOM = f"""
    AND length(coalesce({KEPT}, '')) + length({CAME_WITH}) <= {KEPT_MOST} AND ({KEPT} IS NULL OR (
        instr({KEPT}, :here || ':[') = 0 AND substr({KEPT}, -3) = '"]}}'
    ))
"""
"""The condition that a kept payload can be added behind the others: the queue has kept none before."""
_HELDS = {False: text(_HELD), True: text(_HELD + _ROOM)}
_CHANGED = f"coalesce(:payload, payload) <> {CAME_WITH}"
_LEFT = "json_extract(stop.value, '$[3]')"
CHANGED_BEFORE = f"""EXISTS (
    SELECT 1 FROM json_each(stanchion_jobs.trail) AS stop WHERE {_LEFT} = 1 AND stop.key > coalesce(
        (SELECT max(stop.key) FROM json_each(stanchion_jobs.trail) AS stop WHERE {_LEFT} = 2), -1
    )
)"""
"""The condition that a move has changed the payload before, since the job was pushed or split from another."""
TRAIL_HERE = """CASE
    WHEN trail IS NULL THEN '[[' || :here || ',' || enqueued_at
    WHEN trail GLOB '*,[012]]]' THEN substr(trail, 1, length(trail) - 1) || ',[' || :here || ',' || enqueued_at
    ELSE substr(trail, 1, length(trail) - 2)
END"""
"""The trail up to the stop at the queue that a job leaves, whose attempts follow."""

_CAME_AT = """CASE
    WHEN trail IS NULL OR trail GLOB '*,[012]]]' THEN enqueued_at ELSE json_extract(trail, '$[#-1][1]')
END"""
_KEEPS = f"""
    {KEPT} = coalesce(substr({KEPT}, 1, length({KEPT}) - 1) || ',', '{{')
        || :here || ':[' || {_CAME_AT} || ',' || json_quote({CAME_WITH}) || ']}}',
"""

_MOVE = f"""
    UPDATE stanchion_jobs SET
        queue = :target, lane = :lane, state = 'queued', rank = priority, run_at = :run_at,
        payload = coalesce(:payload, payload),
        entry_payload = CASE
            WHEN NOT :keep_entry OR NOT {_CHANGED} THEN entry_payload
            WHEN trail IS NULL THEN {CAME_WITH}
            WHEN {CHANGED_BEFORE} THEN entry_payload
            ELSE {CAME_WITH}
        END,
        trail = {TRAIL_HERE} || ',' || attempts || ',' || ({_CHANGED}) || '],[' || :there || ',' || :now || ']]',
        headers = CASE WHEN :keeps_headers THEN headers ELSE :headers END, {{keeps}}
        {resets(Step.MOVED)}
    WHERE id = :job AND queue = :queue
"""
_MOVES = {keeps: text(_MOVE.format(keeps=_KEEPS if keeps else "")) for keeps in (False, True)}
"""The statements, by whether the payload of the arrival is kept."""


class _Way(NamedTuple):
    """What moves have in common that one statement makes."""

    queue: str
    token: str
    target: str
    delay: float
    lane: int
    headers: str | None
    keep_entry: bool
    keep_arrival: bool


class SqliteMoves:
    """Moves the untied jobs of a claim by a statement."""

    def __init__(self, db: Database, jobs: Jobs, queues: QueueRows) -> None:
        self._db, self._jobs, self._queues = db, jobs, queues

    def move_in(self, run: Runner, moves: Sequence[Move]) -> list[JobState] | None:
        ways: dict[_Way, dict[str, Content | None]] = defaultdict(dict)
        for lease, queue, payload, delay, lane, headers, keep_entry, _, keep_arrival in moves:
            way = _Way(lease.queue, lease.token, queue, delay, lane, headers, keep_entry, keep_arrival)
            ways[way][lease.id] = payload
        jobs = {job for payloads in ways.values() for job in payloads}
        if len(ways) > WAYS_MOST or len(jobs) < len(moves) or bytes in set(map(type, map(_PAYLOAD, moves))):
            return None
        now = self._db.clock(run)
        held = [
            run.rows(_HELDS[way.keep_arrival], {**_given(way, now), "ids": json.dumps(list(jobs))})[0]
            for way, jobs in ways.items()
        ]
        if any(count < len(jobs) for (count, _), jobs in zip(held, ways.values(), strict=True)):
            return None
        run.woken.update(way.queue for way, (_, bounded) in zip(ways, held, strict=True) if bounded)
        self._queues.insert(run, {way.target for way in ways} - {way.queue for way in ways})
        for way, payloads in ways.items():
            given = _given(way, now)
            run.send_each(
                _MOVES[way.keep_arrival],
                [{**given, "job": job, "payload": payload} for job, payload in payloads.items()],
            )
            if given["run_at"] == now:
                run.woken.add(way.target)
        self._jobs.count_events(run, [(move.lease.queue, "moved") for move in moves])
        return [JobState.SCHEDULED if int(move.delay * SECOND) > 0 else JobState.READY for move in moves]


def _given(way: _Way, now: int) -> dict[str, object]:
    return {
        "queue": way.queue,
        "token": way.token,
        "target": way.target,
        "here": shown(way.queue),
        "there": shown(way.target),
        "run_at": now + int(way.delay * SECOND),
        "lane": way.lane,
        "headers": way.headers,
        "keeps_headers": way.headers is None,
        "keep_entry": way.keep_entry,
        "now": now,
    }
