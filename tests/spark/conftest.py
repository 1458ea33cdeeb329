"""One Spark for all tests that need it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stanchion import Stanchion
from stanchion.spark import session
from tests.spark.places import opened
from tests.spark.supervision import one_at_a_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JDBC_DRIVER = Path("/usr/share/java/postgresql.jar")
"""Where Debian's libpostgresql-jdbc-java puts it."""

FAST = {
    "spark.driver.extraClassPath": str(JDBC_DRIVER),
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2] / "examples"),
    "spark.log.level": "ERROR",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings for many small queries."""


def nightly(value: str) -> Any:
    """Return a parameter that is left out of `make test`: without Spark it is tried there too."""
    return pytest.param(value, marks=pytest.mark.nightly)


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The session that all tests of this process share: two cores; no test may stop it."""
    with one_at_a_time():
        running = session("local[2]", **FAST)
    yield running
    running.stop()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Stanchion]:
    """An app over an empty SQLite file."""
    with opened(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
        yield app


@pytest.fixture
def pg_app(pg_url: str) -> Iterator[Stanchion]:
    """An app over an empty PostgreSQL database."""
    with opened(pg_url) as app:
        yield app


@pytest.fixture(params=["sqlite", "postgresql"])
def sql_app(request: pytest.FixtureRequest) -> Stanchion:
    """An app over each of the stores that give Arrow."""
    found: Stanchion = request.getfixturevalue("app" if request.param == "sqlite" else "pg_app")
    return found


@pytest.fixture(params=[nightly("mariadb_url"), "redis_url", nightly("mongo_url")])
def other_app(request: pytest.FixtureRequest) -> Iterator[Stanchion]:
    """An app over each of the others."""
    with opened(request.getfixturevalue(request.param)) as app:
        yield app
