"""The wings of the package, found by name.

A wing is a part that most programs do without: Redis, MongoDB, managers, the page, Spark, Django. The core never
imports one; import-linter checks it. Where the core uses a wing it asks this table, which has the module of each
name, as entry points do. Other packages add stores by the entry-point group `stanchion.stores`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Final, Literal

Use = Literal["stores", "commands", "engines", "archives", "alerts"]

TABLE: Final[Mapping[Use, Mapping[str, str]]] = {
    # Schemes of URLs. A module has `CAPABILITIES`, `open_store(url)`, and `shown_url(url)`: the URL without its
    # password, or None if SQLAlchemy can hide it.
    "stores": {
        "mongodb": "stanchion.stores.mongo",
        "redis": "stanchion.stores.redis",
        "rediss": "stanchion.stores.redis",
        "valkey": "stanchion.stores.redis",
        "valkeys": "stanchion.stores.redis",
        "grpc": "stanchion.stores.grpc",
        "grpcs": "stanchion.stores.grpc",
    },
    # Commands. A module adds its own to `stanchion.ops.cli.console.root.cli` when it is imported.
    "commands": {
        "archive": "stanchion.ops.cli.wings.archive",
        "manager": "stanchion.ops.cli.wings.manager",
        "manager status": "stanchion.ops.cli.wings.manager_status",
        "report": "stanchion.ops.cli.wings.report",
        "streams": "stanchion.ops.cli.wings.streams",
        "web": "stanchion.ops.cli.wings.web",
    },
    # What runs the stations of a pipeline besides workers: `run(pipeline, available_now=, heartbeat=, grace=, watch=)`.
    "engines": {"spark": "stanchion.spark.stations.engine"},
    # Archives of finished jobs: `ArchivedItems`.
    "archives": {"delta": "stanchion.spark.archiving.inputs"},
    # Reads of the alerts: `samples(store, workers, now)`.
    "alerts": {"streams": "stanchion.ops.reads.wings.stream_samples"},
}


def module(use: Use, name: str) -> ModuleType:
    """Import and return the module of a name in the table."""
    return import_module(TABLE[use][name])


def others(use: Use) -> dict[str, str]:
    """Return the modules that other packages add, by name. Reads the metadata of all installed packages."""
    from importlib.metadata import entry_points

    return {one.name: one.module for one in entry_points(group=f"stanchion.{use}") if one.name not in TABLE[use]}
