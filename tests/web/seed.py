"""What the page is shown on: queues in each state, with text that no page should obey."""

from __future__ import annotations

from datetime import timedelta

from stanchion import Push, Stanchion
from stanchion.app import tick
from stanchion.stores.protocol import Store
from tests.web.attacks import ATTACKS, SECRET, attack
from tests.web.seed_parts import flights, managers, trips


def shop(store: Store) -> Stanchion:
    """Return an app with queues, jobs, semaphores, a schedule and a consumer, in the states that pages show."""
    app = Stanchion(store=store)

    @app.task(name="payments.capture", queue="payments", max_attempts=1)
    def capture(order: int, **_: object) -> None:
        raise TimeoutError(f"no answer from psp-{order}.example, password={SECRET} {attack(order)}")

    @app.task(name="mail.send", queue="mail")
    def send(**_: object) -> dict[str, str]:
        return {"sent": attack(1), "token": SECRET}

    app.cron("0 3 * * *", schedule="<b>nightly</b>")(send)
    app.queue("orders", lanes=16, lanes_per_tenant=4)
    app.setup()
    flights(app)
    trips(app)
    managers(app)
    for number in range(len(ATTACKS)):
        capture.using(tenant="acme", priority="interactive").enqueue(order=number, card={"number": SECRET})
    for number in range(3):
        send.using(key=f"mail-{number} <i>").enqueue(to=attack(number), note={attack(number): attack(number + 1)})
    tick(app)
    app.drain()
    app.queue("mail").push_many([{"n": number, "text": attack(number)} for number in range(70)])
    app.queue("webhooks").push_many([Push({"n": number}, delay=timedelta(hours=1)) for number in range(5)])
    app.queue("orders").push_many([Push({"n": number}, tenant=f"t{number % 7}") for number in range(60)])
    queue = "<b>xss</b> & 'co'"
    app.queue(queue).push({"a": attack(3)}, headers={"h": attack(1), "Authorization": SECRET}, tenant=attack(3)[:20])
    app.semaphore("psp", 1)
    for number in range(3):
        app.queue("limited").push({"n": number}, limits=["psp"])
    app.queue("limited").reserve(3, holder="billing:<u>1</u>")
    return app
