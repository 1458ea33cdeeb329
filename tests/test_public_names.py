"""The public names of the package are those that a program may use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stanchion
from stanchion import spark
from tests.public_names import kept, listed

SPARK = """
import sys
import stanchion.spark
from stanchion.spark import ArchiveBusy, HistoryPurged, StreamTaken
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"pyspark", "pyarrow", "pandas"}))
"""


def test_objects_show_their_api_only() -> None:
    """After a change of the API, `python -m tests.public_names` writes the list; read its difference."""
    found, known = listed(), kept()
    assert found.keys() == known.keys()
    assert {name: set(own) ^ set(known[name]) for name, own in found.items() if own != known[name]} == {}


def test_the_list_has_every_exported_class() -> None:
    exported = (getattr(stanchion, name) for name in stanchion.__all__)
    assert {one.__name__ for one in exported if isinstance(one, type)} <= kept().keys()


@pytest.mark.parametrize("module", [stanchion, spark], ids=["stanchion", "stanchion.spark"])
def test_a_module_shows_its_exports_only(module: object) -> None:
    names = {name for name in dir(module) if not name.startswith("_")}
    exported = {name for name in module.__all__ if not name.startswith("_")}  # type: ignore[attr-defined]
    assert names - exported == ({"alembic", "django", "middleware", "spark"} if module is stanchion else set())
    assert exported <= names


def test_errors_of_spark_are_in_its_module_only() -> None:
    classes = {name for name in spark.__all__ if isinstance(getattr(spark, name), type)}
    its = {name for name in classes if issubclass(getattr(spark, name), stanchion.StanchionError)}
    assert its >= {"ArchiveBusy", "ForeignCheckpoint", "HistoryPurged", "StreamStopped", "StreamTaken", "TableRefused"}
    assert not its & {*stanchion.__all__, *vars(stanchion.errors)}


def test_errors_of_spark_are_imported_without_it() -> None:
    ran = subprocess.run([sys.executable, "-c", SPARK], capture_output=True, text=True, timeout=300, check=True)
    assert ran.stdout.strip() == ""


@pytest.mark.parametrize("name", stanchion.__all__)
def test_each_exported_name_exists(name: str) -> None:
    assert getattr(stanchion, name) is not None
