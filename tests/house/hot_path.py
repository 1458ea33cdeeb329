"""Count what a push, a claim and a commit of one job take: `python -m tests.house.hot_path URL STEP ...`.

Each step is a row of rounds on a queue: `plain` has no settings, `limited` has max_running, `unlimited` had it before;
`semaphore` is the first claim of the process, of a job with a semaphore. Prints JSON: for each step, by verb, the
medians of own Python calls and of statements.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing

from benchmarks.calls import BATCH, LIMITED, PLAIN, WARM_UP, medians, one_round
from benchmarks.calls import counted as calls_of

from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.registry import open_store
from stanchion.stores.rules.capacity.limits import Limits, limits_text

ROUNDS = 10


def first_claim(store: Store) -> dict[str, tuple[int, int]]:
    """Return the own calls and the statements of the first claim of a job with a semaphore."""
    store.set_semaphore("slot", BATCH)
    store.push([NewJob(new_id(), "slots", "1", limits=limits_text(Limits(("slot",))))])
    claim = Claim("slots", 1, new_id(), "worker")
    calls, found = calls_of(lambda: store.claim(claim))
    assert len(found.rows) == 1
    return {"claim": (calls.own, calls.statements)}


def counted(store: Store, step: str) -> dict[str, tuple[int, int]]:
    """Return the own calls and the statements of each verb."""
    if step == "semaphore":
        return first_claim(store)
    queue = PLAIN if step == "plain" else LIMITED
    store.configure(queue, {"max_running": 10 * BATCH if step == "limited" else None})
    rounds = [one_round(store, queue, 1) for _ in range(WARM_UP + ROUNDS)][WARM_UP:]
    found = {verb: medians([each[verb] for each in rounds]) for verb in rounds[0]}
    return {verb: (calls.own, calls.statements) for verb, calls in found.items()}


if __name__ == "__main__":
    url, *steps = sys.argv[1:]
    with closing(open_store(url)) as store:
        store.setup()
        print(json.dumps([counted(store, step) for step in steps]))
