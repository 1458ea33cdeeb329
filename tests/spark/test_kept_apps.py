"""The apps that a process of Spark keeps."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.fernet import Fernet

from stanchion import Stanchion
from stanchion.context import context, context_of
from stanchion.partitions.store import PartitionedStore
from stanchion.spark.datasource.kept_apps import KeptApps
from stanchion.spark.datasource.options import Place
from tests.spark.places import write
from tests.worker.conftest import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOON, NEVER = 0.01, 1000.0


class Closes(Stanchion):
    """An app that knows whether it was closed."""

    closed = False

    def close(self) -> None:
        self.closed = True
        super().close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


def test_calls_share_the_app_of_their_place(url: str) -> None:
    apps = KeptApps(NEVER)
    with apps.lend("one", lambda: Closes(url)) as first, apps.lend("one", lambda: Closes(url)) as second:
        assert first is second
    with apps.lend("one", lambda: Closes(url)) as third, apps.lend("other", lambda: Closes(url)) as other:
        assert third is first
        assert other is not first


def test_an_app_is_closed_when_it_is_idle_and_not_before(url: str) -> None:
    apps = KeptApps(SOON)
    with apps.lend("used", lambda: Closes(url)) as used:
        with apps.lend("used", lambda: Closes(url)), apps.lend("idle", lambda: Closes(url)) as idle:
            pass
        until(lambda: bool(getattr(idle, "closed")))  # noqa: B009 - of the class above
        assert not getattr(used, "closed")  # noqa: B009
        assert used.store.now()
    until(lambda: bool(getattr(used, "closed")))  # noqa: B009
    with apps.lend("used", lambda: Closes(url)) as again:
        assert again is not used


def test_an_error_gives_the_app_back(url: str) -> None:
    apps = KeptApps(SOON)
    with pytest.raises(ZeroDivisionError), apps.lend("one", lambda: Closes(url)) as app:
        _ = 1 / 0
    until(lambda: bool(getattr(app, "closed")))  # noqa: B009


def test_a_forked_child_has_an_app_of_its_own(url: str) -> None:
    apps = KeptApps(NEVER)
    with apps.lend("one", lambda: Stanchion(url)) as mine:
        mine.setup()
        mine.queue("q").push(1)
        child = os.fork()
        if not child:
            with apps.lend("one", lambda: Stanchion(url)) as own:
                own.queue("q").push(2)
                os._exit(0 if own is not mine else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert mine.queue("q").size().total == 2


def test_a_kept_app_sees_that_a_queue_was_partitioned(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apps = KeptApps(NEVER)
    monkeypatch.setattr(context, "READ_SECONDS", 0.0)
    with apps.lend("one", lambda: Stanchion(url)) as app:
        app.setup()
        app.queue("q").push(1)
        assert not isinstance(app.store, PartitionedStore)
    other = Stanchion(url)
    other.queue("q").configure(partitions=2)
    other.close()
    with apps.lend("one", lambda: Stanchion(url)) as app:
        assert isinstance(app.store, PartitionedStore)


def test_keys_of_the_environment_are_part_of_the_place(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(url)
    with place.app() as without:
        monkeypatch.setenv("STANCHION_KEYS", Fernet.generate_key().decode())
        with place.app() as with_keys:
            assert (context_of(without).codec.has_keys, context_of(with_keys).codec.has_keys) == (False, True)


@pytest.mark.nightly
def test_processes_of_spark_connect_once_and_disconnect_when_idle(spark: "SparkSession", pg_app: Stanchion) -> None:
    def connections(of: str) -> int:
        with pg_app.transaction() as connection:
            return int(connection.exec_driver_sql(of).scalar() or 0)

    rows = spark.range(0, 200, 1, 40).selectExpr("struct(id) AS payload")
    made = "SELECT sessions FROM pg_stat_database WHERE datname = current_database()"
    before = connections(made)
    write(rows, pg_app, queue="q")
    assert pg_app.queue("q").size().total == 200
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    until(lambda: connections(others) == 0)
    # 40 tasks, and the commit: two tasks run at a time, in processes that serve further tasks.
    assert connections(made) - before < 20


@pytest.mark.timeout(120)
def test_a_block_may_end_while_another_begins(url: str) -> None:
    """As it does if the garbage collector finds an abandoned reader just then."""
    apps = KeptApps(NEVER)
    abandoned = apps.lend("one", lambda: Closes(url))
    abandoned.__enter__()

    def opened() -> Closes:
        abandoned.__exit__(None, None, None)
        return Closes(url)

    with apps.lend("other", opened) as other:
        assert other.store.now()
