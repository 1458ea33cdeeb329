"""Temporary folders for Spark: one per process, inside one per user."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from stanchion.errors import InvalidInput


def own_root() -> Path:
    """Return the folder of this user, which no other user can write to."""
    root = Path(tempfile.gettempdir(), f"stanchion-spark-{os.getuid()}")
    root.mkdir(mode=0o700, exist_ok=True)
    if root.stat().st_uid != os.getuid():
        raise InvalidInput(f"{root} belongs to another user; set TMPDIR to a private folder")
    return root


def own_folder() -> Path:
    """Create the folder of this process, and delete folders of processes that are gone."""
    root = own_root()
    for folder in _abandoned(root):
        shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=root))


def _abandoned(root: Path) -> Iterator[Path]:
    for folder in root.iterdir():
        owner = folder.name.partition("-")[0]
        if owner.isdecimal() and not _lives(int(owner)):
            yield folder


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
