"""What a run of the archive has done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Engine = Literal["local", "spark"]


@dataclass(slots=True)
class Archive:
    """What a run has done. `purged`: also what an earlier one had archived and left in the store."""

    folder: str
    archived: int = 0
    purged: int = 0
    files: int = 0
    engine: Engine = "local"
    compacted: int = 0
    """By how many files the archive has become fewer."""
    seconds: float = 0.0
