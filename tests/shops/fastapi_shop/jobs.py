"""The jobs of the shop."""

from __future__ import annotations

import os
from datetime import date
from decimal import Decimal
from uuid import UUID

from stanchion import Bury, Stanchion

app = Stanchion(os.environ.get("SHOP_DATABASE", "sqlite:///shop.db"))

charged: list[tuple[UUID, Decimal]] = []
mails: list[str] = []
outages: list[str] = []
"""Errors that the payment service answers with, one for each call, before it works again."""


class ServiceDown(Exception):
    """The payment service does not answer."""


@app.task(name="charge", queue="payments", retry_on=ServiceDown, timeout=30)
async def charge(order: UUID, amount: Decimal) -> str:
    """Charge a customer; return the receipt's number."""
    if outages:
        raise ServiceDown(outages.pop(0))
    if amount > 1000:
        raise Bury(f"the card is refused for {amount}")
    charged.append((order, amount))
    return f"R-{order.hex[:8]}"


@app.task(name="confirm", queue="mail")
def confirm(receipt: str, to: str) -> str:
    """Send the receipt, which is the result of the job before this one."""
    mails.append(f"{to}: {receipt}")
    return receipt


@app.task(name="apologize", queue="mail")
def apologize(order: UUID, to: str) -> None:
    """Tell the customer that the order failed."""
    mails.append(f"{to}: order {order.hex[:8]} failed")


@app.cron("0 6 * * *", queue="reports", tz="Europe/Paris")
@app.task(name="report")
def report(day: date | None = None) -> int:
    """Count the mails so far."""
    return len(mails) if day is None else day.toordinal()
