"""How the runs of streaming queries have ended: told by Spark to a listener, and read by who reads their stream next.

Spark's driver writes a file for each run that ends, into a folder of its user; the process that reads the stream in the
next run, on the same machine, looks there. Where there is none, as after a kill or on another machine, a run counts as
failed only if its sink was told so.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stanchion.errors import InvalidInput
from stanchion.spark.folders import own_root
from stanchion.streams.poison import Ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("stanchion.spark")

_FOLDER = "endings"
_KEPT = 86_400.0
_LONGEST = 20_000
_WATCHED = "_stanchion_told_of_endings"


def how_ended(run: str) -> Ended | None:
    """Return how the run of a query ended that a batch names; None if that is not known here."""
    with suppress(OSError, ValueError, KeyError):
        return Ended(json.loads(_file(run.partition(":")[0]).read_text())["error"])
    return None


def note_ending(run: str, error: str | None) -> None:
    """Write down how a run has ended, and forget those of long ago."""
    path = _file(run)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    for old in path.parent.iterdir():
        with suppress(FileNotFoundError):
            if old.stat().st_mtime < time.time() - _KEPT:
                old.unlink()
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps({"error": None if error is None else told(error)[:_LONGEST]}))
    fresh.rename(path)


def told(error: str) -> str:
    """Return of an exception in Spark what its user raised: the end of a Python traceback, and how the text begins."""
    lines = [line.strip() for line in error.splitlines()]
    lines = [line for line in lines if line and not line.startswith("at ")]
    heads = [n for n, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    for head in reversed(heads):
        if own := next((line for line in lines[head + 1 :] if _names_an_error(line)), None):
            return f"{own}\n{lines[0]}"
    return "\n".join(lines[:3])


def _names_an_error(line: str) -> bool:
    name = line.partition(":")[0]
    return name.replace(".", "").replace("_", "").isalnum() and name.rpartition(".")[2][:1].isupper()


def _file(run: str) -> Path:
    return own_root() / _FOLDER / f"{run}.json"


def watch(spark: SparkSession) -> None:
    """Have a session tell how its streaming queries end, once. Sessions over Spark Connect are left alone."""
    manager: Any = getattr(spark.streams, "_jsqm", None)
    if manager is None or hasattr(spark, _WATCHED):
        return
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway
    try:
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        manager.addListener(gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(_Listener()))
    except (AttributeError, TypeError) as error:  # these are no part of Spark's public API
        log.warning(
            "this Spark does not tell how its streaming queries end (%s); jobs get no text of its errors", error
        )
    setattr(spark, _WATCHED, True)


class _Listener:
    """What Java calls. PySpark's own listener would take each progress apart, over dozens of calls, for nobody."""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Do nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Write down how the run has ended."""
        error = event.exception()
        with suppress(OSError, InvalidInput):
            note_ending(str(event.runId().toString()), error.get() if error.isDefined() else None)

    class Java:
        """For py4j."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
