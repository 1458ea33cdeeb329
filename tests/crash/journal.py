"""What processes asked and were told, in files that survive them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

What = Literal[
    "asked push",
    "told push",
    "told claim",
    "started",
    "asked commit",
    "told commit",
    "asked rollback",
    "told rollback",
    "asked refund",
    "told refund",
    "asked bury",
    "told bury",
    "recovered",
    "succeeded",
]

LOST = "lost"
"""The answer to an outcome that was refused."""

UNAVAILABLE = "unavailable"
"""The answer that leaves open whether the request was carried out."""


class Event(NamedTuple):
    """One line of a journal, about one job.

    `at` is the time before an "asked" or "recovered" and after a "told", on the clock that all processes share.
    `detail` is the payload of a push that was asked, and the answer to what was told. `batch` names the push.
    """

    at: float
    pid: int
    what: What
    job: str
    token: str = ""
    attempt: int = 0
    detail: str = ""
    batch: str = ""


class Journal:
    """Appends the events of this process to a file of its own, each call in one write."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / f"{os.getpid()}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def write(self, events: Iterable[Event]) -> None:
        """Append events."""
        os.write(self._file, "".join(f"{json.dumps(event)}\n" for event in events).encode())

    def note(self, what: What, job: str, *, token: str = "", attempt: int = 0) -> None:
        """Append one event that happens now."""
        self.write([Event(time.monotonic(), os.getpid(), what, job, token, attempt)])


def history(folder: Path) -> list[Event]:
    """Return the events of all processes in the order of their time.

    The last line of a process that was killed in the midst of writing it counts as not written.
    """
    events: list[Event] = []
    for file in folder.glob("*.jsonl"):
        whole = file.read_text().rpartition("\n")[0]
        events += [Event(*json.loads(line)) for line in whole.splitlines()]
    return sorted(events)
