"""PostgreSQL's moves: one statement that commits itself, if no others are concerned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import attrgetter

from sqlalchemy import text

from stanchion.core.values.framing import items_in
from stanchion.stores.fields.jobs import Step
from stanchion.stores.fields.sql import resets
from stanchion.stores.postgres.outcomes.commits import HELD, PLAIN
from stanchion.stores.postgres.pick import ITEMS, ONCE
from stanchion.stores.postgres.push import CONTENTS, Contents, content
from stanchion.stores.records.jobs import SECOND, JobState
from stanchion.stores.records.outcomes import Move
from stanchion.stores.rules.lifecycle.trail import KEPT_MOST
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.jobs.moves import FEW_STOPS, shown
from stanchion.stores.sql.rows.queues import QueueRows

_KEEPS_ARRIVAL = attrgetter("keep_arrival")  # called by built-ins, without a frame for each job
CAME_WITH = "coalesce(job.arrival_payload, job.payload)"
"""The payload with which a job came to its queue."""
# Chunks are long: one that has not changed is not compared with itself.
_CHANGED = f"""(
    coalesce(given.payload, job.arrival_payload) IS NOT NULL AND coalesce(given.payload, job.payload) <> {CAME_WITH}
)"""
CHANGED_BEFORE = """EXISTS (
    SELECT 1 FROM (
        SELECT stop ->> 3 AS how, max(nth) FILTER (WHERE stop ->> 3 = '2') OVER () AS split, nth
        FROM jsonb_array_elements(CAST(job.trail AS jsonb)) WITH ORDINALITY AS stops (stop, nth)
    ) AS left_before WHERE how = '1' AND nth > coalesce(split, 0)
)"""
"""The condition that a move has changed the payload before, since the job was pushed or split from another."""
TRAIL_HERE = """CASE
    WHEN job.trail IS NULL THEN concat('[[', given.here, ',', job.enqueued_at)
    WHEN job.trail ~ ',[012]\\]\\]$' THEN concat(left(job.trail, -1), ',[', given.here, ',', job.enqueued_at)
    ELSE left(job.trail, -2)
END"""
"""The trail up to the stop at the queue that a job leaves, whose attempts follow."""
_TRAIL = f"""concat(
    {TRAIL_HERE}, ',', job.attempts, ',', CASE WHEN {_CHANGED} THEN 1 ELSE 0 END, '],[', given.there, ',', {ONCE}, ']]'
)"""

_CAME_AT = """CASE
    WHEN job.trail IS NULL OR job.trail ~ ',[012]\\]\\]$' THEN job.enqueued_at
    ELSE CAST(CAST(job.trail AS jsonb) -> -1 ->> 1 AS bigint)
END"""
_KEEPS = f"""kept_payloads = CASE WHEN given.keep_arrival THEN concat(
        coalesce(left(job.kept_payloads, -1) || ',', '{{'),
        given.here, ':[', {_CAME_AT}, ',', CAST(to_json({CAME_WITH}) AS text), ']}}'
    ) ELSE job.kept_payloads END,
"""
_ROOM = f"""AND (NOT given.keep_arrival OR (
    length(coalesce(job.kept_payloads, '')) + length({CAME_WITH}) <= {KEPT_MOST} AND (job.kept_payloads IS NULL OR (
        strpos(job.kept_payloads, given.here || ':[') = 0 AND right(job.kept_payloads, 3) = '"]}}'
    ))
))"""
"""The condition that a kept payload can be added behind the others: the queue has kept none before."""

_MOVES = f"""
    WITH {{before}} given AS (
        SELECT item.id, {{given}}, way.* FROM jsonb_to_recordset(CAST(:moves AS jsonb)) AS item (
            id uuid, payload text, way int {{more}}
        ) JOIN jsonb_to_recordset(CAST(:ways AS jsonb)) AS way (
            way int, queue text, token text, target text, here text, there text, delay bigint, lane int,
            headers text, keeps_headers boolean, keep_entry boolean, keep_arrival boolean
        ) USING (way)
    ), was AS MATERIALIZED (
        -- An UPDATE returns what it has written. Who brings a chunk holds the lease: nobody else changes what it was.
        SELECT id, items FROM stanchion_jobs WHERE id = ANY (ARRAY(SELECT id FROM given WHERE items IS NOT NULL))
    ), moved AS (
        UPDATE stanchion_jobs AS job SET
            queue = given.target, lane = given.lane, state = 'queued', rank = priority,
            run_at = {ONCE} + given.delay, payload = coalesce(given.payload, job.payload),
            items = CASE WHEN given.payload IS NULL THEN job.items ELSE given.items END,
            entry_payload = CASE
                WHEN NOT given.keep_entry OR NOT {_CHANGED} THEN job.entry_payload
                WHEN job.trail IS NULL THEN {CAME_WITH}
                WHEN {CHANGED_BEFORE} THEN job.entry_payload
                ELSE {CAME_WITH}
            END,
            trail = {_TRAIL}, headers = CASE WHEN given.keeps_headers THEN job.headers ELSE given.headers END,
            {{keeps}}
            {resets(Step.MOVED)}
        FROM given
        WHERE job.id = given.id AND job.queue = given.queue AND {HELD} AND {PLAIN}
            AND (job.trail IS NULL OR {FEW_STOPS})
            AND (job.items IS NULL OR given.payload IS NULL OR given.items IS NOT NULL)
            {{room}}
        RETURNING given.queue AS left_queue, CAST(job.id AS text) AS id, given.token,
            CASE WHEN given.items IS NULL THEN job.items ELSE (SELECT items FROM was WHERE was.id = job.id) END AS items
    ), counted AS (
        INSERT INTO stanchion_counter_events (queue, what, n)
        SELECT left_queue, 'moved', {ITEMS} FROM moved GROUP BY left_queue
    )
    SELECT id, left_queue, token,
        left_queue IN (SELECT name FROM stanchion_queues WHERE max_running IS NOT NULL) AS bounded
    FROM moved
"""
_OF_ITEMS = {"before": "", "given": "payload, CAST(NULL AS int) AS items", "more": ""}
_OF_CHUNKS = {
    "before": f"{CONTENTS},",
    "given": f"coalesce(payload, {content('content')}) AS payload, items",
    "more": ", items int, content int",
}
_STATEMENTS = {
    (of_chunks, keeps): text(
        _MOVES.format(
            **(_OF_CHUNKS if of_chunks else _OF_ITEMS), keeps=_KEEPS if keeps else "", room=_ROOM if keeps else ""
        )
    )
    for of_chunks in (False, True)
    for keeps in (False, True)
}
"""The statements, by whether some moves bring chunks, and by whether some keep the payload of the arrival."""


class PostgresMoves:
    """Moves by one statement."""

    def __init__(self, db: Database, queues: QueueRows) -> None:
        self._db, self._queues = db, queues

    def prepare(self, moves: Sequence[Move]) -> None:
        """Make the missing rows of the queues that jobs are moved to."""
        self._queues.make({move.queue for move in moves})

    def move_untied(self, run: Runner, moves: Sequence[Move]) -> list[JobState | None]:
        """Move jobs on which no others depend; return None for jobs that another route must try."""
        named = {queue: shown(queue) for queue in _queues_of(moves)}
        ways: dict[tuple[object, ...], dict[str, object]] = {}
        given, contents = [], Contents()
        for lease, queue, payload, delay, lane, headers, keep_entry, _, keep_arrival in moves:
            way = ways.setdefault((lease.queue, lease.token, queue, delay, lane, headers, keep_entry, keep_arrival), {})
            if not way:
                way |= {
                    "way": len(ways),
                    "queue": lease.queue,
                    "token": lease.token,
                    "target": queue,
                    "here": named[lease.queue],
                    "there": named[queue],
                    "delay": int(delay * SECOND),
                    "lane": lane,
                    "headers": headers,
                    "keeps_headers": headers is None,
                    "keep_entry": keep_entry,
                    "keep_arrival": keep_arrival,
                }
            one: dict[str, object] = {"id": lease.id, "way": way["way"]}
            if isinstance(payload, bytes):
                one |= {"items": items_in(payload), "content": contents.add(payload)}
            else:
                one["payload"] = payload
            given.append(one)
        params = {"moves": json.dumps(given), "ways": json.dumps(list(ways.values())), **contents.params}
        found = run.rows(_STATEMENTS[bool(contents), any(map(_KEEPS_ARRIVAL, moves))], params)
        done = {(left, job, token) for job, left, token, _ in found}
        run.woken.update(left for _, left, _, bounded in found if bounded)  # there is room for another
        states: list[JobState | None] = []
        for move in moves:
            if tuple(move.lease) not in done:
                states.append(None)
                continue
            scheduled = int(move.delay * SECOND) > 0
            states.append(JobState.SCHEDULED if scheduled else JobState.READY)
            if not scheduled:
                run.woken.add(move.queue)
        return states


def _queues_of(moves: Sequence[Move]) -> set[str]:
    return {move.queue for move in moves} | {move.lease.queue for move in moves}
