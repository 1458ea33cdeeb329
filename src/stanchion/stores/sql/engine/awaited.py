"""A runner of statements on a caller's connection of an asynchronous driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import Executable

from stanchion.core.concurrency.caller import awaited
from stanchion.stores.sql.engine.runner import Asked, Compiler, Given, JoinedRunner, Params, Row, ready


class AsyncDriver(Protocol):
    """Runs statements on a connection of one asynchronous driver."""

    async def rows(self, sql: str, params: Given) -> list[Row]:
        """Run a statement; return its rows."""

    async def change(self, sql: str, params: Given) -> int:
        """Run a statement; return the number of rows it changed."""


class AwaitedRunner(JoinedRunner):
    """Runs statements in the task that awaits the call."""

    def __init__(self, driver: AsyncDriver, compiler: Compiler, given: Params) -> None:
        super().__init__()
        self._driver, self._compiler, self._given = driver, compiler, given

    def rows(self, statement: Executable, params: Params | None = None) -> list[Row]:
        return self.all_rows([(statement, params or {})])[0]

    def all_rows(self, asked: Sequence[Asked], *, last: bool = False) -> list[list[Row]]:
        statements = [ready(self._compiler, self._given, *one) for one in asked]

        async def run() -> list[list[Row]]:
            return [await self._driver.rows(*one) for one in statements]

        return awaited(run)

    def change(self, statement: Executable, params: Params | None = None) -> int:
        return self.change_each(statement, [params or {}])

    def send(self, statement: Executable, params: Params | None = None) -> None:
        self.change_each(statement, [params or {}])

    def change_each(self, statement: Executable, batch: Sequence[Params]) -> int:
        statements = [ready(self._compiler, self._given, statement, params) for params in batch]

        async def run() -> int:
            return sum([await self._driver.change(*one) for one in statements])

        return awaited(run) if statements else 0

    def send_each(self, statement: Executable, batch: Sequence[Params]) -> None:
        self.change_each(statement, batch)
