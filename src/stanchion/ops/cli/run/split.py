"""stanchion pipeline split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.jobs import lookup
from stanchion.jobs.job import Job
from stanchion.ops.cli.console.given import job_ids
from stanchion.ops.cli.console.session import Session, command
from stanchion.ops.cli.run.pipeline import Target, named_pipeline, pipeline_cli
from stanchion.ops.words import plural
from stanchion.pipelines.chunks.splitting import MOST

_SHOWN = 20


@command(pipeline_cli, "split")
def split(
    session: Session,
    target: Target,
    chunk: Annotated[str, typer.Argument(metavar="ID", help="The job that carries the items.")],
    items: Annotated[
        list[str] | None, typer.Argument(metavar="ITEM...", help="Items by their numbers: 17, or 20-29.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All items, if they are up to 10,000.")] = False,
) -> None:
    """Make items of a waiting or dead chunk jobs of their own; the others stay one chunk. Nothing runs.

    An item of a dead chunk is a dead letter. So that no worker begins an item before you have dealt with it, pause its
    station first.

    stanchion pipeline split etl:etl 0190f5fe-7c00-7a00-8000-000000000000 17 20-29
    """
    if bool(items) == everything:
        raise InvalidInput("which items? name some, as 17 or 20-29, or give --all")
    (job_id,) = job_ids([chunk])
    wanted = None if everything else list(dict.fromkeys(_numbers(items or ())))
    etl = named_pipeline(session, target)
    context = context_of(etl)
    before = lookup.get(context, job_id)
    if wanted is None and before is not None and before.items:
        wanted = list(before.payload.positions)
    session.audit("split", job_id, len(wanted or ()), note=etl.name, store=context.store)
    jobs = etl.split(job_id, wanted)
    alone = list(zip(wanted or (), jobs, strict=False))
    rest = jobs[len(alone) :]
    if not session.out.as_json:
        for line in _lines(alone, rest):
            session.out.line(line)
        return
    found: list[dict[str, object]] = [{"item": item, "job": job.id, "state": job.state} for item, job in alone]
    found += [{"items": job.items or 1, "job": job.id, "state": job.state} for job in rest]
    session.out.json(found)


def _lines(alone: Sequence[tuple[int, Job]], rest: Sequence[Job]) -> Iterator[str]:
    for item, job in alone[:_SHOWN]:
        yield f"item {item} is job {job.id}, {job.state}"
    if (more := len(alone) - _SHOWN) > 0:
        yield f"and {more:,} more items are jobs of their own"
    for job in rest:
        yield f"the other {plural(job.items or 1, 'item')}: job {job.id}, {job.state}"


def _numbers(given: Sequence[str]) -> Iterator[int]:
    """Yield the items of numbers and ranges."""
    for one in given:
        first, _, last = one.partition("-")
        last = last or first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            raise InvalidInput(f"{one!r} is neither an item, as 17, nor a range of items, as 20-29")
        if int(last) - int(first) >= MOST:
            raise InvalidInput(f"{one!r} has more than {MOST:,} items: split fewer")
        yield from range(int(first), int(last) + 1)
