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
    "claimed",
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

    `at` is the time before an "asked", "claimed" or "recovered" and after a "told", on the clock that all processes
    share. A process may stop for long between the two: a claim is only known to be later than its beginning.
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


def history(folder: Path, *kinds: What, pid: int | None = None) -> list[Event]:
    """Return the events in the order of their time: all, or those of these kinds, or those of one process.

    The last line of a process that was killed in the midst of writing it counts as not written.
    """
    events: list[Event] = []
    for file in folder.glob(f"{'*' if pid is None else pid}.jsonl"):
        whole = file.read_text().rpartition("\n")[0]
        # To look for words costs a fraction of reading JSON, and those who wait for an event look many times.
        lines = [line for line in whole.splitlines() if not kinds or any(f'"{kind}"' in line for kind in kinds)]
        events += [Event(*json.loads(line)) for line in lines]
    return sorted(event for event in events if not kinds or event.what in kinds)
