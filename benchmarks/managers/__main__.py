"""Managers beside clients of the database, in one run.

    python -m benchmarks.managers [--servers postgresql,mariadb] [--parts pushes,jobs,delays,takeover,several,databases]
                                  [--jobs 5000] [--rounds 3]

The sides take turns; each line is the median of the rounds, and ratios are of the same round. Rates differ from machine
to machine: compare the ratios, and the work for each job.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from statistics import median
from typing import Any

from benchmarks.managers.measurements import Cost, delays, end_to_end, paced, plain_insert, pushes, take_over
from benchmarks.managers.sides import SERVERS, Server, Side, sharded, side

LEASE_SECONDS = 5.0
PACE = 100.0
"""Jobs per second for each manager."""


Opened = Callable[[], AbstractContextManager[Side]]


def _sides(server: Server, measure: Callable[[Side], Cost], rounds: int, sides: tuple[tuple[int, int], ...]) -> None:
    """Measure each side, of so many managers and lanes, and print it."""
    _measured(measure, rounds, [partial(side, server, managers, lanes) for managers, lanes in sides])


def _measured(measure: Callable[[Side], Cost], rounds: int, sides: Sequence[Opened]) -> None:
    """Measure each side in each round; print their costs, and their ratios to the direct or the first one."""
    found: dict[str, list[Cost]] = {}
    for number in range(rounds):
        for opened in sides if number % 2 else sides[::-1]:
            with opened() as one:
                found.setdefault(one.name, []).append(measure(one))
    first = found.get("direct") or found[min(found)]
    for name, costs in sorted(found.items()):
        middle = Cost(*(median(column) for column in zip(*costs, strict=True)))
        ratios = [
            median(getattr(one, field) / (getattr(base, field) or 1) for one, base in zip(costs, first, strict=True))
            for field in ("rate", "total", "database", "log")
        ]
        print(
            f"    {name:11} {middle.rate:8.0f} jobs/s   µs a job: clients {middle.client:6.0f}, managers "
            f"{middle.managers:6.0f}, database {middle.database:6.0f}   statements {middle.statements:6.3f}   log "
            f"{middle.log:6.0f} B   | rate x {ratios[0]:.2f}, all CPU x {ratios[1]:.2f}, database x {ratios[2]:.2f}, "
            f"log x {ratios[3]:.2f}",
            flush=True,
        )


def _pushes(server: Server, jobs: int, rounds: int) -> None:
    print("  50 threads of one process push singly", flush=True)
    _sides(server, lambda one: pushes(one, 1, 50, jobs), rounds, ((0, 1), (1, 1)))
    print("  50 processes push singly", flush=True)
    _sides(server, lambda one: pushes(one, 50, 1, jobs), rounds, ((0, 1), (1, 1)))


def _jobs(server: Server, jobs: int, rounds: int) -> None:
    for text, threads, nap in (("empty jobs", 8, 0.0), ("jobs of 5 ms", 8, 0.005)):
        print(f"  {text}, 4 workers of {threads} threads", flush=True)
        _sides(server, lambda one, n=threads, s=nap: end_to_end(one, 4, n, jobs, s), rounds, ((0, 1), (1, 1)))  # type: ignore[misc]
    print("  jobs of 5 ms, 50 at once in one worker", flush=True)
    _sides(server, lambda one: end_to_end(one, 1, 50, jobs, 0.005), rounds, ((0, 1), (1, 1)))


def _delays(server: Server, jobs: int, rounds: int) -> None:
    samples = max(50, jobs // 50)
    for _ in range(rounds):
        with side(server, 1) as one:
            insert, start = plain_insert(one, samples), delays(one, samples)
            due = delays(one, samples, due_in=2.0)
        with side(server, 0) as one:
            direct = delays(one, samples)
        print(
            f"  a durable insert {insert:.2f} ms; push to start {start:.2f} ms (direct {direct:.2f} ms); due to start "
            f"{due:.2f} ms",
            flush=True,
        )


def _take_over(server: Server, _jobs: int, rounds: int) -> None:
    for _ in range(rounds):
        with side(server, 2, lanes=8) as one:
            owned, begun = take_over(one)
        print(
            f"  a manager killed: another one has its share after {owned:.1f} s = {owned / LEASE_SECONDS:.2f} leases; "
            f"all jobs pushed then have begun after {begun:.1f} s",
            flush=True,
        )


def _several(server: Server, jobs: int, rounds: int) -> None:
    print("  1, 2 and 4 managers, a queue of 16 lanes, the same pace for each", flush=True)
    _sides(server, partial(_growing, jobs=jobs), rounds, ((1, 16), (2, 16), (4, 16)))


def _databases(server: Server, jobs: int, rounds: int) -> None:
    print(
        "  1, 2 and 4 databases with a manager each, a queue of 4 partitions, the same pace for each",
        flush=True,
    )
    sides = [partial(sharded, server, count) for count in (1, 2, 4)]
    _measured(partial(_growing, jobs=jobs), rounds, sides)


def _growing(one: Side, jobs: int) -> Cost:
    """Push at the same pace for each manager, below what the machine can do: at its limit all would do less at once."""
    count = len(one.managers)
    return paced(one, 4, 8, jobs * count // 5, PACE * count)


PARTS: dict[str, Callable[[Server, int, int], None]] = {
    "pushes": _pushes,
    "jobs": _jobs,
    "delays": _delays,
    "takeover": _take_over,
    "several": _several,
    "databases": _databases,
}


def main() -> None:
    """Measure what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default=",".join(SERVERS))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    given: Any = parser.parse_args()
    for name in given.servers.split(","):
        print(name, flush=True)
        with SERVERS[name]() as server:
            for part in given.parts.split(","):
                PARTS[part](server, given.jobs, given.rounds)


if __name__ == "__main__":
    main()
