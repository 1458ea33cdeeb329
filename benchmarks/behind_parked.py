"""How long jobs without limits wait behind many jobs of a full semaphore, in one queue.

    python benchmarks/behind_parked.py redis://127.0.0.1:6379/0 --jobs 100000

The database must be empty. Prints the seconds from the first claim until the first free job is reserved, until all of
them are, and until all others are parked.
"""

from __future__ import annotations

import argparse
import time

from stanchion import Push, Stanchion

FREE = 100


def main() -> None:
    """Push, claim, and print what it took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--capacity", type=int, default=1)
    given = parser.parse_args()

    app = Stanchion(given.url)
    app.setup()
    app.semaphore("full", given.capacity)
    queue = app.queue("behind")
    queue.push_many(Push(number, limits=["full"]) for number in range(given.jobs + given.capacity))
    queue.push_many(Push("free") for _ in range(FREE))
    held = queue.reserve(given.capacity, lease=3600)
    assert len(held) == given.capacity

    began, free, calls, longest = time.perf_counter(), 0, 0, 0.0
    while free < FREE:
        called = time.perf_counter()
        found = queue.reserve(10, lease=3600)
        calls, longest = calls + 1, max(longest, time.perf_counter() - called)
        if found and not free:
            print(f"first free job   {time.perf_counter() - began:8.3f} s")
        free += sum(job.payload == "free" for job in found)
    print(f"all free jobs    {time.perf_counter() - began:8.3f} s, {calls} claims, the longest {longest:.3f} s")
    while queue.size().waiting < given.jobs:
        queue.reserve(10)
    print(f"all others wait  {time.perf_counter() - began:8.3f} s")
    app.close()


if __name__ == "__main__":
    main()
