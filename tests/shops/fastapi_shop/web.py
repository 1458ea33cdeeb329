"""The web server of the shop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Annotated
from uuid import UUID

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from tests.shops.fastapi_shop import jobs
from tests.shops.fastapi_shop.database import Order, session


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Close the app of the jobs with the server."""
    async with jobs.app:
        yield


web = FastAPI(lifespan=lifespan)
Database = Annotated[AsyncSession, Depends(session)]


class NewOrder(BaseModel):
    """What a customer orders."""

    article: str
    customer: str
    amount: Decimal


class Placed(BaseModel):
    """An order, and its state."""

    order: UUID
    state: str
    receipt: str | None = None


@web.post("/orders", status_code=201)
async def place(new: NewOrder, database: Database) -> Placed:
    """Store an order and its jobs in one transaction, unless the article is out of stock."""
    placed = Order(article=new.article, customer=new.customer, amount=new.amount)
    database.add(placed)
    await database.flush()
    payment = jobs.charge.s(placed.id, placed.amount) | jobs.confirm.s(to=placed.customer)
    handle = await payment.on_failure(jobs.apologize.s(placed.id, placed.customer)).aenqueue(tx=database)
    placed.flow = handle.id
    taken = await database.scalar(select(func.count()).where(Order.article == new.article))
    if taken is not None and taken > 2:
        raise HTTPException(409, "out of stock")
    await database.commit()
    return Placed(order=placed.id, state="running")


@web.get("/orders/{order}")
async def show(order: UUID, database: Database) -> Placed:
    """Return the state of an order, and its receipt."""
    found = await database.get(Order, order)
    if found is None or found.flow is None:
        raise HTTPException(404)
    flow = jobs.app.flow(found.flow)
    state = await flow.aget_state()
    return Placed(order=order, state=state, receipt=await flow.aresult(timeout=0) if state == "done" else None)


@web.delete("/orders/{order}", status_code=202)
async def cancel(order: UUID, database: Database) -> None:
    """Cancel an order that is not charged yet."""
    found = await database.get(Order, order)
    if found is None or found.flow is None:
        raise HTTPException(404)
    await jobs.app.flow(found.flow).acancel()
