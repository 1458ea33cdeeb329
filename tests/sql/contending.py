"""A process that contends for limited jobs: ``python -m tests.sql.contending URL KIND SEED --turns N | --seconds S``.

It pushes, claims, settles, cancels, recovers and resizes, as several of its kind do at once, and prints what it did.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any, Literal, get_args

from stanchion.core.ids import new_id, new_ids
from stanchion.errors import StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Bury, Commit, Outcome, Rollback
from stanchion.stores.registry import open_store
from stanchion.stores.rules.capacity.limits import Limits, Rate, limits_text

Kind = Literal["plain", "semaphores", "order keys", "both", "mixed"]
KINDS: tuple[Kind, ...] = get_args(Kind)

QUEUE = "contended"
SEMAPHORES = {f"s{n}": 4 + n for n in range(6)}
ORDER_KEYS = 60
RATES = {f"rate{n}": 1000.0 for n in range(3)}
BATCH = 5
AHEAD = 40
"""So many pushes of BATCH jobs each process is ahead of its claims."""


@dataclass
class Tally:
    """What one process has done."""

    settled: int = 0
    turns: int = 0
    unavailable: int = 0
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)


def declare(store: Store) -> None:
    """Make the semaphores."""
    for name, capacity in SEMAPHORES.items():
        store.set_semaphore(name, capacity)


def limits_of(kind: Kind, random: Random) -> dict[str, Any]:
    """Return the limits of the next job."""
    part = random.choice(("plain", "semaphores", "order keys", "both", "rate")) if kind == "mixed" else kind
    given: dict[str, Any] = {}
    if part in ("semaphores", "both"):
        names = random.sample(sorted(SEMAPHORES), random.randint(1, 3))
        given["limits"] = limits_text(Limits(tuple(names)))
    if part in ("order keys", "both"):
        given["order_key"] = f"k{random.randrange(ORDER_KEYS)}"
    if part == "rate":
        name = random.choice(sorted(RATES))
        given["limits"] = limits_text(Limits((random.choice(sorted(SEMAPHORES)),), Rate(name, RATES[name])))
    return given


class Contender:
    """One process's share of the load."""

    def __init__(self, store: Store, kind: Kind, seed: int) -> None:
        self._store, self._kind, self._random = store, kind, Random(seed)
        self._recent: list[str] = []
        self._owed = 0
        self.tally = Tally()

    def run(self, goes_on: Callable[[Tally], bool]) -> None:
        """Take turns for as long as `goes_on` says."""
        for _ in range(AHEAD):
            self._push()
        began = time.monotonic()
        while goes_on(self.tally):
            try:
                self._turn()
            except StoreUnavailable as error:
                self.tally.unavailable += 1
                self.tally.errors.append(str(error))
            self.tally.turns += 1
        self.tally.seconds = time.monotonic() - began

    def drain(self) -> None:
        """Finish what is left."""
        idle = 0
        while idle < 50:
            idle = 0 if self._claim_and_settle() else idle + 1
            if idle:
                time.sleep(0.01)

    def _turn(self) -> None:
        random, turn = self._random, self.tally.turns
        self._owed += self._claim_and_settle()
        while self._owed >= BATCH:
            self._owed -= BATCH
            self._push()
        if turn % 10 == 9:
            self._store.cancel(random.sample(self._recent, 3))
        if turn % 25 == 24:
            self._push(key=f"unique{random.randrange(5)}", on_duplicate="replace")
        if turn % 40 == 39:
            self._store.recover()
        if turn % 40 == 19 and self._kind != "plain":
            name = random.choice(sorted(SEMAPHORES))
            self._store.set_semaphore(name, SEMAPHORES[name] + random.randrange(3))

    def _push(self, **given: Any) -> None:
        new = [
            NewJob(one, QUEUE, "1", priority=self._random.randrange(2), **limits_of(self._kind, self._random), **given)
            for one in new_ids(1 if given else BATCH)
        ]
        self._store.push(new)
        self._recent = [*self._recent[-100:], *(job.id for job in new)]

    def _claim_and_settle(self) -> int:
        rows = self._store.claim(Claim(QUEUE, BATCH, new_id())).rows
        if rows:
            states = self._store.settle([self._outcome(row) for row in rows])
            assert None not in states, "a lease was lost"
        self.tally.settled += len(rows)
        return len(rows)

    def _outcome(self, row: JobRow) -> Outcome:
        luck = self._random.random()
        if luck < 0.02:
            return Rollback(row.lease, 0.0, "again")
        return Bury(row.lease, "no") if luck < 0.03 else Commit(row.lease)


def contend(url: str, kind: Kind, processes: int, *bound: str) -> list[Tally]:
    """Run so many processes to their end; return what each has done."""
    command = [sys.executable, "-m", "tests.sql.contending", url, kind]
    running = [
        subprocess.Popen([*command, str(seed), *bound], stdout=subprocess.PIPE, text=True) for seed in range(processes)
    ]
    outputs = [process.communicate()[0] for process in running]
    assert all(process.returncode == 0 for process in running), outputs
    return [Tally(**json.loads(output)) for output in outputs]


def main(arguments: Sequence[str] | None = None) -> None:
    """Take part in the load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("seed", type=int)
    bound = parser.add_mutually_exclusive_group(required=True)
    bound.add_argument("--turns", type=int)
    bound.add_argument("--seconds", type=float)
    given = parser.parse_args(arguments)
    with closing(open_store(given.url)) as store:
        contender = Contender(store, given.kind, given.seed)
        if given.turns is not None:
            contender.run(lambda tally: tally.turns < given.turns)
        else:
            until = time.monotonic() + given.seconds
            contender.run(lambda _tally: time.monotonic() < until)
    print(json.dumps(asdict(contender.tally)))


if __name__ == "__main__":
    main()
