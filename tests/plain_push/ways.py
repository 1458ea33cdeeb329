"""Ways to push a job without the package: clients of the databases as programs of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from stanchion import Stanchion
from tests.servers.process import ServerMissing


class Refused(Exception):
    """The database has refused a push; the message is what the client printed."""


class Way(ABC):
    """One client on the database of one store."""

    program: str
    package: str
    refusals: Sequence[str] = ()
    """What the client prints for a refusal, if its exit code does not tell."""

    def __init__(self, url: str) -> None:
        self.url = url
        if shutil.which(self.program) is None:
            raise ServerMissing(f"no {self.program}: install it (Debian: apt-get install {self.package})")

    def push(self, queue: str | None, payload: str | None = None, **options: Any) -> str:
        """Push a job, with the payload as JSON; return the printed id. Raises Refused."""
        return self.run([self.pushing(queue, payload, options)])[-1]

    @abstractmethod
    def pushing(self, queue: str | None, payload: str | None, options: dict[str, Any]) -> str:
        """Return what the client is to be told to push a job, and to print its id."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that reads from its standard input."""

    def run(self, lines: Sequence[str]) -> list[str]:
        """Tell the client all of this in one session; return the lines that it prints."""
        done = subprocess.run(
            self.command(), input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode or any(word in done.stdout for word in self.refusals):
            raise Refused(done.stderr + done.stdout)
        return [line for line in done.stdout.splitlines() if line]


class SqlWay(Way):
    """A client that takes SQL."""

    def text(self, value: str) -> str:
        """Return a literal."""
        return "'" + value.replace("'", "''") + "'"

    def literal(self, value: Any) -> str:
        """Return any value, lists and mappings as JSON."""
        if value is None:
            return "NULL"
        if isinstance(value, (list, dict)):
            return self.text(json.dumps(value, ensure_ascii=False))
        return self.text(value) if isinstance(value, str) else repr(value)


class Psql(SqlWay):
    """PostgreSQL: a function with named parameters."""

    program, package = "psql", "postgresql-client"

    def pushing(self, queue: str | None, payload: str | None, options: dict[str, Any]) -> str:
        return f"SELECT {self.call(queue, payload, options)};"

    def call(self, queue: str | None, payload: str | None, options: dict[str, Any]) -> str:
        """Return the call alone."""
        named = [f"{name} => {self.literal(value)}" for name, value in options.items()]
        return f"stanchion_push({', '.join([self.literal(queue), self.literal(payload), *named])})"

    def command(self) -> list[str]:
        return ["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", self.url]


class MariaDBClient(SqlWay):
    """MariaDB: a procedure whose options are JSON."""

    program, package = "mariadb", "mariadb-client"

    def text(self, value: str) -> str:
        return super().text(value.replace("\\", "\\\\"))

    def pushing(self, queue: str | None, payload: str | None, options: dict[str, Any]) -> str:
        return f"{self.call(queue, payload, options)}; SELECT @id;"

    def call(self, queue: str | None, payload: str | None, options: dict[str, Any]) -> str:
        """Return the call alone."""
        given = (self.literal(value) for value in (queue, payload, options or None))
        return f"CALL stanchion_push({', '.join(given)}, @id)"

    def command(self) -> list[str]:
        url = make_url(self.url)
        at = [f"-h{url.host}", f"-P{url.port}", f"-u{url.username}", f"-p{url.password}"]
        return ["mariadb", "--no-defaults", *at, "-BN", "--default-character-set=utf8mb4", str(url.database)]


class Sqlite3(SqlWay):
    """SQLite: an insert into a view."""

    program, package = "sqlite3", "sqlite3"

    def pushing(self, queue: str | None, payload: str | None, options: dict[str, Any]) -> str:
        its_id = "SELECT id FROM stanchion_push"
        if options.get("key") is not None:
            at = f"queue = {self.literal(queue)} AND key = {self.literal(options['key'])}"
            its_id = f"SELECT id FROM stanchion_jobs WHERE {at}"
        return f"BEGIN IMMEDIATE; {self.call(queue, payload, options)}; {its_id}; COMMIT;"

    def call(self, queue: str | None, payload: str | None, options: dict[str, Any]) -> str:
        """Return the insert alone."""
        values = {"queue": queue, "payload": payload, **options}
        columns, given = ", ".join(values), ", ".join(map(self.literal, values.values()))
        return f"INSERT INTO stanchion_push ({columns}) VALUES ({given})"

    def command(self) -> list[str]:
        return ["sqlite3", "-bail", "-cmd", ".timeout 60000", str(make_url(self.url).database)]


class RedisCli(Way):
    """Redis: a function on the prefix of the queue's keys."""

    program, package = "redis-cli", "redis-tools"
    refusals = "ERR ", "NOPERM "

    def pushing(self, queue: str | None, payload: str | None, options: dict[str, Any]) -> str:
        tag = (queue or "").replace("%", "%25").replace("}", "%7D")
        words = [f"{self.prefix}:{{{tag}}}:", payload or ""]
        for name, value in options.items():
            if value is not None:
                given = json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)
                words += [name, given]
        return " ".join(["FCALL", "stanchion_push", "1", *map(self.quoted, words)])

    prefix = "stanchion"

    def quoted(self, text: str) -> str:
        """Return one argument."""
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    def command(self) -> list[str]:
        return ["redis-cli", "-u", self.url]


def refuses_keys_of_partitions(way: Way, app: Stanchion) -> None:
    """Check that a push with a key to a queue with partitions is refused, and one without a key is stored."""
    queue = app.queue("parted", partitions=3)
    queue.push(0, key="k")
    for option in ("key", "order_key"):
        with pytest.raises(Refused, match="partitions takes no key"):
            way.push("parted", "1", **{option: "k"})
    way.push("parted", "2")
    assert sorted(job.payload for job in queue.reserve(5)) == [0, 2]
