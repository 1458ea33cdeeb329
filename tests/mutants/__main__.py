"""Try the mutants: `python -m tests.mutants [--tier test|all] [--processes N] [NAME ...]`.

Each gets a copy of the repository of its own, in which the tests that it names must fail. Exit code 1: some did not, or
a mutant no longer fits the code.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.progress import Progress

from tests.mutants.mutant import Mutant, mutants
from tests.mutants.trial import Copies, Trial, import_libraries

TIERS = {"test": "not nightly", "all": ""}
"""The expressions of marks. One with "not nightly" in it also keeps cases of the night from being made."""


def verdicts(chosen: Iterable[Mutant], tier: str, processes: int) -> Iterator[tuple[Mutant, str]]:
    """Yield each mutant with "killed", or with what is wrong, as the trials end."""
    left, running = list(reversed(list(chosen))), list[Trial]()
    with tempfile.TemporaryDirectory(prefix="stanchion-mutants-") as folder:
        copies = Copies(Path(folder))
        while left or running:
            while left and len(running) < processes:
                mutant = left.pop()
                try:
                    running.append(Trial(mutant, copies.with_fault(mutant), TIERS[tier]))
                except (ValueError, FileNotFoundError) as error:
                    yield mutant, str(error)
            for trial in list(running):
                if (told := trial.verdict()) is not None:
                    running.remove(trial)
                    yield trial.mutant, told
            time.sleep(0.05)


def main() -> int:
    """Try the mutants that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--tier", choices=TIERS, default="all", help="the tests that may notice")
    parser.add_argument("--processes", type=int, default=2 * (os.cpu_count() or 1), help="many wait most of the time")
    parser.add_argument("names", nargs="*", help="parts of names")
    given = parser.parse_args()
    chosen = [one for one in mutants() if not given.names or any(name in one.name for name in given.names)]
    import_libraries()
    wrong = 0
    with Progress(transient=True, auto_refresh=False) as progress:  # a thread that refreshes would be lost in forks
        bar = progress.add_task("mutants", total=len(chosen))
        for mutant, told in verdicts(chosen, given.tier, given.processes):
            progress.update(bar, advance=1, refresh=True)
            if told != "killed":
                wrong += 1
                progress.console.print(f"{mutant.name} ({mutant.file}): {told}", markup=False)
    print(f"{len(chosen) - wrong} of {len(chosen)} mutants killed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
