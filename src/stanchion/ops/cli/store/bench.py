"""stanchion bench: the speed of the user's own store."""

from __future__ import annotations

from typing import Annotated

import typer

from stanchion.ops.cli.console.human import duration, rate
from stanchion.ops.cli.console.output import Column
from stanchion.ops.cli.console.root import STORE, cli
from stanchion.ops.cli.console.session import Session, command
from stanchion.ops.cli.store.measure import Advance, Bench

_SPEEDS = [
    Column("MEASURED"),
    Column("JOBS", right=True),
    Column("TOOK", right=True),
    Column("JOBS/S", right=True),
]
_MOST_SINGLES = 2_000
_LATENCY = [
    Column("MEASURED"),
    Column("JOBS", right=True),
    Column("MEDIAN", right=True),
    Column("95 %", right=True),
    Column("99 %", right=True),
    Column("WORST", right=True),
]


@command(cli, "bench", panel=STORE, makes_store=True)
def bench(
    session: Session,
    jobs: Annotated[int, typer.Option("--jobs", "-n", min=100, help="Jobs enqueued in bulk, and drained.")] = 10_000,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the worker.")] = 8,
    samples: Annotated[int, typer.Option(min=1, help="Jobs sent one by one to an idle worker.")] = 100,
) -> None:
    """Measure this store from this machine: enqueue, drain with a worker, pick-up latency.

    It uses its own queues, named stanchion-bench-*, and deletes them afterwards. The jobs do nothing, so the figures
    measure the queue alone. Run it on a quiet machine.
    """
    app, out = session.app, session.out
    if any(worker.state == "running" for worker in app.workers()):
        out.say("note: live workers use this store, which slows down this bench")
    with Bench(app, threads) as measured, out.progress() as progress:

        def bar(name: str, total: int) -> Advance:
            task = progress.add_task(f"{name:<14}", total=total, note="")
            return lambda more: progress.advance(task, more)

        singles = min(jobs, _MOST_SINGLES)
        single = measured.enqueue_single(singles, bar("enqueue single", singles))
        bulk, drain = measured.bulk_and_drain(jobs, bar("enqueue bulk", jobs), bar("drain", jobs))
        pickup = measured.pickup(samples, bar("pick-up", samples))
    speeds = {"enqueue_single": single, "enqueue_bulk": bulk, "drain": drain}
    times = {"median": pickup.within(0.5), "p95": pickup.within(0.95), "p99": pickup.within(0.99)}
    times["worst"] = pickup.seconds[-1]
    if out.as_json:
        out.json(
            {
                "store": app.store.capabilities.name,
                "durable": app.store.capabilities.durable,
                "threads": threads,
                **{name: {**speed._asdict(), "per_second": speed.per_second} for name, speed in speeds.items()},
                "pickup": {"jobs": samples, **times},
            }
        )
        return
    titles = ("enqueue, one call each", "enqueue, 1000 per call", f"drain, {threads} threads")
    out.table(
        _SPEEDS,
        [
            [title, f"{speed.jobs:,}", duration(speed.seconds), rate(speed.per_second)]
            for title, speed in zip(titles, speeds.values(), strict=True)
        ],
    )
    out.line("")
    out.table(_LATENCY, [["enqueue to start", f"{samples:,}", *map(duration, times.values())]])
    out.say(f"{app.store.capabilities.name}: {app.store.capabilities.durable}")
