"""The shop under test: its jobs, and a client on an empty database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from stanchion import Stanchion
from tests.shops.fastapi_shop import database, jobs
from tests.shops.fastapi_shop.web import web


@pytest.fixture(scope="session")
def stanchion_project() -> Stanchion:
    """The app of the shop's jobs."""
    return jobs.app


@pytest.fixture(autouse=True)
def _services() -> None:
    for one in (jobs.charged, jobs.mails, jobs.outages):
        one.clear()


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A client of the web server, whose database is empty."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/test.db")

    async def make_tables() -> None:
        async with engine.begin() as connection:
            await connection.run_sync(database.Base.metadata.create_all)
        await engine.dispose()

    asyncio.run(make_tables())
    monkeypatch.setattr(database, "Session", async_sessionmaker(engine, expire_on_commit=False))
    with TestClient(web) as client:
        yield client
