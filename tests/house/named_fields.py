"""The files of the package that write the shape of a job, or of the settings of a queue, by hand."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.queues import QueueSettings

SOURCE = Path(__file__).parents[2] / "src"
SUFFIXES = frozenset({".py", ".lua", ".sql", ".proto"})
COMMON = frozenset(
    (
        *("id", "queue", "state", "key", "lane", "task", "errors", "progress", "token", "worker"),
        *("result", "payload", "priority", "headers", "rank", "items"),
    )
)
COMMON_SETTINGS = frozenset(("name", "lease", "paused", "declared", "lanes", "timeout", "ordered"))
"""Names that also mean other things, so they show nothing."""

JOB_FIELDS = frozenset(JobRow._fields) | frozenset(NewJob._fields)
SETTINGS = frozenset(field.name for field in dataclasses.fields(QueueSettings))


def files() -> Iterator[Path]:
    """Yield the source files that people write."""
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix in SUFFIXES and "generated" not in path.parts:
            yield path


def naming(names: frozenset[str], least: int) -> list[str]:
    """Return the files that contain at least so many of these names."""
    return [
        str(path.relative_to(SOURCE))
        for path in files()
        if len(names.intersection(re.findall(r"\w+", path.read_text()))) >= least
    ]


def naming_jobs() -> list[str]:
    """Return the files that name eight or more fields of a job."""
    return naming(JOB_FIELDS - COMMON, 8)


def naming_settings() -> list[str]:
    """Return the files that name five or more settings of a queue."""
    return naming(SETTINGS - COMMON_SETTINGS, 5)


def folders() -> dict[str, int]:
    """Return the number of source files in each folder."""
    return dict(Counter(str(path.parent.relative_to(SOURCE)) for path in files()))
