"""The tables of the shop, and the session of a request."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from decimal import Decimal

from sqlalchemy import Numeric
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

engine = create_async_engine(os.environ.get("SHOP_ASYNC_DATABASE", "sqlite+aiosqlite:///shop.db"))
Session = async_sessionmaker(engine, expire_on_commit=False)


class Base(DeclarativeBase):
    """The tables."""


class Order(Base):
    """An order."""

    __tablename__ = "orders"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    article: Mapped[str]
    customer: Mapped[str]
    amount: Mapped[Decimal] = mapped_column(Numeric(10, 2))
    flow: Mapped[str | None]


async def session() -> AsyncIterator[AsyncSession]:
    """Open a session, which rolls back what was not committed."""
    async with Session() as opened:
        yield opened
