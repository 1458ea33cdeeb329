"""The public names of the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stanchion

SPARK = """
import sys
import stanchion.spark
from stanchion.spark import ArchiveBusy, HistoryPurged, StreamTaken
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"pyspark", "pyarrow", "pandas"}))
"""


def test_errors_of_spark_are_in_its_module_only() -> None:
    from stanchion import spark

    classes = {name for name in spark.__all__ if isinstance(getattr(spark, name), type)}
    its = {name for name in classes if issubclass(getattr(spark, name), stanchion.StanchionError)}
    assert its >= {"ArchiveBusy", "ForeignCheckpoint", "HistoryPurged", "StreamStopped", "StreamTaken", "TableRefused"}
    assert not its & {*stanchion.__all__, *dir(stanchion.errors)}


def test_errors_of_spark_are_imported_without_it() -> None:
    ran = subprocess.run([sys.executable, "-c", SPARK], capture_output=True, text=True, timeout=300, check=True)
    assert ran.stdout.strip() == ""


@pytest.mark.parametrize("name", stanchion.__all__)
def test_each_exported_name_exists(name: str) -> None:
    assert getattr(stanchion, name) is not None
