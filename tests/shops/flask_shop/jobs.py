"""The jobs of the shop, and the database that they share with it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sqlalchemy import create_engine
from sqlalchemy.orm import Session as DatabaseSession
from sqlalchemy.orm import sessionmaker

from stanchion import RetryAfter, Stanchion, current_job, group

DATABASE = os.environ.get("SHOP_DATABASE", "sqlite:///shop.db")

app = Stanchion(DATABASE)
engine = create_engine(DATABASE)
Session = sessionmaker(engine)

shipped: list[str] = []
closed: set[str] = set()
"""Carriers that take no parcels now."""


@dataclass
class Parcel:
    """What is shipped together."""

    order: int
    articles: list[str]


@app.task(name="pack", queue="warehouse", priority=20)
def pack(order: int, article: str) -> str:
    """Take an article from its shelf."""
    return f"{article} of {order}"


@app.task(name="ship", queue="carriers")
def ship(articles: list[str], order: int, carrier: str) -> Parcel:
    """Hand a parcel to a carrier, later if it is closed."""
    if carrier in closed:
        raise RetryAfter(3600)
    job = current_job()
    shipped.append(f"{carrier}: {order}, attempt {job.attempt if job else 0}")
    return Parcel(order, articles)


def fulfil(order: int, articles: list[str], carrier: str, session: DatabaseSession) -> str:
    """Store the jobs of an order in its transaction; return the id of their flow."""
    packed = group(pack.s(order, article) for article in articles)
    return (packed | ship.s(order=order, carrier=carrier)).enqueue(tx=session).id
