"""A process that copies a queue from one store to another: `python -m tests.crash.copier SETTINGS`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass

from stanchion.copying.guard import CopyRefused
from stanchion.copying.transfer import Transfer
from stanchion.stores.registry import open_store
from tests.crash.doom import doomed
from tests.crash.producer import QUEUE

REFUSED, UNFINISHED = 4, 3


@dataclass(frozen=True)
class Copying:
    """What to copy; `source_fate` and `destination_fate` are those of doom.py."""

    source: str
    destination: str
    source_fate: str = ""
    destination_fate: str = ""
    settle: float = 0.0
    wait: float = 0.0
    heartbeat: float = 0.5


def main(text: str) -> int:
    """Copy."""
    copying = Copying(**json.loads(text))
    source, destination = open_store(copying.source), open_store(copying.destination)
    transfer = Transfer(
        doomed(source, copying.source_fate),
        doomed(destination, copying.destination_fate),
        [QUEUE],
        settle=copying.settle,
        wait=copying.wait,
        heartbeat=copying.heartbeat,
    )
    try:
        (copied,) = transfer.run()
    except CopyRefused:
        return REFUSED
    finally:
        source.close()
        destination.close()
    return 0 if copied.resumed else UNFINISHED


def settings(copying: Copying) -> str:
    """Return the settings as the argument of a process."""
    return json.dumps(asdict(copying))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
