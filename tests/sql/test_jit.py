"""PostgreSQL compiles none of our statements: it takes a second, and they take a millisecond."""

import psycopg
from sqlalchemy import text

from stanchion import Stanchion
from stanchion.stores.sql.engine.runner import CursorRunner
from stanchion_conformance.harness import QUEUE, claim, new_job


def test_not_even_where_all_seems_dear(pg_url: str) -> None:
    name = pg_url.rpartition("/")[2]
    with psycopg.connect(pg_url, autocommit=True) as connection:
        for cost in ("jit_above_cost", "jit_inline_above_cost", "jit_optimize_above_cost"):
            connection.execute(f"ALTER DATABASE {name} SET {cost} = 0")
    app = Stanchion(pg_url)
    app.setup()
    app.queue(QUEUE).configure(lanes=4)
    app.store.push([new_job(lane=1)])
    assert len(claim(app.store)) == 1
    assert app.store.database.read(jit) == "off"  # type: ignore[attr-defined]
    app.close()


def jit(run: CursorRunner) -> str:
    """Return whether this session compiles."""
    return str(run.rows(text("SHOW jit"))[0][0])
