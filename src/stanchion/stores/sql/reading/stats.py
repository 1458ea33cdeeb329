"""Statistics of queues: sizes, totals, the time of the next due job, lane depths."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import (
    BigInteger,
    Integer,
    String,
    TextClause,
    case,
    column,
    func,
    select,
    text,
    union_all,
)

from stanchion.stores.records.queues import Counts, Head, QueueStats, Sizes, Stat
from stanchion.stores.rules.query import counts_states, sizes_in, stats_in
from stanchion.stores.sql.elements import AnySelect, AnyUnion
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import counter_events, counts, jobs


class Stats:
    """Counts jobs with one statement per field, regardless of the number of queues."""

    def __init__(self, database: Database) -> None:
        self._database, self._dialect = database, database.dialect
        self._states, self._items = self._dialect.once(_states), self._dialect.once(_items)
        self._chunks = self._dialect.once(_chunks)
        self._totals = self._dialect.once(_totals)
        self._next_due, self._heads = self._dialect.once(_next_due), self._dialect.once(_heads)
        self._depths, self._all_depths = self._dialect.once(_depths), self._dialect.once(_all_depths)

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        given = self._dialect.listed(set(queues))

        def work(run: Runner) -> dict[str, QueueStats]:
            states = self._read_sizes(run, self._states, given) if counts_states(fields) else {}
            more = self._read_sizes(run, self._items, given) if "items" in fields else {}
            totals = self._read_totals(run, given) if "totals" in fields else {}
            due = self.next_due(run, queues) if "next_due" in fields else {}
            heads = self.heads(run, queues) if "heads" in fields else {}
            chunks = self._read_chunks(run, given) if "chunks" in fields else {}
            return {
                one: stats_in(states.get(one, Sizes()), more.get(one, Sizes()), fields)._replace(
                    totals=totals.get(one, Counts()),
                    next_due=due.get(one),
                    heads=tuple(heads.get(one, ())),
                    chunks=chunks.get(one, 0),
                )
                for one in queues
            }

        return self._database.read(work) if queues else {}

    def _read_sizes(self, run: Runner, numbers: AnySelect, queues: object) -> dict[str, Sizes]:
        found: dict[str, dict[str, tuple[int, int]]] = {}
        for queue, state, number, due in run.rows(numbers, {"queues": queues}):
            found.setdefault(queue, {})[state] = int(number), int(due)
        return {queue: sizes_in(by_state) for queue, by_state in found.items()}

    def _read_chunks(self, run: Runner, queues: object) -> dict[str, int]:
        return {queue: int(number) for queue, number in run.rows(self._chunks, {"queues": queues})}

    def _read_totals(self, run: Runner, queues: object) -> dict[str, Counts]:
        found: dict[str, dict[str, int]] = {}
        for queue, what, number in run.rows(self._totals, {"queues": queues}):
            totals = found.setdefault(queue, dict.fromkeys(Counts._fields, 0))
            totals[what] += int(number)
        return {queue: Counts(**totals) for queue, totals in found.items()}

    def next_due(self, run: Runner, queues: Collection[str]) -> dict[str, int]:
        """Return when the first job of each of these queues is due; queues without such jobs are omitted."""
        found = run.rows(self._next_due, {"queues": self._dialect.listed(set(queues))})
        return {queue: int(due) for queue, due in found if _is_number(due)}

    def heads(self, run: Runner, queues: Collection[str]) -> dict[str, list[Head]]:
        """Return the first queued job of each rank in each lane of these queues; others are omitted."""
        found: dict[str, list[Head]] = {}
        for queue, lane, rank, run_at, now in run.rows(self._heads, {"queues": self._dialect.listed(set(queues))}):
            if _is_number(run_at) and _is_number(rank) and _is_number(lane):
                found.setdefault(queue, []).append(Head(int(lane), int(rank), int(run_at), int(run_at) - int(now)))
        return found

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        return self._database.read(lambda run: self.depths(run, queue, lanes, at_most))

    def depths(self, run: Runner, queue: str, lanes: Sequence[int] | None, at_most: int) -> dict[int, int]:
        """Count the queued jobs of these lanes (None: of all), each up to `at_most`."""
        given: dict[str, object] = {"queue": queue, "most": at_most}
        if lanes is None:
            found = [one for one in run.rows(self._all_depths, given) if _is_number(one[0])]
        else:
            found = run.rows(self._depths, {**given, "lanes": self._dialect.listed(map(str, lanes))})
        return {int(lane): int(depth) for lane, depth in found if depth}


def _is_number(value: object) -> bool:
    """Return whether a value is there, and is no text that another program has stored in place of a number."""
    return value is not None and not isinstance(value, str)


def _states(dialect: Dialect) -> AnySelect:
    """Count live jobs by state, and how many of them are due."""
    due = func.coalesce(func.sum(case((jobs.c.run_at <= dialect.now, 1), else_=0)), 0)
    of_these = text(dialect.among_many("queue", "queues"))
    return select(jobs.c.queue, jobs.c.state, func.count(), due).where(of_these).group_by(jobs.c.queue, jobs.c.state)


def _items(dialect: Dialect) -> AnySelect:
    """Count the items of live chunks beyond one each by state, and how many of them are due."""
    more = jobs.c["items"] - 1
    due = func.sum(case((jobs.c.run_at <= dialect.now, more), else_=0))
    return _of_chunks(dialect, select(jobs.c.queue, jobs.c.state, func.sum(more), due)).group_by(
        jobs.c.queue, jobs.c.state
    )


def _chunks(dialect: Dialect) -> AnySelect:
    """Count live chunks, by an index that has only these."""
    return _of_chunks(dialect, select(jobs.c.queue, func.count())).group_by(jobs.c.queue)


def _of_chunks(dialect: Dialect, numbers: AnySelect) -> AnySelect:
    chunks = jobs.c["items"].is_not(None), text(dialect.among_many("queue", "queues"))
    return numbers.where(*chunks).with_hint(jobs, "FORCE INDEX (stanchion_jobs_chunks)", "mysql")


def _totals(dialect: Dialect) -> AnyUnion:
    """Return the folded counts of queues, and the counter events since."""
    of_these, all_of_these = (text(among("queue", "queues")) for among in (dialect.among, dialect.among_many))
    what = counter_events.c.queue, counter_events.c.what
    events = select(*what, func.sum(counter_events.c.n)).group_by(*what)
    return union_all(select(counts.c.queue, counts.c.what, counts.c.n).where(of_these), events.where(all_of_these))


_EXPIRED_MAX = 500
_QUEUED = "stanchion_jobs AS job WHERE job.state = 'queued'"

# Loose index scans: the next lane, or the next lower rank, is the first entry after the previous one.


def heads_of(dialect: Dialect) -> str:
    """Return the query for the first queued job of each rank in each lane, by one index probe per lane and rank."""
    return f"""
        WITH RECURSIVE lanes (queue, lane) AS (
            SELECT given.value, (
                SELECT job.lane FROM {_QUEUED} AND job.queue = given.value ORDER BY job.lane LIMIT 1
            ) FROM {dialect.elements("queues")}
            UNION ALL
            SELECT lanes.queue, (
                SELECT job.lane FROM {_QUEUED} AND job.queue = lanes.queue AND job.lane > lanes.lane
                ORDER BY job.lane LIMIT 1
            ) FROM lanes WHERE lanes.lane IS NOT NULL
        ), heads (queue, lane, rank) AS (
            SELECT lanes.queue, lanes.lane, (
                SELECT job.rank FROM {_QUEUED} AND job.queue = lanes.queue AND job.lane = lanes.lane
                ORDER BY job.rank DESC LIMIT 1
            ) FROM lanes WHERE lanes.lane IS NOT NULL
            UNION ALL
            SELECT heads.queue, heads.lane, (
                SELECT job.rank FROM {_QUEUED} AND job.queue = heads.queue AND job.lane = heads.lane
                    AND job.rank < heads.rank
                ORDER BY job.rank DESC LIMIT 1
            ) FROM heads WHERE heads.rank IS NOT NULL
        ), firsts (queue, lane, rank, run_at) AS (
            SELECT heads.queue, heads.lane, heads.rank, (
                SELECT job.run_at FROM {_QUEUED} AND job.queue = heads.queue AND job.lane = heads.lane
                    AND job.rank = heads.rank
                ORDER BY job.run_at LIMIT 1
            ) FROM heads WHERE heads.rank IS NOT NULL
        )
    """


def first_due(dialect: Dialect) -> str:
    """Return the query for when the first queued job is due in the unpaused queues of some."""
    paused = "SELECT 1 FROM stanchion_queues AS known WHERE known.name = firsts.queue AND known.paused"
    return f"{heads_of(dialect)} SELECT min(run_at) FROM firsts WHERE NOT EXISTS ({paused})"


def _next_due(dialect: Dialect) -> TextClause:
    """Return when the first queued job of each queue is due, or since when a lease there has expired."""
    expired = f"SELECT queue, lease_until FROM ({expired_leases(str(dialect.now))}) AS expired"
    of_these = dialect.among("queue", "queues")
    dues = f"SELECT queue, run_at FROM firsts UNION ALL {expired} WHERE {of_these}"
    return text(f"{heads_of(dialect)} SELECT queue, min(run_at) FROM ({dues}) AS dues GROUP BY queue")


def expired_leases(now: str, index: str = "") -> str:
    """Return the query for expired leases of any queues, up to a number; claims and recovery soon free them."""
    return f"""
        SELECT queue, lease_until FROM stanchion_jobs {index}
        WHERE lease_until <= (SELECT {now}) ORDER BY lease_until LIMIT {_EXPIRED_MAX}
    """


def _heads(dialect: Dialect) -> AnySelect:
    """Return the first queued job of each rank in each lane, and the clock."""
    columns = column("queue", String), column("lane", Integer), column("rank", Integer), column("run_at", BigInteger)
    firsts = text(f"{heads_of(dialect)} SELECT queue, lane, rank, run_at FROM firsts").columns(*columns)
    return select(*firsts.subquery("heads").c, dialect.now)


def _depths(dialect: Dialect) -> TextClause:
    """Count the queued jobs of some lanes, each up to `most`."""
    return text(f"""
        SELECT given.value, (SELECT count(*) FROM ({_some("CAST(given.value AS INTEGER)")}) AS found)
        FROM {dialect.elements("lanes")}
    """)


def _all_depths(_dialect: Dialect) -> TextClause:
    """Count the queued jobs of all lanes in use, each up to `most`."""
    return text(f"""
        WITH RECURSIVE lanes (lane) AS (
            SELECT (SELECT job.lane FROM {_QUEUED} AND job.queue = :queue ORDER BY job.lane LIMIT 1)
            UNION ALL
            SELECT (
                SELECT job.lane FROM {_QUEUED} AND job.queue = :queue AND job.lane > lanes.lane
                ORDER BY job.lane LIMIT 1
            ) FROM lanes WHERE lanes.lane IS NOT NULL
        )
        SELECT lanes.lane, (SELECT count(*) FROM ({_some("lanes.lane")}) AS found)
        FROM lanes WHERE lanes.lane IS NOT NULL
    """)


def _some(lane: str) -> str:
    return f"SELECT 1 FROM {_QUEUED} AND job.queue = :queue AND job.lane = {lane} LIMIT :most"
