"""Orders become jobs with their transaction, and jobs become receipts, mails or apologies."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from fastapi.testclient import TestClient

from pytest_stanchion import AssertEnqueued
from stanchion import Stanchion
from stanchion.app.testing import Clock
from tests.shops.fastapi_shop import jobs


def order(client: TestClient, amount: str = "19.90", article: str = "tea", status: int = 201) -> dict[str, Any]:
    """Place an order."""
    answer = client.post("/orders", json={"article": article, "customer": "ana@example.com", "amount": amount})
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_an_order_is_charged_and_confirmed(
    stanchion_app: Stanchion, client: TestClient, assert_enqueued: AssertEnqueued
) -> None:
    placed = order(client)
    number = UUID(placed["order"])
    assert_enqueued(jobs.charge, args=(number, Decimal("19.90")), times=1)
    assert client.get(f"/orders/{number}").json()["state"] == "running"
    stanchion_app.drain()
    assert jobs.charged == [(number, Decimal("19.90"))]
    receipt = f"R-{number.hex[:8]}"
    assert jobs.mails == [f"ana@example.com: {receipt}"]
    assert client.get(f"/orders/{number}").json() == {"order": str(number), "state": "done", "receipt": receipt}


def test_an_order_that_is_rolled_back_has_no_job(client: TestClient, assert_enqueued: AssertEnqueued) -> None:
    order(client)
    order(client)
    assert order(client, status=409) == {"detail": "out of stock"}
    assert_enqueued(jobs.charge, times=2)


def test_an_outage_is_retried(stanchion_app: Stanchion, stanchion_clock: Clock, client: TestClient) -> None:
    jobs.outages += ["503", "502"]
    placed = order(client)
    for failures in (1, 2):
        stanchion_app.drain()
        [job] = stanchion_app.assert_enqueued(jobs.charge, times=1)
        assert (job.failures, len(jobs.charged)) == (failures, 0)
        stanchion_clock.advance(60)
    stanchion_app.drain()
    assert client.get(f"/orders/{placed['order']}").json()["state"] == "done"
    [job] = stanchion_app.assert_enqueued(jobs.charge, times=1)
    assert [entry["error"] for entry in job.errors] == ["ServiceDown: 503", "ServiceDown: 502"]


def test_a_refused_card_is_answered_with_an_apology(stanchion_app: Stanchion, client: TestClient) -> None:
    placed = order(client, amount="5000")
    stanchion_app.drain()
    assert jobs.mails == [f"ana@example.com: order {UUID(placed['order']).hex[:8]} failed"]
    assert client.get(f"/orders/{placed['order']}").json()["state"] == "failed"


def test_a_cancelled_order_is_not_charged(stanchion_app: Stanchion, client: TestClient) -> None:
    placed = order(client)
    assert client.delete(f"/orders/{placed['order']}").status_code == 202
    assert stanchion_app.drain() == 0
    assert client.get(f"/orders/{placed['order']}").json()["state"] == "cancelled"
    assert not jobs.charged


@pytest.mark.stanchion(at=datetime(2031, 5, 1, tzinfo=UTC))
def test_the_report_is_made_every_morning(stanchion_app: Stanchion, stanchion_clock: Clock) -> None:
    stanchion_clock.advance(2 * 86_400, ticking=True)
    found = stanchion_app.assert_enqueued(jobs.report, times=2)
    assert [job.run_at.hour for job in found] == [4, 4]  # 6 o'clock in Paris
    assert stanchion_app.drain() == 2


@pytest.mark.stanchion(run="at_once")
def test_the_jobs_run_with_the_commit(stanchion_app: Stanchion, client: TestClient) -> None:
    assert client.get(f"/orders/{order(client)['order']}").json()["state"] == "done"
    assert stanchion_app.find(state="done", queue="mail")
