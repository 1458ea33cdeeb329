"""What a group of measurements works with: sizes, a directory, and databases that start when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Self

from benchmarks.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Sizes:
    """How much of everything; the jobs of a contender with a limit of its own are fewer."""

    rounds: int
    singles: int
    jobs: int
    samples: int
    committers: int
    commits: int
    backlog: int
    rows: int
    streamed: int


class Bench:
    """The surroundings of a run.

    `names`: the contenders that were asked for. `postgres`: the URL of a server to use. `jdbc`: the jar of PostgreSQL's
    driver, for Spark.
    """

    def __init__(
        self,
        directory: Path,
        sizes: Sizes,
        names: Collection[str],
        postgres: str | None = None,
        jdbc: Path | None = None,
    ) -> None:
        self.sizes, self.names = sizes, names
        self._jdbc = jdbc
        self._spark: SparkSession | None = None
        self._directory = directory
        self._postgres = postgres
        self._open: dict[str, Database] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def database(self, name: str) -> Database:
        """Return a database, started for the rest of the run."""
        if name not in self._open:
            self._open[name] = self._stack.enter_context(_OPENERS[name](self))
        return self._open[name]

    def spark(self) -> SparkSession:
        """Return a Spark, started for the rest of the run."""
        if self._spark is None:
            from benchmarks.spark.engine import started

            self._spark = self._stack.enter_context(started(self._jdbc))
        return self._spark

    def facts(self) -> dict[str, str]:
        """Return what is worth knowing of the databases that were used."""
        return {name: fact for database in self._open.values() for name, fact in database.facts().items()}

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """Give an empty directory."""
        directory = self._directory / name
        directory.mkdir()
        try:
            yield directory
        finally:
            rmtree(directory)

    def postgresql(self) -> AbstractContextManager[Database]:
        """Start PostgreSQL."""
        from benchmarks.databases.postgres import server

        return server(self._postgres)

    def mariadb(self) -> AbstractContextManager[Database]:
        """Start MariaDB."""
        from benchmarks.databases.mariadb import server

        return server()

    def redis(self) -> AbstractContextManager[Database]:
        """Return Redis, which starts a server for each measurement."""
        from benchmarks.databases.redis import Redis

        return nullcontext(Redis())

    def sqlite(self, *, durable: bool) -> AbstractContextManager[Database]:
        """Return SQLite in one of its two modes."""
        from benchmarks.databases.sqlite import Sqlite

        return nullcontext(Sqlite(self._directory, durable=durable))


_OPENERS: dict[str, Callable[[Bench], AbstractContextManager[Database]]] = {
    "postgresql": Bench.postgresql,
    "mariadb": Bench.mariadb,
    "redis": Bench.redis,
    "sqlite-durable": lambda bench: bench.sqlite(durable=True),
    "sqlite-relaxed": lambda bench: bench.sqlite(durable=False),
}
