"""Tokens of programs: they push jobs, or work them off, in their queues, and do nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.errors import InvalidInput
from stanchion.manager.server.tokens import Caller as Program
from stanchion.manager.server.tokens import Role
from stanchion.ops.web.access.callers import Caller, Tokens, token_of, tokens_in
from stanchion.ops.web.api.asgi import OPERATIONS
from stanchion.ops.web.site import Site
from stanchion.stores.records.query import Query
from stanchion.stores.rules.capacity.limits import Rate, limits_in
from tests.web.api.conftest import Client

SHOP, WORKER = "secret-of-the-shop-1", "secret-of-the-worker"
TOKENS = [
    token_of(SHOP, Caller("shop", program=Program("shop", frozenset({Role.PUSH}), ("orders", "mail.*")))),
    token_of(WORKER, Caller("worker", program=Program("worker", frozenset({Role.RECEIVE}), ("orders",)))),
]


@pytest.fixture
def app() -> Iterator[Stanchion]:
    app = Stanchion("memory://")
    app.semaphore("smtp", 1)
    yield app
    app.close()


@pytest.fixture
def shop(app: Stanchion) -> Client:
    return Client(Site(app, Tokens(TOKENS), login_delay=0), SHOP)


@pytest.fixture
def worker(app: Stanchion) -> Client:
    return Client(Site(app, Tokens(TOKENS), login_delay=0), WORKER)


def pushed(**options: Any) -> dict[str, Any]:
    return {"jobs": [{"payload": {}, **options}]}


def test_a_shop_pushes_to_its_queues(app: Stanchion, shop: Client) -> None:
    shop.asks("pushJobs", "queues/orders/jobs", pushed(rate="5/s"))
    shop.asks("pushJobs", "queues/mail.fast/jobs", pushed())
    for queue, body in (
        ("payments", pushed()),
        ("orders", pushed(limits=["smtp"])),
        ("orders", pushed(rate="5/s", rate_key="provider")),
    ):
        shop.refused(403, "forbidden", "POST", f"queues/{queue}/jobs", body)
    assert app.queue("orders").size().total == 1


def test_a_call_shares_the_rate_that_its_task_declares(app: Stanchion, shop: Client) -> None:
    code = Stanchion(store=app.store)
    code.task(name="pay", queue="orders", rate="5/s")(print)
    code.queue("orders").reserve()
    call = {"jobs": [{"task": "pay"}, {"task": "pay", "rate": None}]}
    unlimited = token_of("secret-of-all-queues", Caller("all", program=Program("all", frozenset({Role.PUSH}))))
    Client(Site(app, Tokens([unlimited]), login_delay=0), "secret-of-all-queues").asks(
        "pushJobs", "queues/orders/jobs", call
    )
    shop.asks("pushJobs", "queues/orders/jobs", call)  # its token does not name the rate
    rates = [limits_in(row.limits).rate for row in app.store.select(Query("live", order="id")).rows]
    assert rates == [Rate("task:pay", 5.0), None, None, None]


def test_neither_does_anything_else(app: Stanchion, shop: Client, worker: Client) -> None:
    job = app.queue("orders").push({"card": "4111"})
    for client, role in ((shop, "push"), (worker, "receive")):
        for one in OPERATIONS:
            if one.program == role or one.open or one.id == "getDocument":
                continue
            path = one.shown_path.replace("{queue}", "orders").replace("{id}", job.id).lstrip("/")
            answer = client.request(one.method, path, json={} if one.body else None)
            assert answer.status_code == 403, (role, one.id)
    assert app.queue("orders").get(job.id) is not None


def test_a_worker_works_off_its_queues(app: Stanchion, worker: Client) -> None:
    app.queue("orders").push(1)
    (job,) = worker.asks("reserveJobs", "queues/orders/reserve")["jobs"]
    worker.refused(403, "forbidden", "POST", f"jobs/{job['id']}/move", {"token": job["token"], "queue": "payments"})
    assert worker.asks("commitJob", f"jobs/{job['id']}/commit", {"token": job["token"]})["state"] == "done"
    app.queue("payments").push(1)
    worker.refused(403, "forbidden", "POST", "queues/payments/reserve", {})
    (other,) = app.queue("payments").reserve()
    worker.refused(403, "forbidden", "POST", f"jobs/{other.id}/commit", {"token": other.token})
    other.commit()
    worker.refused(403, "forbidden", "POST", f"jobs/{other.id}/commit", {"token": other.token})


def test_neither_sees_the_page_or_metrics(shop: Client) -> None:
    page = "http://127.0.0.1:7118"
    assert shop.post(f"{page}/login", data={"token": SHOP}, follow_redirects=False).status_code == 403
    assert shop.get(f"{page}/metrics").status_code == 403
    assert shop.get(f"{page}/queues", follow_redirects=False).status_code == 303, "to the login"


def test_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    head = f'[[token]]\nname = "shop"\ntoken = "{SHOP}"\n'
    file.write_text(head + 'roles = ["push"]\nqueues = ["orders"]\nrates = ["task:shop.*"]\n')
    (token,) = tokens_in(file)
    assert token.caller.program == Program("shop", frozenset({Role.PUSH}), ("orders",), None, ("task:shop.*",))
    assert not token.caller.operates
    for odd in ('roles = ["admin"]', 'roles = ["read"]', 'roles = ["push"]\nrole = "read"', 'queues = ["orders"]'):
        file.write_text(head + odd)
        with pytest.raises(InvalidInput):
            tokens_in(file)
