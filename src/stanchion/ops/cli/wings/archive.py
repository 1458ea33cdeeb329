"""stanchion archive, and the replay of archived jobs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stanchion.core.checks import chosen
from stanchion.core.text.durations import duration
from stanchion.errors import InvalidInput
from stanchion.ops.cli.console.human import age
from stanchion.ops.cli.console.root import STORE, cli
from stanchion.ops.cli.console.session import Exit, Session, command

if TYPE_CHECKING:
    from stanchion.spark import Archive, Replay


@command(cli, "archive", panel=STORE)
def archive(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the archive; created if missing.")],
    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", help="Only this queue. Repeatable; by default all queues.")
    ] = None,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Only jobs that finished longer ago than this.")
    ] = "1h",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the jobs in the store's history too.")] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="With --keep: read all of history, not only new jobs.")
    ] = False,
    typed: Annotated[
        bool, typer.Option("--typed", help="Payloads of queues with a schema as typed columns too.")
    ] = False,
    compact: Annotated[bool, typer.Option("--compact", help="Merge small files, and delete unused ones.")] = False,
    engine: Annotated[
        str | None,
        typer.Option("--engine", metavar="ENGINE", help="spark or local; by default Spark for many jobs."),
    ] = None,
) -> Exit:
    """Move finished jobs from the store to an archive, a Delta table of Parquet files by day.

    Each finish is archived exactly once. After an interruption, run the same command again.
    """
    if engine not in (None, "spark", "local"):
        raise InvalidInput(f"--engine must be spark or local, not {engine!r}")
    seconds, subject = duration(older_than, "--older-than"), ", ".join(queue or ()) or "all queues"
    from stanchion.spark import archive as run
    from stanchion.spark.archiving.archive import wanted
    from stanchion.spark.archiving.done import ENGINES

    wanted(session.app, folder.absolute(), queue or (), seconds)  # refuse before the audit log records it
    out = session.out
    session.audit("archive", subject, note=f"older than {older_than} to {folder}{', kept here too' if keep else ''}")
    with out.progress() as progress:
        bar = progress.add_task("archived", total=None, note="")
        done = run(
            session.app,
            folder,
            queues=queue or (),
            older_than=seconds,
            keep=keep,
            whole=whole,
            typed=typed,
            compact=compact,
            engine=chosen(engine, ENGINES),
            watch=lambda count: progress.update(bar, completed=count),
        )
    if done.archived or done.purged:
        session.audit("archive: finished", subject, done.archived, f"{done.purged:,} purged from the store")
    out.done(_summary(done, keep=keep), asdict(done))
    return Exit.OK


def _summary(done: Archive, *, keep: bool) -> str:
    if not done.archived and not done.purged:
        return "nothing to archive" + (f"; compacted, {_files(done.compacted)} fewer" if done.compacted else "")
    fate = "kept" if keep else f"{done.purged:,} purged from the store"
    compacted = f"; compacted, {_files(done.compacted)} fewer" if done.compacted else ""
    archived = f"{_items(done.items, done.archived)} in {_files(done.files)}"
    return f"archived: {archived}, {fate}{compacted}; {age(done.seconds)}"


def replay_archived(
    session: Session,
    folder: Path,
    where: str | None,
    *,
    queue: str | None,
    to: str | None,
    dry_run: bool,
    write_id: str | None,
) -> Exit:
    """Enqueue copies of archived jobs, for `stanchion replay --archive`."""
    if where is None:
        raise InvalidInput("which jobs? select them in Spark SQL: --where \"state = 'dead' and task = 'mail'\"")
    from stanchion.spark import replay

    out, subject = session.out, f"archived in {folder}: {where}"
    if not dry_run:
        session.audit("replay", subject, note=f"to {to}" if to else "")
    with out.progress() as progress:
        bar = progress.add_task("copied", total=None, note="")
        done = replay(
            session.app,
            folder,
            where,
            queue=queue,
            to=to,
            dry_run=dry_run,
            write_id=write_id,
            watch=lambda count: progress.update(bar, completed=count),
        )
    if done.enqueued and not dry_run:
        session.audit("replay: finished", subject, done.matched)
    out.done(_replayed(done, dry_run=dry_run), asdict(done))
    return Exit.OK if done.matched else Exit.FAILED


def _replayed(done: Replay, *, dry_run: bool) -> str:
    if not done.matched:
        return "no archived jobs match"
    if dry_run:
        return f"would replay: {_items(done.matched, done.jobs)}"
    replayed = f"replayed: {_items(done.matched, done.jobs)}"
    return replayed if done.enqueued else "nothing to do: this write was done before"


def _files(count: int) -> str:
    return f"{count:,} {'file' if count == 1 else 'files'}"


def _items(items: int, jobs: int) -> str:
    return _jobs(jobs) if items == jobs else f"{items:,} {'item' if items == 1 else 'items'} of {_jobs(jobs)}"


def _jobs(count: int) -> str:
    return f"{count:,} {'job' if count == 1 else 'jobs'}"
