"""The command line: `stanchion ...`."""

from __future__ import annotations

import io
import sys

from stanchion.ops.cli.console.root import PANELS, cli
from stanchion.ops.cli.live import top, watch
from stanchion.ops.cli.look import alerts, audit, errors, jobs, lanes, queues, rates, semaphores, topics, workers
from stanchion.ops.cli.operate import cron, maintain, push, redrive
from stanchion.ops.cli.run import (
    backfill,
    demo,
    deploy,
    pipeline,
    split,
    worker,
)
from stanchion.ops.cli.store import bench, copy, shards, stores
from stanchion.wings import TABLE, module

__all__ = [
    "alerts",
    "audit",
    "backfill",
    "bench",
    "cli",
    "copy",
    "cron",
    "demo",
    "deploy",
    "errors",
    "jobs",
    "lanes",
    "main",
    "maintain",
    "pipeline",
    "push",
    "queues",
    "rates",
    "redrive",
    "semaphores",
    "shards",
    "split",
    "stores",
    "top",
    "topics",
    "watch",
    "worker",
    "workers",
]

for _name in TABLE["commands"]:
    module("commands", _name)

cli.registered_commands.sort(key=lambda command: PANELS.index(command.rich_help_panel))


def main() -> None:
    """Run the console script."""
    for stream in (sys.stdout, sys.stderr):
        # Bars, arrows and names may have no place in the encoding of a terminal: shown as "?", they end no command.
        if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
            stream.reconfigure(errors="replace")
    cli()
