"""Run the simulation: `python -m benchmarks.scale [--seed 1] [--small] [--json out.json]`."""

from __future__ import annotations

import argparse
import gc
from pathlib import Path

from rich.console import Console

from benchmarks.scale.costs import SMALL, Costs, Size
from benchmarks.scale.loads import loads
from benchmarks.scale.moving import moving
from benchmarks.scale.report import save, show
from benchmarks.scale.world import LAYOUTS


def main() -> None:
    """Simulate, print tables, and write a file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description="Simulate many shards.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="a dozen shards, in seconds")
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    gc.disable()  # it would look through all jobs again and again; little is ever garbage
    size, costs = SMALL if options.small else Size(), Costs()
    movements = [
        moving(layout, managers, size, costs, options.seed) for layout in LAYOUTS for managers in size.managers
    ]
    found = list(loads(size, costs, options.seed))
    quiets, moves = [one.quiet for one in movements], [move for one in movements for move in one.moved]
    show(Console(width=180), found, quiets, moves)
    if options.json:
        save(options.json, options.seed, size, costs, loads=found, quiet=quiets, moved=moves)


if __name__ == "__main__":
    main()
