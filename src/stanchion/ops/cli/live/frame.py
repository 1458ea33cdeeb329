"""One frame of `top`."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from stanchion.core.times import iso, moment
from stanchion.jobs.job import Job, JobState
from stanchion.ops.cli.console.human import age, duration, one_line, rate, sparkline
from stanchion.ops.cli.console.output import STATE_STYLES, Cell, Column, count_cell, fitted, size_cells
from stanchion.ops.cli.console.selection import ROWS
from stanchion.ops.cli.live.sample import Samples
from stanchion.ops.cli.look import workers
from stanchion.ops.job_json import last_error
from stanchion.ops.reads.queues import QueueFigures
from stanchion.stores.records.queues import Sizes

_QUEUES = [
    Column("QUEUE", shrinks=True, keeps_ends=True),
    Column("READY", right=True),
    Column("SCHEDULED", right=True, from_width=90),
    Column("WAITING", right=True, from_width=100),
    Column("RUNNING", right=True),
    Column("IN/S", right=True),
    Column("DONE/S", right=True),
    Column("FAIL/S", right=True),
    Column("OLDEST", right=True),
    Column("PICK-UP P95", right=True, from_width=130),
    Column("RUN P95", right=True, from_width=130),
    Column("DEAD", right=True),
    Column(""),
]
_RUNNING = [
    Column("RUNNING JOB", short=13),
    Column("QUEUE", shrinks=True, keeps_ends=True),
    Column("TASK", shrinks=True, keeps_end=True, from_width=1),
    Column("FOR", right=True),
    Column("DONE", right=True),
    Column("WORKER", shrinks=True, keeps_ends=True, from_width=110),
]
_DEAD = [
    Column("DEAD JOB", short=13),
    Column("QUEUE", shrinks=True, keeps_ends=True),
    Column("AGO", right=True),
    Column("ERROR", shrinks=True, keeps=48),
]
_OVERHEAD = 12  # lines of the heading, table heads and gaps
_FEWEST = 3


def frame(samples: Samples, width: int, height: int | None, trouble: str = "", limit: int = ROWS) -> RenderableType:
    """Return the last sample as a frame: `width` columns, at most `height` lines (None: `limit` rows of each table)."""
    latest = samples.latest
    parts: list[RenderableType] = [_heading(samples, width, trouble)]
    room = None if height is None else max(4 * _FEWEST, height - _OVERHEAD)
    for columns, rows in (
        (_QUEUES, [_queue_row(queue, samples) for queue in latest.queues]),
        (workers.COLUMNS, [workers.row(one, latest.at) for one in latest.workers]),
        (_RUNNING, [_running_row(job, latest.names[job.id], latest.at) for job in latest.running]),
        (_DEAD, [_dead_row(job, latest.at) for job in latest.dead]),
    ):
        if not rows:
            continue
        most = limit if room is None else max(_FEWEST, room // 2)
        room = None if room is None else room - min(len(rows), most)
        parts += [Text(), fitted(columns, rows[:most], width)]
        if len(rows) > most:
            parts.append(Text(f"and {len(rows) - most} more", "bright_black"))
    return Group(*parts)


def snapshot_json(samples: Samples) -> dict[str, object]:
    """Return a frame's figures, ready for JSON."""
    latest = samples.latest
    return {
        "at": iso(moment(latest.at)),
        "store": latest.store,
        "queues": [
            {
                "queue": queue.name,
                "paused": queue.settings.paused,
                "trouble": queue.trouble,
                "size": queue.sizes._asdict(),
                "dead_letters": queue.letters,
                "counts": queue.totals._asdict(),
                "lag": queue.lag or 0.0,
                "per_second": found._asdict() if (found := samples.rates_of(queue.name)) else None,
                "last_5_min": None if queue.times is None else queue.times.as_json(),
            }
            for queue in latest.queues
        ],
        "workers": [workers.worker_json(one) for one in latest.workers],
        "running": [job.id for job in latest.running],
        "dead": [job.id for job in latest.dead],
    }


def _heading(samples: Samples, width: int, trouble: str) -> Text:
    latest = samples.latest
    total = Sizes(*map(sum, zip(*(queue.sizes for queue in latest.queues), strict=True))) if latest.queues else Sizes()
    threads = sum(one.worker.threads for one in latest.workers if one.state != "late")
    text = Text()
    text.append("stanchion", "bold").append(f"  {latest.store}  {moment(latest.at):%H:%M:%S} UTC\n", "bright_black")
    for name, count in (("ready", total.ready), ("scheduled", total.scheduled), ("running", total.running)):
        text.append(f"{count:,} ", f"bold {STATE_STYLES[JobState(name)]}").append(f"{name}   ")
    text.append(f"{threads:,} ", "bold").append("threads\n")
    done = list(samples.done)
    text.append(f"{rate(done[-1] if done else None):>8} ", "bold green").append("done/s  ")
    text.append(sparkline(done[-max(1, width - 20) :]), "green")
    if trouble:
        text.append(f"\n{one_line(trouble)}", "bold red")
    return text


def _queue_row(queue: QueueFigures, samples: Samples) -> list[Cell]:
    found = samples.rates_of(queue.name)
    return [
        queue.name,
        *size_cells(queue.sizes),
        _rate_cell(found.pushed if found else None, ""),
        _rate_cell(found.done if found else None, "green"),
        _rate_cell(found.failed + found.dead if found else None, "red"),
        age(queue.lag) if queue.lag else "",
        duration(None if queue.times is None else queue.times.delay(95)),
        duration(None if queue.times is None else queue.times.run(95)),
        count_cell(queue.totals.buried, STATE_STYLES[JobState.DEAD]),
        Text("paused", "yellow") if queue.settings.paused else Text(queue.trouble, "bold red"),
    ]


def _rate_cell(per_second: float | None, style: str) -> Text:
    return Text(rate(per_second), style if per_second else "bright_black")


def _running_row(job: Job, name: str, now: int) -> list[Cell]:
    started = job.started_at
    return [
        job.id,
        job.queue,
        name,
        "" if started is None else age((moment(now) - started).total_seconds()),
        f"{job.progress:.0%}" if job.progress else "",
        job.worker or "",
    ]


def _dead_row(job: Job, now: int) -> list[Cell]:
    ended = job.finished_at
    return [
        job.id,
        job.queue,
        "" if ended is None else age((moment(now) - ended).total_seconds()),
        Text(one_line(last_error(job)), "red"),
    ]
