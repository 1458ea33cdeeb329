"""How runs of streaming queries ended, recorded by a Spark listener for the next reader of their stream.

Spark's driver writes a file for each run that ends, into a folder of its user. The process that reads the stream in
the next run, on the same machine, reads it. Without a file, as after a kill or on another machine, a run counts as
failed only if its sink recorded the failure.
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
_WATCHED = "_stanchion_records_endings"


def how_ended(run: str) -> Ended | None:
    """Return how the run of a query ended; None if it is unknown here."""
    with suppress(OSError, ValueError, KeyError):
        return Ended(json.loads(_file(run.partition(":")[0]).read_text())["error"])
    return None


def record_ending(run: str, error: str | None) -> None:
    """Record how a run ended, and delete old records."""
    path = _file(run)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    for old in path.parent.iterdir():
        with suppress(FileNotFoundError):
            if old.stat().st_mtime < time.time() - _KEPT:
                old.unlink()
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps({"error": None if error is None else user_error(error)[:_LONGEST]}))
    fresh.rename(path)


def user_error(error: str) -> str:
    """Return the user's part of a Spark exception: the end of its Python traceback, and the first line."""
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
    """Register a listener that records how streaming queries end, once per session. Not for Spark Connect."""
    manager: Any = getattr(spark.streams, "_jsqm", None)
    if manager is None or hasattr(spark, _WATCHED):
        return
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway
    try:
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call] # it has no annotations
        manager.addListener(gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(_Listener()))
    except (AttributeError, TypeError) as error:  # these are no part of Spark's public API
        log.warning(
            "this Spark does not report how its streaming queries end (%s); jobs get no text of its errors", error
        )
    setattr(spark, _WATCHED, True)


class _Listener:
    """The listener that Java calls. PySpark's own would needlessly parse each progress event, over dozens of calls."""

    def onQueryStarted(self, event: object) -> None:  # noqa: N802 - Spark's names
        """Do nothing."""

    def onQueryProgress(self, event: object) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryIdle(self, event: object) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Record how the run ended."""
        error = event.exception()
        with suppress(OSError, InvalidInput):
            record_ending(str(event.runId().toString()), error.get() if error.isDefined() else None)

    class Java:
        """For py4j."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
