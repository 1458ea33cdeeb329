"""Tables in a schema of their own in PostgreSQL: `?schema=`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer
from tests.sql.callers import ASYNC_FORMS, SYNC_FORMS, Async, Sync

from stanchion import JobState, Push, Stanchion, chain
from stanchion.errors import CannotJoin, InvalidInput, SchemaMismatch, StoreUnavailable
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.registry import open_store, sql_tables
from stanchion.stores.sql.engine.schema import Qualified

TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = %s AND starts_with(tablename, 'stanchion_')"


def of_postgres(forms: dict[str, Any]) -> list[Any]:
    return [
        pytest.param(form, id=name.replace(" ", "-"))
        for name, form in forms.items()
        if name.startswith(("any", "postgresql"))
    ]


@pytest.fixture
def own_url(pg_store_url: str) -> str:
    """The URL of a store in the schema `shop`, beside the store of another app in the default one."""
    url = f"{pg_store_url}?schema=shop"
    with closing(open_store(url)) as store:
        store.setup()
    return url


@pytest.fixture
def app(own_url: str) -> Iterator[Stanchion]:
    with closing(Stanchion(own_url)) as app:
        yield app


@pytest.fixture
def other(pg_store_url: str) -> Iterator[Stanchion]:
    """The app in the default schema."""
    with closing(Stanchion(pg_store_url)) as other:
        yield other


@pytest.fixture
def at(pg_store_url: str) -> URL:
    """The database as a program of the shop opens it, with a table of its own."""
    with psycopg.connect(pg_store_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE effects (what TEXT)")
    return make_url(pg_store_url)


@pytest.mark.parametrize(
    "schema", ["Shop", "pg_shop", "information_schema", "shop-1", "1shop", "s" * 41, 'a"b', "a&schema=b"]
)
def test_other_names_are_refused(schema: str) -> None:
    with pytest.raises(InvalidInput, match="schema must be up to 40 lower-case letters"):
        open_store(f"postgresql://app@db/shop?schema={schema}")


@pytest.mark.parametrize("option", ["schema=", "schema", "sslmode=require&schema=", "pool_size="])
def test_an_option_without_a_value_is_refused(option: str) -> None:
    with pytest.raises(InvalidInput, match=f"option '{option.strip('=').rpartition('&')[2]}' in the URL has no value"):
        open_store(f"postgresql://app:se?cret@db/shop?{option}")


def test_names_are_qualified_outside_of_texts_only() -> None:
    named = Qualified("shop")
    assert named("SELECT stanchion_jobs.id, 'stanchion_jobs', 'it''s stanchion_jobs' FROM stanchion_jobs") == (
        """SELECT "shop".stanchion_jobs.id, 'stanchion_jobs', 'it''s stanchion_jobs' FROM "shop".stanchion_jobs"""
    )
    assert named("-- a queue's jobs\nFROM stanchion_jobs -- it's it") == (
        """-- a queue's jobs\nFROM "shop".stanchion_jobs -- it's it"""
    )
    for same in (
        "CREATE INDEX stanchion_jobs_ready",
        'FROM other.stanchion_jobs, "shop".stanchion_jobs',
        "WITH stanchion_jobs AS (SELECT 1) SELECT * FROM stanchion_jobs",
    ):
        assert named(same) == same
        assert Qualified()(f"{same} stanchion_jobs") == f"{same} stanchion_jobs"


def test_setup_makes_the_schema_once_and_nothing_elsewhere(pg_url: str) -> None:
    def count(schema: str) -> Any:
        with psycopg.connect(pg_url) as connection:
            return connection.execute(TABLES, [schema]).fetchone()

    with closing(open_store(f"{pg_url}?schema=shop")) as store:
        dry = store.setup(dry_run=True)
        assert count("shop") == (0,)
        steps = store.setup()
        assert set(steps) == set(dry)  # the tables in one order, their indexes in another
        assert ['CREATE SCHEMA "shop";' in step for step in steps] == [True] + [False] * (len(steps) - 1)
        assert steps[1] == 'SET search_path TO "shop";'
        assert (count("shop"), count("public")) == ((13,), (0,))
        assert store.setup() == store.setup(dry_run=True) == []
        store.check()


def test_an_operator_runs_the_statements(pg_url: str) -> None:
    with closing(open_store(f"{pg_url}?schema=shop")) as store:
        with psycopg.connect(pg_url) as connection:
            for step in store.setup(dry_run=True):
                connection.execute(step.encode())
        store.check()
        assert store.setup() == []


def test_tables_of_an_older_release_are_upgraded_in_place(own_url: str, pg_store_url: str) -> None:
    with psycopg.connect(pg_store_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE shop.stanchion_jobs DROP COLUMN tenant")
        connection.execute("UPDATE shop.stanchion_meta SET version = version - 1")
    with closing(open_store(own_url)) as store:
        dry = store.setup(dry_run=True)
        assert dry[0] == 'SET search_path TO "shop";'
        assert any("ADD COLUMN tenant" in step for step in dry)
        assert [step for step in store.setup() if "tenant" in step] == [step for step in dry if "tenant" in step]
    with closing(Stanchion(own_url)) as app:
        app.queue("orders").push(1, tenant="a")


def test_tables_can_be_moved_into_a_schema(other: Stanchion, pg_store_url: str) -> None:
    other.queue("orders").push("moved")
    other.close()
    with psycopg.connect(pg_store_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA shop; DROP FUNCTION stanchion_push")
        for name in sql_tables():
            connection.execute(f"ALTER TABLE {name} SET SCHEMA shop".encode())
    with closing(Stanchion(f"{pg_store_url}?schema=shop")) as app:
        app.setup()
        with psycopg.connect(pg_store_url) as connection:
            connection.execute("SELECT shop.stanchion_push('orders', '2')")
        assert [job.payload for job in app.queue("orders").reserve(5)] == ["moved", 2]


@pytest.mark.usefixtures("own_url")
@pytest.mark.parametrize("schema", ["stock", "order"])
def test_setup_mends_the_function_of_a_renamed_schema(pg_store_url: str, schema: str) -> None:
    with psycopg.connect(pg_store_url, autocommit=True) as connection:
        connection.execute(f'ALTER SCHEMA shop RENAME TO "{schema}"'.encode())
    with closing(Stanchion(f"{pg_store_url}?schema={schema}")) as app:
        app.setup()
        hears_of_plain_sql(app, pg_store_url, schema)


def test_setup_mends_the_function_of_a_schema_found_by_search_path(pg_url: str) -> None:
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA shop")
    with closing(open_store(f"{pg_url}?options=-csearch_path%3Dshop")) as found:
        found.setup()
    with closing(Stanchion(f"{pg_url}?schema=shop")) as app:
        app.setup()
        hears_of_plain_sql(app, pg_url, "shop")


def hears_of_plain_sql(app: Stanchion, url: str, schema: str) -> None:
    listener = app.store.listen(["orders"])
    with closing(listener):
        while listener.wait(0.5):
            pass
        with psycopg.connect(url) as connection:
            connection.execute(f"""SELECT "{schema}".stanchion_push('orders', '1')""".encode())
        assert listener.wait(60)
    assert [job.payload for job in app.queue("orders").reserve(5)] == [1]
    assert app.store.setup() == app.store.setup(dry_run=True) == []


def test_a_default_schema_whose_name_needs_quotes(pg_url: str) -> None:
    with psycopg.connect(pg_url, autocommit=True) as connection:
        for change, name in (('CREATE SCHEMA "Shop"', "Shop"), ('ALTER SCHEMA "Shop" RENAME TO "Stock"', "Stock")):
            connection.execute(change)
            with closing(Stanchion(f"{pg_url}?options=-csearch_path%3D%22{name}%22")) as app:
                app.setup()
                hears_of_plain_sql(app, pg_url, name)


def test_a_role_without_rights_on_the_schema_is_told_so(pg_url: str) -> None:
    role = pg_url.rpartition("/")[2].replace("test_", "app_")
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN; CREATE SCHEMA shop".encode())
        url = pg_url.replace("stanchion@", f"{role}@") + "?schema=shop"
        try:
            for grant in ("SELECT 1", f"GRANT USAGE ON SCHEMA shop TO {role}"):
                connection.execute(grant.encode())
                with (
                    closing(open_store(url)) as store,
                    pytest.raises(StoreUnavailable, match="schema=shop refuses this"),
                ):
                    store.setup()
        finally:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


@pytest.mark.parametrize("by_hand", [False, True], ids=["setup", "by_hand"])
def test_a_role_needs_no_right_to_make_schemas(own_url: str, pg_store_url: str, by_hand: bool) -> None:
    role = pg_store_url.rpartition("/")[2].replace("test_", "app_")
    with psycopg.connect(pg_store_url, autocommit=True) as connection:
        connection.execute(
            f"DROP SCHEMA shop CASCADE; CREATE ROLE {role} LOGIN; CREATE SCHEMA shop AUTHORIZATION {role}"
        )
    try:
        own = own_url.replace("stanchion@", f"{role}@")
        with closing(open_store(own)) as store, psycopg.connect(own.partition("?")[0]) as connection:
            for step in store.setup(dry_run=True) if by_hand else ():
                connection.execute(step.encode())
        with closing(Stanchion(own)) as app:
            app.setup()
            app.queue("orders").push(1)
            assert app.queue("orders").size().ready == 1
    finally:
        with psycopg.connect(pg_store_url, autocommit=True) as connection:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def charge_of(app: Stanchion) -> Any:
    @app.task(name="charge")
    def charge(order: int) -> int:
        return order

    return charge


def use(app: Stanchion, charge: Any, tx: Any = None) -> None:
    queue = app.queue("orders")
    queue.push(1, key="k", tx=tx)
    queue.push_many([Push(n, priority=n) for n in range(3)], tx=tx)
    assert queue.push(2, key="k", tx=tx).duplicate
    charge.using(tx=tx).enqueue(17)
    chain(charge.s(20), charge.s()).enqueue(tx)


@pytest.mark.parametrize("form", of_postgres(SYNC_FORMS))
@pytest.mark.parametrize("path", ["public", "elsewhere"])
def test_synchronous_forms_join_whatever_their_search_path(
    app: Stanchion, other: Stanchion, at: URL, form: Sync, path: str
) -> None:
    app.queue("orders").push("held")
    (held,) = app.queue("orders").reserve()
    charge = charge_of(app)
    with form(at) as (tx, execute, commit, rollback):
        for end in (rollback, commit):
            execute(f"SET search_path TO {path}")
            use(app, charge, tx)
            held.commit("done", tx=tx)
            end()
    assert app.queue("orders").size().ready == 4
    assert app.queue("orders").get(held.id).state is JobState.DONE  # type: ignore[union-attr]
    assert app.drain(["default"]) == 3
    assert other.queues() == []


@pytest.mark.parametrize("form", of_postgres(ASYNC_FORMS))
def test_asynchronous_forms_join_whatever_their_search_path(
    app: Stanchion, other: Stanchion, at: URL, form: Async
) -> None:
    queue = app.queue("orders")
    queue.push("held")
    (held,) = queue.reserve()
    charge = charge_of(app)

    async def work() -> None:
        for kept in (False, True):
            async with form(at) as (tx, execute, commit, rollback):
                await execute("SET LOCAL search_path TO elsewhere")
                await queue.apush(1, key="k", tx=tx)
                await queue.apush_many([Push(n, priority=n) for n in range(3)], tx=tx)
                await chain(charge.s(20), charge.s()).aenqueue(tx)
                await held.acommit("done", tx=tx)
                await (commit if kept else rollback)()

    asyncio.run(work())
    assert queue.size().ready == 4
    assert queue.get(held.id).state is JobState.DONE  # type: ignore[union-attr]
    assert app.drain(["default"]) == 2
    assert other.queues() == []


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_a_translation_of_schemas_by_the_caller_does_not_matter(
    app: Stanchion, other: Stanchion, at: URL, driver: str
) -> None:
    async def work() -> None:
        engine = create_async_engine(at.set(drivername=f"postgresql+{driver}"))
        tenant = engine.execution_options(schema_translate_map={None: "tenant"})
        try:
            async with AsyncSession(tenant) as session, session.begin():
                await app.queue("orders").apush(1, key="k", tx=session)
                await app.queue("orders").apush_many([2, 3], tx=session)
                await other.queue("orders").apush(4, tx=session)
        finally:
            await engine.dispose()

    asyncio.run(work())
    assert sorted(job.payload for job in app.queue("orders").reserve(5)) == [1, 2, 3]
    assert [job.payload for job in other.queue("orders").reserve(5)] == [4]


def test_a_transaction_of_another_database_is_refused(app: Stanchion, pg_url: str) -> None:
    with closing(open_store(f"{pg_url}?schema=shop")) as elsewhere:
        elsewhere.setup()
    with (
        psycopg.connect(pg_url) as tx,
        pytest.raises(CannotJoin, match=r"than the queue, which is in \S+\?schema=shop;"),
    ):
        app.queue("orders").push(1, tx=tx)


def test_signals_stay_in_their_schema(app: Stanchion, other: Stanchion, pg_store_url: str) -> None:
    listener, others = app.store.listen(["orders"]), other.store.listen(["orders"])
    try:
        for each in (listener, others):
            while each.wait(0.5):
                pass  # the sign that it listens
        with psycopg.connect(pg_store_url) as connection:
            connection.execute("SELECT shop.stanchion_push('orders', '1')")
            app.queue("orders").push(2, tx=connection)
        assert listener.wait(60)
        assert not others.wait(0.5)
        with psycopg.connect(pg_store_url) as connection:
            connection.execute("SELECT stanchion_push('orders', '3')")
        assert others.wait(60)
    finally:
        listener.close()
        others.close()
    assert sorted(job.payload for job in app.queue("orders").reserve(5)) == [1, 2]
    assert [job.payload for job in other.queue("orders").reserve(5)] == [3]


def test_the_schema_public_is_the_default_one(other: Stanchion, pg_store_url: str) -> None:
    with closing(Stanchion(f"{pg_store_url}?schema=public")) as named:
        listeners = [app.store.listen(["orders"]) for app in (other, named)]
        try:
            for each in listeners:
                while each.wait(0.5):
                    pass
            for app in (other, named):
                app.queue("orders").push(1)
                assert all(each.wait(60) for each in listeners)
        finally:
            for each in listeners:
                each.close()
        assert named.queue("orders").size().ready == 2
        assert named.store.setup() == other.store.setup() == []


def test_behind_a_pooler_in_transaction_mode(
    app: Stanchion, other: Stanchion, postgres_server: PostgresServer, pg_store_url: str
) -> None:
    with PgBouncer(postgres_server, pool_size=2) as pool:
        url = pool.url(str(make_url(pg_store_url).database))
        with closing(Stanchion(f"{url}?schema=shop")) as pooled, closing(Stanchion(url)) as beside:
            pooled.setup()
            for n in range(12):  # until statements are prepared, in sessions that both share
                pooled.queue("orders").push(n)
                beside.queue("orders").push(-n)
                for each in (pooled, beside):
                    (job,) = each.queue("orders").reserve()
                    job.commit()
            with psycopg.connect(url) as tx:
                pooled.queue("orders").push("joined", tx=tx)
            use(pooled, charge_of(pooled))
            assert pooled.drain(["default"]) == 3
    assert app.queue("orders").size().ready == 5
    assert other.queue("orders").size().ready == 0


def test_texts_of_a_search_are_left_alone(app: Stanchion) -> None:
    app.queue("stanchion_jobs").push(1)
    app.queue("orders").push(2)
    pytest.importorskip("adbc_driver_postgresql")
    batches = app.store.select_arrow(Query(where=(Condition("queue", "=", "stanchion_jobs"),), columns=("id",)))  # type: ignore[attr-defined]
    assert sum(batch.num_rows for batch in batches) == 1


def test_a_sample_is_of_its_tables(pg_url: str) -> None:
    with closing(Stanchion(f"{pg_url}?schema=shop")) as app:
        app.setup()
        app.queue("orders").push_many(range(500))
        assert len(app.store.partition(Query(), 4)) == 4


def test_a_schema_that_is_not_there_is_named(pg_store_url: str) -> None:
    with (
        closing(Stanchion(f"{pg_store_url}?schema=missing")) as app,
        pytest.raises(SchemaMismatch, match=r"the schema missing has no Stanchion tables.*setup"),
    ):
        app.queue("orders").push(1)
