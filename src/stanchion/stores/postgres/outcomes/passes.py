"""PostgreSQL's passes: one statement ends jobs that passed queues in memory, if no other jobs are concerned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from sqlalchemy import text

from stanchion.core.values.framing import Content, items_in
from stanchion.stores.fields.sql import literal
from stanchion.stores.postgres.outcomes.commits import HELD, PLAIN
from stanchion.stores.postgres.outcomes.moves import CAME_WITH, CHANGED_BEFORE, TRAIL_HERE
from stanchion.stores.postgres.pick import ITEMS, ONCE, listed
from stanchion.stores.postgres.push import CONTENTS, Contents, content
from stanchion.stores.records.claims import POPPED
from stanchion.stores.records.jobs import UNLANED, JobState
from stanchion.stores.records.outcomes import Commit, Outcome, Pass
from stanchion.stores.rules.lifecycle.outcomes import PASSED, last_of, steps_of
from stanchion.stores.rules.lifecycle.trail import STOPS_MAX
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.engine.schema import HISTORY_COLUMNS
from stanchion.stores.sql.jobs.moves import rest_of_trail, shown, stops_in
from stanchion.stores.sql.rows.queues import QueueRows

_TIME: Final = "\x01"
"""Stands for the time in the text of a trail; JSON never contains it."""

WAYS = """jsonb_to_recordset(CAST(:ways AS jsonb)) AS way (
    way int, target text, here text, adds int, changed boolean, rest text, headers text,
    keeps_headers boolean, keep_entry boolean
)"""
"""The table of the paths that jobs have taken; the given ends name theirs as `way`."""
BROUGHT = f"""
    coalesce(payload, {content("content")}) AS payload, items,
    way, target, here, adds, changed, rest, headers, keeps_headers, keep_entry
"""
"""The columns of a path, and the payload with which a job arrived at the last queue."""
BROUGHT_TYPES = "payload text, content int, items int, way int"

HAS_ROOM = f"""(
    (job.trail IS NULL OR {stops_in("job.trail")} < {STOPS_MAX - 1} - given.adds)
    AND (given.payload IS NULL OR given.items IS NOT DISTINCT FROM job.items)
)"""
"""The condition that the trail has room for all stops, and that the number of items is still the same."""

AS_IT_CAME = {
    "job.queue": "given.target AS queue",
    "job.payload": "coalesce(given.payload, job.payload) AS payload",
    "job.headers": "CASE WHEN given.keeps_headers THEN job.headers ELSE given.headers END AS headers",
    "job.entry_payload": f"""CASE
        WHEN NOT (given.keep_entry AND given.changed) THEN job.entry_payload
        WHEN job.trail IS NULL THEN {CAME_WITH}
        WHEN {CHANGED_BEFORE} THEN job.entry_payload
        ELSE {CAME_WITH}
    END AS entry_payload""",
    "job.trail": f"""concat(
        {TRAIL_HERE}, ',', job.attempts, replace(given.rest, '{_TIME}', CAST({ONCE} AS text))
    ) AS trail""",
}
"""The columns of a `job` as it arrived at its last queue, along a `given` path."""
COMES_WITH: Final = tuple(name for name in HISTORY_COLUMNS if name not in ("finished_at", "result"))
"""The columns of history that a live job has."""
CAME = {
    "lane": str(UNLANED),
    "attempts": "1",
    "arrival_payload": "NULL",
    **{name: literal(default) for name, default in PASSED.items() if name in COMES_WITH},
}
"""Columns of history that are the same for all jobs that passed queues."""

PASSES_COUNTED = f"""
    SELECT told.queue, told.what, ended.n
    FROM (SELECT way, {ITEMS} AS n FROM gone WHERE way IS NOT NULL GROUP BY way) AS ended
    JOIN jsonb_to_recordset(CAST(:passages AS jsonb)) AS told (way int, queue text, what text) USING (way)
"""
"""The counts of the queues that jobs passed."""

_COMMIT = text(f"""
    WITH {CONTENTS}, given AS (
        SELECT queue, id, token, coalesce(result, {content("answer")}) AS result, {BROUGHT}
        FROM jsonb_to_recordset(CAST(:ends AS jsonb)) AS given (
            queue text, id uuid, token text, result text, answer int, {BROUGHT_TYPES}
        ) JOIN {WAYS} USING (way)
    ), gone AS (
        DELETE FROM stanchion_jobs AS job USING given
        WHERE job.id = given.id AND job.queue = given.queue AND {HELD} AND {PLAIN} AND {HAS_ROOM}
        RETURNING
            {listed([f"job.{name}" for name in COMES_WITH], **AS_IT_CAME)},
            {ONCE} AS finished_at, given.result, job.delivery, job.queue AS left_queue, given.way
    ), kept AS (
        INSERT INTO stanchion_history ({listed(HISTORY_COLUMNS)})
        SELECT {listed(HISTORY_COLUMNS, **CAME, state="'done'")} FROM gone
        WHERE NOT EXISTS (SELECT 1 FROM stanchion_queues WHERE name = gone.queue AND history_ttl <= 0)
    ), counted AS (
        INSERT INTO stanchion_counter_events (queue, what, n)
        SELECT queue, CASE WHEN delivery = '{POPPED}' THEN 'popped' ELSE 'committed' END AS what, {ITEMS}
        FROM gone GROUP BY queue, what
        UNION ALL {PASSES_COUNTED}
    )
    SELECT CAST(id AS text), left_queue, token,
        left_queue IN (SELECT name FROM stanchion_queues WHERE max_running IS NOT NULL) AS bounded
    FROM gone
""")


class Ways:
    """The paths of some jobs as parameters of the statements, each path once."""

    def __init__(self) -> None:
        self.contents = Contents()
        self._ways: dict[tuple[object, ...], int] = {}
        self._given: list[dict[str, object]] = []
        self._passages: list[dict[str, object]] = []

    def given(self, outcome: Outcome) -> dict[str, object]:
        """Return the parameters of one outcome, without the part about its last queue."""
        lease = outcome.lease
        one: dict[str, object] = {"queue": lease.queue, "id": lease.id, "token": lease.token}
        if isinstance(outcome, Pass):
            one["way"] = self._number(outcome)
            if outcome.payload is not None:
                self.put(one, outcome.payload, "payload", "content")
                one["items"] = items_in(outcome.payload)
        return one

    def put(self, one: dict[str, object], value: Content | None, as_text: str, as_chunk: str) -> None:
        """Add a content to the parameters of an outcome, as a text or as the number of a chunk."""
        if isinstance(value, bytes):
            one[as_chunk] = self.contents.add(value)
        elif value is not None:
            one[as_text] = value

    @property
    def params(self) -> Params:
        """The parameters of the statement."""
        return {
            "ways": json.dumps(self._given),
            "passages": json.dumps(self._passages),
            **self.contents.params,
        }

    def _number(self, outcome: Pass) -> int:
        (queue, _, _), passages, _, _, headers, keep_entry = outcome
        way = queue, passages, headers, keep_entry
        if (number := self._ways.get(way)) is None:
            number = self._ways[way] = len(self._ways)
            self._given.append(
                {
                    "way": number,
                    "target": passages[-1].queue,
                    "here": shown(queue),
                    "adds": len(passages),
                    "changed": any(passage.changed for passage in passages),
                    "rest": rest_of_trail(passages, _TIME),
                    "headers": headers,
                    "keeps_headers": headers is None,
                    "keep_entry": keep_entry,
                }
            )
            steps = steps_of(queue, passages)
            self._passages += [{"way": number, "queue": name, "what": event} for name, event in steps]
        return number


class PostgresPasses:
    """Commits jobs that passed queues, by one statement."""

    def __init__(self, queues: QueueRows) -> None:
        self._queues = queues

    def prepare(self, passes: Sequence[Pass]) -> None:
        """Make the missing rows of the queues that jobs passed."""
        self._queues.make({passage.queue for one in passes for passage in one.passages})

    def commit_untied(self, run: Runner, passes: Sequence[Pass]) -> list[JobState | None]:
        """Commit jobs on which no others depend; return None for jobs that another route must try."""
        ways, ends = Ways(), []
        for one in passes:
            end = ways.given(one)
            then = last_of(one)
            assert isinstance(then, Commit)  # noqa: S101 - by `is_plain_pass`
            ways.put(end, then.result, "result", "answer")
            ends.append(end)
        found = run.rows(_COMMIT, {"ends": json.dumps(ends), **ways.params})
        done = {(queue, job, token) for job, queue, token, _ in found}
        run.ended.update(job for _, job, _ in done)
        run.woken.update(queue for _, queue, _, bounded in found if bounded)  # there is room for another
        return [JobState.DONE if one.lease in done else None for one in passes]
