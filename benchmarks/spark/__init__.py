"""What Spark does with a store: who writes, reads, streams and works, by name. Each is imported when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

WRITE_FLOOR = "floor"
"""What Spark alone needs for such rows."""

CHUNKS = "chunks"
"""Jobs of many rows."""

WRITERS: dict[str, str] = {
    "raw": "writing:copy",
    "push_many": "writing:push_many",
    "jdbc": "writing:jdbc",
    "stanchion": "writing:stanchion",
    CHUNKS: "writing:chunks",
    WRITE_FLOOR: "writing:nowhere",
}

SQLITE_WRITERS: dict[str, str] = {
    "raw": "writing:insert",
    "push_many": "writing:push_many",
    "stanchion": "writing:stanchion",
    CHUNKS: "writing:chunks",
    WRITE_FLOOR: "writing:nowhere",
}

READERS: dict[str, str] = {
    "raw": "reading:adbc_postgres",
    "jdbc": "reading:jdbc",
    "jobs()": "reading:stanchion_jdbc",
    "stanchion": "reading:stanchion",
}

SQLITE_READERS: dict[str, str] = {
    "raw": "reading:rows_sqlite",
    "stanchion": "reading:stanchion",
}

FLOOR = "empty"
"""What Spark alone needs for such batches."""

STREAMS: dict[str, str] = {
    FLOOR: "streaming:rows_to_nowhere",
    "stanchion": "streaming:append",
    "move": "streaming:move",
    CHUNKS: "streaming:chunks",
}

SINGLES: dict[str, str] = {
    "workers": "streaming:picked_up",
    FLOOR: "streaming:empty_batches",
    "stanchion": "streaming:micro_batches",
}

ENGINES: dict[str, str] = {
    "workers": "stations:on_workers",
    "spark": "stations:on_spark",
    "pandas": "stations:in_pandas",
}

NAMES = {*WRITERS, *READERS, *STREAMS, *SINGLES, *ENGINES}


def load(reference: str) -> Any:
    """Return the function behind ``module:function``, a reference from the tables above."""
    module, _, name = reference.partition(":")
    return getattr(import_module(f"{__name__}.{module}"), name)
