"""Orders become jobs with their transaction; articles are packed one by one, and shipped together."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from pytest_stanchion import AssertEnqueued
from stanchion import Stanchion
from stanchion.app.testing import Clock
from tests.shops.flask_shop import jobs


def order(client: FlaskClient, *articles: str, status: int = 201) -> Any:
    """Place an order; return its number."""
    answer = client.post("/orders", json={"articles": articles})
    assert answer.status_code == status, answer.text
    return answer.get_json()["order"] if status == 201 else None


def test_articles_are_packed_and_shipped_together(stanchion_app: Stanchion, client: FlaskClient) -> None:
    number = order(client, "tea", "cups")
    stanchion_app.assert_enqueued(jobs.pack, args=(number, "cups"), times=1)
    assert client.get(f"/orders/{number}").get_json() == {"state": "running", "parcel": None}
    assert stanchion_app.drain() == 3
    parcel = {"order": number, "articles": [f"tea of {number}", f"cups of {number}"]}
    assert client.get(f"/orders/{number}").get_json() == {"state": "done", "parcel": parcel}
    assert jobs.shipped == [f"post: {number}, attempt 1"]


def test_an_order_that_is_rolled_back_has_no_job(client: FlaskClient, assert_enqueued: AssertEnqueued) -> None:
    order(client, "tea", "sold out", status=409)
    assert_enqueued(jobs.pack, times=0)
    assert client.get("/orders/1").status_code == 404


def test_a_closed_carrier_is_asked_again(stanchion_app: Stanchion, stanchion_clock: Clock, client: FlaskClient) -> None:
    jobs.closed.add("post")
    number = order(client, "tea")
    stanchion_app.drain()
    [job] = stanchion_app.find(queue="carriers")
    assert (job.state, jobs.shipped) == ("scheduled", [])
    jobs.closed.clear()
    stanchion_clock.advance(3599)
    assert stanchion_app.drain() == 0
    stanchion_clock.advance(1)
    assert stanchion_app.drain() == 1
    assert jobs.shipped == [f"post: {number}, attempt 2"]


def test_an_operator_retries_at_once(stanchion_app: Stanchion, client: FlaskClient) -> None:
    jobs.closed.add("post")
    number = order(client, "tea")
    stanchion_app.drain()
    jobs.closed.clear()
    [job] = stanchion_app.find(queue="carriers")
    assert client.post(f"/jobs/{job.id}/retry").get_json() == {"state": "ready"}
    stanchion_app.drain()
    assert client.get(f"/orders/{number}").get_json()["state"] == "done"


@pytest.mark.stanchion(run="at_once")
def test_the_jobs_run_with_the_commit(stanchion_app: Stanchion, client: FlaskClient) -> None:
    number = order(client, "tea", "cups", "pot")
    assert client.get(f"/orders/{number}").get_json()["state"] == "done"
    assert [job.queue for job in stanchion_app.find(state="done")].count("warehouse") == 3
