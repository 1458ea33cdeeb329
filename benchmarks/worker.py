"""The worker process: ``python -m benchmarks.worker REFERENCE PLACE PROBE CAPACITY``."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.contenders import Place, load
from benchmarks.probe import Probe


def main(reference: str, place: str, probe: str, capacity: str) -> None:
    load(reference)(Place.from_json(place)).work(Probe(Path(probe), int(capacity)))


if __name__ == "__main__":
    main(*sys.argv[1:])
