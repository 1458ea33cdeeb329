"""What lanes are for, and what they cost: light tenants beside a heavy one, claims of many lanes. Stanchion only."""

from __future__ import annotations

import time
from multiprocessing import get_context
from typing import cast

from benchmarks.contenders import Place, load
from benchmarks.contenders.base import batches
from benchmarks.contenders.stanchion_app import StanchionContender
from stanchion import Queue, Stanchion, Task, Worker
from stanchion.core.ids import new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import UNLANED, NewJob
from stanchion.stores.registry import open_store

LANES, PER_TENANT, THREADS = 64, 6, 8
HEAVY, LIGHT = 100_000, 50
RUN_TIME = 0.001
"""Seconds that a job takes."""

SETTLING = 2.0
"""Seconds before the light tenants' jobs count."""

LONGEST = 60.0
"""Seconds after which no more are waited for."""

CLAIMS = 300


def pick_ups(reference: str, place: Place, heavy: int, samples: int) -> list[float]:
    """Return the seconds from the push to the start of jobs of LIGHT tenants, one a second each, beside a heavy one.

    They are pushed by a process of its own, as they are where a busy worker isn't also the web application.
    """
    app = Stanchion(_url(reference, place))
    app.setup()
    seen: list[float] = []
    mail, run = _declared(app, seen)
    for numbers in batches(0, heavy):
        run.using(tenant="heavy").enqueue_many([(None,) for _ in numbers])
    worker = Worker(app, queues=[mail.name], threads=THREADS)
    worker.start()
    wanted = samples + int(LIGHT * SETTLING)
    tenants = get_context("spawn").Process(target=_push_lightly, args=(reference, place, wanted), daemon=True)
    tenants.start()
    try:
        until = time.monotonic() + LONGEST
        while len(seen) < wanted and time.monotonic() < until:
            time.sleep(0.1)
    finally:
        tenants.terminate()
        tenants.join()
        worker.stop()
        app.close()
    return seen[int(LIGHT * SETTLING) :]


def _declared(app: Stanchion, seen: list[float]) -> tuple[Queue, Task[..., None]]:
    mail = app.queue("mail", lanes=LANES, lanes_per_tenant=PER_TENANT)

    @app.task(queue=mail.name, name="run")
    def run(pushed_at: float | None) -> None:
        if pushed_at is not None:
            seen.append(time.monotonic() - pushed_at)  # one clock for all processes
        time.sleep(RUN_TIME)

    return mail, run


def _push_lightly(reference: str, place: Place, count: int) -> None:
    """Push jobs of one tenant after the other at a steady pace."""
    app = Stanchion(_url(reference, place))
    _, run = _declared(app, [])
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number / LIGHT - time.monotonic()))
        run.using(tenant=f"light-{number % LIGHT}").enqueue(time.monotonic())


def filled(reference: str, place: Place, lanes: int, jobs: int) -> Store:
    """Return a store with ready jobs in so many lanes; with one, the queue has none."""
    store = open_store(_url(reference, place))
    store.setup()
    store.configure("mail", {"lanes": lanes, "uses_lanes": lanes > 1})
    for numbers in batches(0, jobs):
        ids = new_ids(len(numbers))
        of = [UNLANED if lanes == 1 else number % lanes for number in numbers]
        store.push([NewJob(job_id, "mail", "{}", lane=lane) for job_id, lane in zip(ids, of, strict=True)])
    return store


def claim_seconds(store: Store, limit: int, number: int) -> float:
    """Return the seconds of one claim."""
    began = time.perf_counter()
    rows = store.claim(Claim("mail", limit, f"claim-{limit}-{number}", worker="bench")).rows
    seconds = time.perf_counter() - began
    if len(rows) != limit:
        raise RuntimeError(f"claimed {len(rows)} jobs, not {limit}")
    return seconds


def _url(reference: str, place: Place) -> str:
    return cast(type[StanchionContender], load(reference))(place).url()
