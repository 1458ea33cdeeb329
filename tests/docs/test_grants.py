"""A role with no more rights than the page on upgrades gives can do all that programs and workers do."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from stanchion import Push, Stanchion, group
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.staging import Finish, Publication

PAGE = Path(__file__).parents[2] / "docs" / "upgrades.md"


@pytest.mark.parametrize("schema", [None, "queues"])
def test_a_role_with_few_rights(pg_url: str, schema: str | None) -> None:
    page = PAGE.read_text()
    grants = page[page.index("GRANT SELECT, INSERT") :].split("```")[0]
    url = pg_url if schema is None else f"{pg_url}?schema={schema}"
    with closing(Stanchion(url)) as owner:
        owner.setup()
    role = pg_url.rpartition("/")[2].replace("test_", "app_")
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        if schema is not None:
            connection.execute(f"SET search_path TO {schema}; GRANT USAGE ON SCHEMA {schema} TO {role}")
        connection.execute(grants.replace("TO app;", f"TO {role};"))
    try:
        with closing(Stanchion(url.replace("stanchion@", f"{role}@"))) as app:
            use(app)
    finally:
        with psycopg.connect(pg_url, autocommit=True) as connection:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")


def use(app: Stanchion) -> None:
    app.semaphore("few", 2)

    @app.task(queue="work", limits=["few"], rate="1000/s")
    def double(n: int) -> int:
        return 2 * n

    @app.cron("* * * * *", missed="once")
    @app.task(queue="work")
    def total(numbers: Sequence[int] = ()) -> int:
        return sum(numbers)

    handle = group(double.s(n) for n in range(5)).then(total.s()).enqueue()
    double.using(order_key="one", delay=0.1).enqueue(3)
    app.queue("laned", lanes=4).push_many([Push(n, tenant=f"t{n}", key=f"k{n}") for n in range(5)])
    app.run(until_finished=True)
    assert handle.result(timeout=60) == 20

    store = app.store
    assert store.claim(Claim("laned", 5, "mine", worker="w", rows=False)).reserved == 5
    store.stage("write", "attempt", [NewJob("01900000-0000-7000-8000-000000000000", "staged", "1")])
    assert store.publish(Publication("write", (("attempt", 1),), finish=Finish("laned", "mine", 5)))
    assert app.queue("staged").size().total == 1
    store.recover()
    store.maintain()
    app.queue("work").purge_history(0)
    app.queue("staged").delete()
