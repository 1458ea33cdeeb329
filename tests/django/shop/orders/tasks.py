"""The tasks of the shop."""

from __future__ import annotations

from importlib.util import find_spec

from django.db.models import F

if find_spec("django.tasks"):
    from django.tasks import task
else:
    from django_tasks import task


class BankRefusesError(Exception):
    """The customer's bank refuses."""


@task(priority=20)
def charge(number: int) -> str:
    """Charge the customer of an order; those of broken articles are refused."""
    from orders.models import Order

    orders = Order.objects.filter(pk=number)
    orders.update(attempts=F("attempts") + 1)
    order = orders.get()
    if order.article == "broken":
        raise BankRefusesError(f"no money for order {number}")
    orders.update(paid=True)
    return f"receipt for {order.article}"


@task(queue_name="mail")
def remind(text: str) -> int:
    """Send a reminder."""
    return len(text)


@task(backend="reports", queue_name="reports")
def report(day: str) -> str:
    """Make a report, whose job is in another database."""
    return f"report of {day}"
