"""Live jobs with values of wrong types, which SQLite stores: they are dead, with the reason.

Most are claimed like other jobs, and buried by what their rows say. With some a claim fails, and some no claim finds.
A claim that fails searches all live jobs. Upkeep searches the indexes: SQLite sorts numbers before texts, and texts
before bytes, so a text among the times of a rank is behind all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from sqlalchemy import Executable, Float, String, Text, TextClause, select, text, update

from stanchion.core.ids import id_named
from stanchion.core.values.framing import as_text
from stanchion.errors import StanchionError
from stanchion.stores.fields.sql import LIVE_COLUMNS
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.outcomes import Bury
from stanchion.stores.rules.lifecycle.outcomes import settled
from stanchion.stores.rules.misfits import SMALL, SMALL_MAX
from stanchion.stores.rules.undeliverable import OfWrongTypes, misfit
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS
from stanchion.stores.sql.claims.claim import ClaimsJobs
from stanchion.stores.sql.engine.columns import live_row, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import CLAIMED_COLUMNS, jobs
from stanchion.stores.sql.jobs.flows import Flows
from stanchion.stores.sql.reading.stats import heads_of
from stanchion.stores.sql.rows.contents import row_from
from stanchion.stores.sql.rows.jobs import is_id, live_values
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.transactions import Transactions

_TEXTS: Final = [name for name in CLAIMED_COLUMNS if isinstance(jobs.c[name].type, (String, Text))]
_REALS: Final = [name for name in CLAIMED_COLUMNS if isinstance(jobs.c[name].type, Float)]
_WHOLE: Final = [name for name in CLAIMED_COLUMNS if name not in (*_TEXTS, *_REALS)]


def _none_is(kind: str, columns: Iterable[str]) -> str:
    types = (f'typeof(stanchion_jobs."{name}")' for name in columns)
    return f"'{kind}' NOT IN ({', '.join(types)})"


# A column of texts makes texts of numbers, and a column of numbers makes numbers of texts like '5'.
RIGHT_TYPES: Final = " AND ".join(
    (
        *(_none_is("blob", CLAIMED_COLUMNS), _none_is("text", _REALS + _WHOLE), _none_is("real", _WHOLE)),
        *(f"max({', '.join(SMALL)}) <= {SMALL_MAX}", f"min({', '.join(SMALL)}) >= {-SMALL_MAX}"),
    )
)
"""The condition that a live job has values of the right types."""

HAS_ID: Final = "typeof(id) = 'text' AND id NOT GLOB '*[^0-9a-f-]*'"
"""The condition that a job has an id by which it can be reserved: a job without one would block its queue."""

_AT_ONCE: Final = 500
_NOT_RUNNING: Final = "state <> 'running'"
_ALL: Final = text(
    f"SELECT rowid, typeof(id) FROM stanchion_jobs WHERE NOT ({RIGHT_TYPES}) AND {_NOT_RUNNING} LIMIT :most"
)
_ROWID: Final = text("rowid = :rowid")


def _unseen(dialect: Dialect) -> TextClause:
    """Return the query for jobs that no claim finds, by the indexes of the ids and of the queued jobs."""
    of_head = "job.state = 'queued' AND job.queue = heads.queue AND job.lane = heads.lane AND job.rank = heads.rank"
    return text(f"""
        {heads_of(dialect)}, unseen (number) AS (
            SELECT job.rowid FROM heads JOIN stanchion_jobs AS job ON {of_head} AND job.run_at >= ''
            UNION SELECT job.rowid FROM heads JOIN stanchion_jobs AS job ON {of_head}
            WHERE typeof(heads.lane) <> 'integer' OR typeof(heads.rank) <> 'integer'
            UNION SELECT rowid FROM stanchion_jobs WHERE state = 'queued' AND queue >= x''
            UNION SELECT rowid FROM stanchion_jobs WHERE id >= 'g'
            UNION SELECT rowid FROM stanchion_jobs WHERE id < '0'
            UNION SELECT rowid FROM stanchion_jobs WHERE id >= ':' AND id < 'a'
        )
        SELECT job.rowid, typeof(job.id) FROM unseen JOIN stanchion_jobs AS job ON job.rowid = unseen.number
        WHERE {_NOT_RUNNING} LIMIT :most
    """)


class Misfits:
    """Buries jobs with values of wrong types that can't be claimed."""

    def __init__(self, db: Database, transactions: Transactions, queues: QueueRows, flows: Flows) -> None:
        self._db, self._transactions, self._queues, self._flows = db, transactions, queues, flows
        self._unseen = db.dialect.once(_unseen)
        self._read: Executable = select(*live_row()).where(_ROWID)
        self._write = (
            update(jobs).where(_ROWID).values({name: param(f"new_{name}", jobs.c[name].type) for name in LIVE_COLUMNS})
        )

    def bury(self) -> bool:
        """Bury all that are live; return whether there were any."""
        return self._bury(lambda run: run.rows(_ALL, {"most": _AT_ONCE}))

    def bury_unseen(self) -> bool:
        """Bury jobs that no claim finds; return whether there were any."""

        def find(run: Runner) -> list[tuple[int, str]]:
            names = self._db.dialect.listed(name for (name,) in run.rows(_QUEUES))
            return run.rows(self._unseen, {"queues": names, "most": _AT_ONCE})

        return bool(self._db.read(find)) and self._bury(find)

    def _bury(self, find: Callable[[Runner], list[tuple[int, str]]]) -> bool:
        def work(run: Runner, _again: bool) -> int:
            found = find(run)
            for rowid, type_of_id in found:
                self._bury_one(run, rowid, renamed=type_of_id != "text")
            return len(found)

        buried = at_once = self._transactions.write(work)
        while at_once == _AT_ONCE:
            at_once = self._transactions.write(work)
        return bool(buried)

    def _bury_one(self, run: Runner, rowid: int, *, renamed: bool) -> None:
        (row,) = map(row_from, run.rows(self._read, {"rowid": rowid}))
        wrong = list(row.payload.fields) if isinstance(row.payload, OfWrongTypes) else []
        if renamed or not is_id(row.id):
            row = row._replace(id=id_named(f"{rowid} {row.id}", self._db.clock(run)))
            wrong.insert(0, "id")
        row = row._replace(payload=OfWrongTypes(as_text(row.payload), wrong))
        given = {f"new_{name}": value for name, value in live_values(row).items()}
        run.change(self._write, {**given, "new_key": None, "rowid": rowid})  # another job may have the key as text
        settings = self._queues.settings_of(run, {row.queue})[row.queue]
        after = settled(row, Bury(row.lease, misfit(row) or ""), settings, self._db.clock(run))
        self._flows.put(run, [row], [after])


_QUEUES: Final = text("SELECT name FROM stanchion_queues")


class ClaimsPastMisfits:
    """Claims jobs, and repeats a claim that failed by values of wrong types once they are buried."""

    def __init__(self, claims: ClaimsJobs, misfits: Misfits) -> None:
        self._claims, self._misfits = claims, misfits

    def claim(self, claim: Claim) -> Claimed:
        """Reserve jobs."""
        try:
            return self._claims.claim(claim)
        except StanchionError:
            raise
        except (TypeError, ValueError):
            if not self._misfits.bury():
                raise
        return self._claims.claim(claim)


def burying_first(misfits: Misfits, maintain: Callable[[float], list[str]]) -> Callable[..., list[str]]:
    """Return the verb that first buries what no claim finds."""

    def work(seconds: float = MAINTAIN_SECONDS) -> list[str]:
        misfits.bury_unseen()
        return maintain(seconds)

    return work
