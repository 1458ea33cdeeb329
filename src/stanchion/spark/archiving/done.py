"""The result of an archive run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Engine = Literal["local", "spark"]

ENGINES: Final[tuple[Engine, ...]] = ("local", "spark")


@dataclass(slots=True)
class Archive:
    """The result of an archive run: numbers of jobs, and the `items` that the archived ones carry.

    `purged` includes jobs that an earlier run archived without purging them.
    """

    folder: str
    archived: int = 0
    items: int = 0
    purged: int = 0
    files: int = 0
    engine: Engine = "local"
    compacted: int = 0
    """The number of files saved by compaction."""
    seconds: float = 0.0
