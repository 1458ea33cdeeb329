"""The statements about staged jobs, and about reserved jobs that a publication commits."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Integer,
    String,
    Table,
    and_,
    case,
    delete,
    exists,
    false,
    func,
    insert,
    literal_column,
    not_,
    null,
    or_,
    select,
    union_all,
)

from stanchion.core.values.framing import MARK
from stanchion.stores.fields.jobs import LIMITS, LIVE, TIES, Kind
from stanchion.stores.fields.sql import LIVE_COLUMNS
from stanchion.stores.records.jobs import QUEUED, UNLANED, JobState, NewJob
from stanchion.stores.sql.elements import AnyElement, AnySelect
from stanchion.stores.sql.engine.columns import as_integer, id_as_text, in_time, param, under_token
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.schema import HISTORY_COLUMNS, ID_COLUMNS, history, jobs, stage, stage_prepared

_COUNTED = tuple(field for field in LIVE if field.name not in NewJob._fields and field.default is not None)
"""The fields that are zero or false in each new job that is no part of a chunk."""
_STAGES = (stage, stage_prepared)
STAGED_COLUMNS = tuple(column.name for column in stage.columns)


class FinishStatements:
    """The statements that commit the jobs reserved under a token, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        mine = and_(under_token(), in_time(dialect.now))
        by_id = id_as_text(jobs.c.id)
        self.reserved_locked = select(by_id).where(mine).order_by(jobs.c.id).with_for_update()
        # The end of any other job has consequences.
        plain = and_(mine, *(jobs.c[name].is_(None) for name in TIES))
        done: dict[str, AnyElement] = {
            "state": literal_column(f"'{JobState.DONE.value}'"),
            "finished_at": param("moment", BigInteger),
            "result": null(),
        }
        as_done = select(*(done[name] if name in done else jobs.c[name] for name in HISTORY_COLUMNS)).where(plain)
        self.keep_plain = insert(history).from_select(list(HISTORY_COLUMNS), as_done)
        self.remove_plain = delete(jobs).where(plain)


class StageStatements:
    """The statements about staged jobs, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        first, last = param("first", jobs.c.id.type), param("last", jobs.c.id.type)

        of_write = stage.c.write == param("of_write", String)
        of_attempt = and_(of_write, stage.c.attempt == param("of_attempt", String))
        within = and_(of_attempt, stage.c.id.between(first, last))
        self.insert = dialect.insert_ignoring(stage, {name: param(name, stage.c[name].type) for name in STAGED_COLUMNS})
        self.shares = union_all(_shares_of_rows(), _shares_of_prepared())
        next_ids = (
            select(id_as_text(stage.c.id).label("one"))
            .where(of_attempt, stage.c.id > param("after", stage.c.id.type))
            .order_by(stage.c.id)
            .limit(param("most", Integer))
            .subquery()
        )
        self.span = select(func.min(next_ids.c.one), func.max(next_ids.c.one))
        row = _published()
        without_keys = (
            select(*row.values())
            .where(within, stage.c.queue == param("of_queue", String), not_(_is_apart(stage)))
            .order_by(stage.c.id)
        )
        unfinished = without_keys.where(~exists().where(history.c.id == stage.c.id))
        self.publish = dialect.insert_ignoring_from(jobs, list(row), unfinished)
        self.publish_new = insert(jobs).from_select(list(row), without_keys)
        self.any_finished = select(history.c.run_at).where(history.c.id.between(first, last)).limit(1)
        self.apart = (
            select(*(row[name] if name == "run_at" else _shown(name) for name in NewJob._fields))
            .where(within, _is_apart(stage))
            .order_by(stage.c.id)
        )
        self.clear = delete(stage).where(within)

        # -- upkeep
        after = param("after", String)
        nexts = union_all(*(select(func.min(one.c.write).label("one")).where(one.c.write > after) for one in _STAGES))
        self.next_write = select(func.min(nexts.subquery("nexts").c.one))
        found = param("of_write", String)
        lasts = union_all(
            *(select(func.max(one.c.staged_at).label("one")).where(one.c.write == found) for one in _STAGES)
        )
        self.last_staged = select(func.max(lasts.subquery("lasts").c.one))


def _is_apart(staged: Table) -> AnyElement:
    """Return the condition that a staged job is stored by itself: it has a key, or it is a part of a chunk."""
    one = staged.c
    return or_(
        one.key.is_not(None),
        one.attempts > 0,
        one.dead_from.is_not(None),
        one.enqueued_at.is_not(None),
        func.substr(one.payload, 1, 1) == literal_column(f"'{MARK}'"),
    )


def _shares_of_rows() -> AnySelect:
    """Return what each attempt has staged for each queue: the columns of `_Share`."""
    one = stage.c
    using_slots: AnyElement = sum((func.count(one[name]) for name in LIMITS), start=literal_column("0"))
    counts: tuple[object, ...] = (
        func.count(),
        as_integer(func.sum(case((_is_apart(stage), 1), else_=0))),
        func.max(one.lane),
        using_slots,
        literal_column("0"),
    )
    of_write = one.write == param("of_write", String)
    return select(one.attempt, one.queue, *counts).where(of_write).group_by(one.attempt, one.queue)


def _shares_of_prepared() -> AnySelect:
    """Return the same of prepared jobs, which have no keys, lanes and slots."""
    one = stage_prepared.c
    counts: tuple[object, ...] = (
        as_integer(func.sum(one.jobs)),
        *map(literal_column, ("0", str(UNLANED), "0", "1")),
    )
    of_write = one.write == param("of_write", String)
    return select(one.attempt, one.queue, *counts).where(of_write).group_by(one.attempt, one.queue)


def _published() -> dict[str, AnyElement]:
    """Return the columns of the job that a staged one becomes, by name."""
    moment = param("moment", BigInteger)
    fresh: dict[str, AnyElement] = {
        "state": case((stage.c.waits_kind.is_(None), literal_column(f"'{QUEUED}'")), else_=JobState.WAITING.value),
        "rank": stage.c.priority,
        "run_at": func.coalesce(stage.c.run_at, moment + stage.c.delay),
        "enqueued_at": moment,
        **{one.name: false() if one.kind is Kind.FLAG else literal_column(str(one.default)) for one in _COUNTED},
        "waits_since": case((stage.c.waits_kind.is_not(None), moment), else_=None),
    }
    return {
        name: fresh[name] if name in fresh else stage.c[name]
        for name in LIVE_COLUMNS
        if name in fresh or name in stage.c
    }


def _shown(name: str) -> AnyElement:
    """Return a column of a staged job as NewJob has it; the delay is already part of its due time."""
    if name == "delay":
        return null()
    column: AnyElement = stage.c[name]
    return id_as_text(column) if name in ID_COLUMNS else column
