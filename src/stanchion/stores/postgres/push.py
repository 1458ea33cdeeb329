"""PostgreSQL's push: one statement that commits itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import Executable, text

from stanchion.core.values.framing import as_text
from stanchion.stores.fields.sql import GIVEN, LIVE_COLUMNS, stored_as_given, typed
from stanchion.stores.postgres.pick import HERE, ITEMS, NOW, TYPES, listed
from stanchion.stores.records.jobs import UNLANED, NewJob, Pushed
from stanchion.stores.rules.lifecycle.jobs import created, due_at, is_part
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.joining import must_be_here
from stanchion.stores.sql.engine.runner import Asked, Params, Runner
from stanchion.stores.sql.jobs.held_keys import HeldKeys, any_held
from stanchion.stores.sql.jobs.push import Push, push_within
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.transactions import Transactions

# Called by built-ins over all jobs: cheaper per job than a comprehension.
_ID, QUEUE_OF, KEY_OF, LANE_OF, PAYLOAD_OF = map(attrgetter, ("id", "queue", "key", "lane", "payload"))
PART_OF = attrgetter("attempts", "dead_from", "enqueued_at")
NO_KEYS = {None}
NO_PARTS = {(0, None, None)}
NO_LANES = {UNLANED}

_REQUIRED = object()
DEFAULTS = tuple(NewJob._field_defaults.get(name, _REQUIRED) for name in NewJob._fields)

_NEW = {
    **stored_as_given(),
    "state": "CASE WHEN waits_kind IS NULL THEN 'queued' ELSE 'waiting' END",
    "rank": "coalesce(priority, 0)",
    "run_at": f"coalesce(run_at, {NOW} + CAST(floor(coalesce(delay, 0) * 1000000) AS BIGINT))",
    "enqueued_at": NOW,
    "waits_since": f"CASE WHEN waits_kind IS NOT NULL THEN {NOW} END",
}
"""The columns of a new job, where they are not as given."""

CONTENTS = "contents AS MATERIALIZED (SELECT string_to_array(CAST(:contents AS text), ',') AS texts)"
"""The CTE of the chunks that a statement is given. They are long: as JSON, they would take longer than all the rest."""


def content(number: str) -> str:
    """Return the term of one of these, by its number."""
    return f"(SELECT texts FROM contents)[{number}]"


PUSHED = f"""
    WITH {{before}} given AS (
        SELECT given.* {{computed}} FROM jsonb_to_recordset(CAST(:jobs AS jsonb)) AS given (
            {typed(GIVEN, TYPES)} {{more}}
        ) {{where}}
    ), stored AS (
        INSERT INTO stanchion_jobs ({listed(LIVE_COLUMNS)})
        SELECT {{new}}
        FROM given
        WHERE NOT {{finished}}
        ON CONFLICT DO NOTHING
        RETURNING {{returning}}
    ), counted AS (
        INSERT INTO stanchion_counter_events (queue, what, n)
        SELECT queue, 'pushed', {{number}} FROM stored GROUP BY queue {{counts}}
    )
    SELECT (SELECT count(*) FROM stored), {NOW} {{answer}}
"""
"""The statement, with room for more."""
_FINISHED = "EXISTS (SELECT 1 FROM stanchion_history AS finished WHERE finished.id = given.id)"
# For the condition above, a plan made while history was small may read all of it, once per job or to hash it, until the
# server has analyzed the grown table. Ids made together span so narrow a range that the index is chosen.
_FINISHED_IN_RANGE = """(given.id = ANY (ARRAY(
    SELECT finished.id FROM stanchion_history AS finished
    WHERE finished.id BETWEEN CAST(:first AS uuid) AND CAST(:last AS uuid) AND finished.id IN (SELECT id FROM given)
)))"""


def pushes(
    before: str = "",
    where: str = "",
    more: str = "",
    computed: str = "",
    returning: str = "queue",
    number: str = "count(*)",
    counts: str = "",
    answer: str = "",
    **new: str,
) -> Pushing:
    """Return the two forms of a push: of ids made together, and of others.

    `before`: further CTEs; `more`: further fields of given jobs; `computed`: values computed once per job for `new`, as
    further columns; `number`: the number that is counted of a queue.
    """
    parts = {
        "before": before,
        "where": where,
        "more": more,
        "computed": computed,
        "returning": returning,
        "number": number,
        "counts": counts,
        "answer": answer,
    }
    parts["new"] = listed(LIVE_COLUMNS, **{**_NEW, **new})
    together, any_jobs = (text(PUSHED.format(finished=one, **parts)) for one in (_FINISHED_IN_RANGE, _FINISHED))
    return Pushing(together, any_jobs)


class Pushing(NamedTuple):
    """A push of jobs whose ids were made together, and one of any jobs."""

    together: Executable
    any_jobs: Executable


_MADE_TOGETHER = len("01a1fe3f-73a2-767e-a69c-")
"""The length of the prefix that ids made by one call of `new_ids` share."""


class PostgresPush:
    """Stores new jobs by one statement, which inserts nothing in another database than the store's."""

    def __init__(self, db: Database, transactions: Transactions, jobs: Jobs, queues: QueueRows, general: Push) -> None:
        self._db, self._transactions, self._jobs, self._queues = db, transactions, jobs, queues
        self._general = general
        self._held_keys = HeldKeys(db, jobs)

    def push(self, jobs: Sequence[NewJob], tx: object = None, *, repeat: bool = False) -> list[Pushed]:
        if not jobs:
            return []
        # A duplicate may undo the batch, and what ended meanwhile a part of it; the queue of a letter is written, too.
        parts = set(map(PART_OF, jobs)) != NO_PARTS
        if tx is not None or repeat or parts or set(map(KEY_OF, jobs)) != NO_KEYS:
            plain = not parts and bytes not in set(map(type, map(PAYLOAD_OF, jobs)))
            guarded = plain and set(map(LANE_OF, jobs)) == NO_LANES and not any_held(jobs) and not repeat
            push_in = self._held_keys.respected(jobs, self.push_in)
            return push_within(self._transactions, jobs, tx, push_in, guarded=guarded, repeat=repeat)
        self._queues.make_for(jobs)
        pushed = self._db.statement(lambda run, again: self.push_in(run, jobs, again=again))
        self._db.dialect.announce(set(map(QUEUE_OF, jobs)))
        return pushed

    def push_in(self, run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> list[Pushed]:
        if set(map(LANE_OF, jobs)) != NO_LANES:
            self._queues.use_lanes(run, {job.queue for job in jobs if job.lane != UNLANED})
        ordered: Sequence[NewJob] = jobs
        if again or set(map(KEY_OF, jobs)) != NO_KEYS:
            # One order for all callers: two batches that share keys or ids can't deadlock.
            ordered = sorted(jobs, key=lambda job: (job.queue, job.key or "", "" if job.key else job.id))
        if set(map(PART_OF, jobs)) != NO_PARTS or bytes in set(map(type, map(PAYLOAD_OF, jobs))):
            if any(job.dead_from == job.queue for job in jobs):  # it goes to history
                return self._general.push_in(run, jobs, again=again)
            self._queues.mark_letters(run, jobs)
            contents = Contents()
            given = [part_in(job, contents) for job in ordered]
            statement, params = asked(_PUSH_PARTS, ordered, given)
            params = {**params, **contents.params}
        else:
            forms = _PUSH_JOINED if run.guarded else _PUSH
            statement, params = asked(forms, ordered, list(map(given_in, ordered)))
        ((stored, now),) = run.rows(statement, params)
        undone = self._jobs.undo_ended(run, jobs) if again else {}
        if run.guarded and not stored:
            must_be_here(self._db, run)
            return self.push_in(run, jobs)
        if stored == len(jobs) and not undone:
            return [Pushed(job.id, due_at(job, now), now) for job in jobs]
        results = self._jobs.stored(run, [job.id for job in jobs])
        for job in ordered:
            if job.id not in results:
                results[job.id] = self._general.met(run, job, created(job, now))
        return [results[job.id] for job in jobs]


def asked(forms: Pushing, jobs: Sequence[NewJob], given: Sequence[Mapping[str, object]]) -> Asked:
    """Return the statement that stores these jobs, with its parameters; `given`: the jobs as it takes them."""
    texts: Params = {"jobs": json.dumps(given)}
    ids = list(map(str.lower, map(_ID, jobs)))
    first, last = min(ids), max(ids)
    if first[:_MADE_TOGETHER] != last[:_MADE_TOGETHER]:
        return forms.any_jobs, texts
    return forms.together, {**texts, "first": first, "last": last}


_PUSH, _PUSH_JOINED = pushes(), pushes(where=f"WHERE {HERE}")


def pushes_of_parts(before: str = "", **terms: str) -> Pushing:
    """Return the forms of a push of jobs that carry chunks or come from some; the arguments: see `pushes`."""
    return pushes(
        before=f"{CONTENTS}, {before}",
        more=f", items int, failures int, dead_attempts int, content int {terms.pop('more', '')}",
        returning="queue, items",
        number=ITEMS,
        payload=f"coalesce(payload, {content('content')})",
        items="items",
        failures="coalesce(failures, 0)",
        enqueued_at=f"coalesce(enqueued_at, {NOW})",
        dead_at=f"CASE WHEN dead_from IS NOT NULL THEN {NOW} END",
        dead_attempts="dead_attempts",
        **terms,
    )


_PUSH_PARTS = pushes_of_parts()


def given_in(job: NewJob) -> dict[str, object]:
    """Return the fields of a job that differ from the defaults."""
    if job[4:] == DEFAULTS[4:]:
        plain: dict[str, object] = {"id": job.id, "queue": job.queue, "payload": job.payload}
        return plain if job.task is None else {**plain, "task": job.task}
    return {name: value for name, value, default in zip(NewJob._fields, job, DEFAULTS, strict=True) if value != default}


class Contents:
    """The chunks that a statement is given apart from its JSON, each once for a reference to it."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, chunk: bytes) -> int:
        """Return the number of a chunk."""
        self._texts.append(as_text(chunk))
        return len(self._texts)

    def __bool__(self) -> bool:
        return bool(self._texts)

    @property
    def params(self) -> Params:
        """The parameter of the statement."""
        return {"contents": ",".join(self._texts)}  # which the text of a chunk never contains


def part_in(job: NewJob, contents: Contents) -> dict[str, object]:
    """Return the same of a job that may carry a chunk or come from one, with what the rule makes of it."""
    given = given_in(job)
    if not is_part(job):
        return given
    row = created(job, 0)
    given |= {name: getattr(row, name) for name in ("items", "attempts", "failures", "dead_attempts")}
    if isinstance(job.payload, bytes):
        given |= {"payload": None, "content": contents.add(job.payload)}
    return given
