"""A process that takes jobs as fast as it can, and writes down which."""

import random
import sys
from contextlib import closing
from pathlib import Path

from stanchion.core.ids import new_id
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import QUEUE, sizes_of


def main(url: str, journal: str, seed: str, lease: str) -> None:
    """Claim and commit until nothing is live in the queue."""
    dice = random.Random(int(seed))
    with closing(open_store(url)) as store, Path(journal).open("a", buffering=1) as lines:
        print("ready", flush=True)
        sys.stdin.readline()
        while True:
            token = new_id()
            rows = store.claim(Claim(QUEUE, dice.randint(1, 20), token, lease=float(lease))).rows
            lines.writelines(f"claimed {row.id}\n" for row in rows)
            answers = store.settle([Commit(row.lease) for row in rows])
            lines.writelines(
                f"{'done' if answer is JobState.DONE else 'lost'} {row.id}\n"
                for row, answer in zip(rows, answers, strict=True)
            )
            if not rows and not sizes_of(store, QUEUE).total:
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
