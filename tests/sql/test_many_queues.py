"""The figures of thousands of queues: PostgreSQL compares no row with each name that it was given."""

import pytest
from sqlalchemy import CompoundSelect, Select, text
from sqlalchemy.dialects import postgresql

from stanchion import Stanchion
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.reading import stats
from stanchion_conformance.harness import new_job

QUEUES = [f"queue-{number}" for number in range(300)]


@pytest.mark.parametrize("made", [stats._states, stats._totals])
def test_a_row_is_looked_up_among_the_names(pg_app: Stanchion, made: object) -> None:
    pg_app.store.push([new_job(queue=queue) for queue in QUEUES])
    database = pg_app.store.database  # type: ignore[attr-defined]

    def explained(run: Runner) -> str:
        query: Select[tuple[object]] | CompoundSelect[tuple[object]] = made(database.dialect)  # type: ignore[operator]
        compiled = query.compile(dialect=postgresql.dialect(paramstyle="named"))
        given = {**compiled.params, "queues": database.dialect.listed(QUEUES)}
        return "\n".join(str(row[0]) for row in run.rows(text(f"EXPLAIN {compiled}".replace("::", " ::")), given))

    plan = database.read(explained)
    assert "hashed SubPlan" in plan
    found = pg_app.store.stats([*QUEUES, "unknown"], ["states", "totals"])
    assert sum(one.states.ready for one in found.values()) == sum(one.totals.pushed for one in found.values()) == 300
    assert len(pg_app.store.stats(QUEUES[:2], ["states"])) == 2
