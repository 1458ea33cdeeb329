"""The tests of each wing, for `make check WING=web`: `python -m tests.wings web` prints their paths."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

WINGS = {
    "redis": ("tests/redis", "tests/conformance/test_redis*.py", "tests/plain_push/test_redis.py"),
    "mongo": ("tests/mongo", "tests/conformance/test_mongo*.py", "tests/plain_push/test_mongo.py"),
    "manager": ("tests/manager", "tests/conformance/test_grpc*.py", "tests/cli/test_manager.py"),
    "web": ("tests/web",),
    "spark": ("tests/spark", "tests/cli/test_archive.py", "tests/cli/test_report.py", "tests/cli/test_streams.py"),
    "django": ("tests/django",),
}
"""A folder of its own, and files among the tests of conformance and of the command line."""


def paths_of(wing: str) -> list[str]:
    """Return the folders and files with the tests of a wing. KeyError for another name."""
    return [str(path.relative_to(ROOT)) for pattern in WINGS[wing] for path in sorted(ROOT.glob(pattern))]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        if name not in WINGS:
            sys.exit(f"there is no wing {name!r}: name {', '.join(WINGS)}")
        print(*paths_of(name))
