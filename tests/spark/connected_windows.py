"""A station with a watermark over Spark Connect: `python -m tests.spark.connected_windows MASTER URL FOLDER`.

It prints what the station has made, what was late, and how it refuses a lost checkpoint.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from stanchion.errors import StanchionError
from stanchion.spark import session
from stanchion.spark.stations import engine, stateful
from tests.spark.places import opened
from tests.spark.test_windows import at, declared, results


def main(master: str, url: str, folder: str) -> None:
    """Close a window in the second run, lose the checkpoint, and begin again."""
    spark, found = session(master), dict[str, Any]()
    with opened(url) as app:
        etl = declared(app, Path(folder))
        etl.push_many([{"n": n, "at": at(n)} for n in range(25)])
        engine.run(etl, spark=spark, available_now=True)
        etl.push({"n": 100, "at": at(2)})
        etl.push({"n": 7, "at": at(41)})
        engine.run(etl, spark=spark, available_now=True)
        found["late"] = results(etl, "late")
        shutil.rmtree(folder)
        try:
            engine.run(etl, spark=spark, available_now=True)
        except StanchionError as error:
            found["lost"] = str(error)
        shutil.rmtree(folder)  # what the refused query has left
        stateful.begin_again(etl, "raw")
        etl.push_many([{"n": 3, "at": at(2)}, {"n": 4, "at": at(80)}])
        engine.run(etl, spark=spark, available_now=True)
        found["sums"] = [one["sum"] for one in results(etl, "sums")]
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
