"""The command line: `stanchion ...`."""

from __future__ import annotations

from stanchion.ops.cli import (
    archive,
    bench,
    copy,
    cron,
    demo,
    jobs,
    lanes,
    maintain,
    pipeline,
    push,
    queues,
    redrive,
    report,
    semaphores,
    stores,
    streams,
    top,
    worker,
    workers,
)
from stanchion.ops.cli.root import PANELS, cli

__all__ = [
    "archive",
    "bench",
    "cli",
    "copy",
    "cron",
    "demo",
    "jobs",
    "lanes",
    "main",
    "maintain",
    "pipeline",
    "push",
    "queues",
    "redrive",
    "report",
    "semaphores",
    "stores",
    "streams",
    "top",
    "worker",
    "workers",
]

cli.registered_commands.sort(key=lambda command: PANELS.index(command.rich_help_panel))


def main() -> None:
    """Run the console script."""
    cli()
