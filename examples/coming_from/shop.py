"""The shop's own code, which both queues call, and what it did."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

DAY = 86_400
"""Seconds for which a moved job holds its key after its end, so that the move can be repeated."""

_lock = threading.Lock()
_sent: Counter[tuple[str, str]] = Counter()


def send_mail(queue: str, address: str) -> str:
    """Send a mail; `queue` is the queue that called."""
    with _lock:
        _sent[queue, address] += 1
    return f"sent to {address}"


def wait_for(reached: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until a condition holds. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError("the old worker did not finish in time")
        time.sleep(0.01)


def sent(queue: str) -> int:
    """Return the number of mails that a queue has sent."""
    with _lock:
        return sum(count for (who, _), count in _sent.items() if who == queue)


def check(old: list[str], new: list[str]) -> None:
    """Print who sent what; raise SystemExit unless each mail went out once, from its own queue."""
    with _lock:
        found = dict(_sent)
    expected = {("old", address): 1 for address in old} | {("new", address): 1 for address in new}
    for (queue, address), count in sorted(found.items()):
        print(f"{queue}: {address} {count} x")
    if found != expected:
        raise SystemExit(f"expected {expected}, not {found}")
