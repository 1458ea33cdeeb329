"""The command line: `stanchion ...`."""

from __future__ import annotations

from stanchion.ops.cli import (
    bench,
    copy,
    cron,
    demo,
    jobs,
    lanes,
    push,
    queues,
    redrive,
    semaphores,
    stores,
    top,
    worker,
    workers,
)
from stanchion.ops.cli.root import PANELS, cli

__all__ = [
    "bench",
    "cli",
    "copy",
    "cron",
    "demo",
    "jobs",
    "lanes",
    "main",
    "push",
    "queues",
    "redrive",
    "semaphores",
    "stores",
    "top",
    "worker",
    "workers",
]

cli.registered_commands.sort(key=lambda command: PANELS.index(command.rich_help_panel))


def main() -> None:
    """Run the console script."""
    cli()
