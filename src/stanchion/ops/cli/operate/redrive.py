"""stanchion retry, cancel, replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from stanchion import wings
from stanchion.app import app_of
from stanchion.context import context_of
from stanchion.core.ids import new_ids
from stanchion.errors import FlowNotFound, InvalidInput
from stanchion.flows.handle import FlowState
from stanchion.jobs.insert import batches
from stanchion.jobs.job import JobState
from stanchion.jobs.lookup import refuse_items
from stanchion.ops.cli.console.given import job_ids
from stanchion.ops.cli.console.root import OPERATE, cli
from stanchion.ops.cli.console.selection import (
    PAGE,
    Contains,
    ErrorGroup,
    Flow,
    Queue,
    Since,
    States,
    TaskName,
    Tenant,
    Until,
    pages,
    search,
)
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.cli.run.pipeline import named_pipeline
from stanchion.ops.redriving import GONE, Refusal, Verdict, cancelled, copied, retried
from stanchion.pipelines.pipeline import plan_of
from stanchion.stores.rules.lifecycle.dead_letters import letter_queues

Ids = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Ids of jobs; or select them by options.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Maximum number of jobs, newest first.")]

_COMPLAINTS_MAX = 20


@command(cli, "retry", panel=OPERATE)
def retry(
    session: Session,
    ids: Ids = None,
    queue: Queue = None,
    state: States = None,
    task: TaskName = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    text: Contains = None,
    error: ErrorGroup = None,
    flow: Flow = None,
    limit: Limit = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the jobs.")] = False,
) -> Exit:
    """Make dead, cancelled or scheduled jobs ready now, with their attempts reset.

    Options select dead jobs unless --state is given. Dead letters are dead jobs of the queue where they died, and of
    the queue where they lie; they go back to where they died.

    stanchion retry --queue payments --task capture --error 9f2c41d0 --dry-run
    """

    def act(batch: Sequence[str]) -> Iterator[Verdict]:
        if dry_run:
            yield from (Verdict(job_id, None) for job_id in batch)
            return
        yield from retried(session.app.store, batch)

    if ids and dry_run:
        raise InvalidInput("--dry-run counts the jobs that options select; of ids, you know the number")
    filters = (queue, state, task, tenant, since, until, text, error, flow)
    found = chosen(session, ids, filters, [JobState.DEAD], limit)
    subject = None if dry_run else _words(ids, filters)
    return _each("would retry" if dry_run else "retried", session, found, act, "retry", subject)


@command(cli, "cancel", panel=OPERATE)
def cancel(
    session: Session,
    ids: Ids = None,
    queue: Queue = None,
    state: States = None,
    task: TaskName = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    text: Contains = None,
    error: ErrorGroup = None,
    flow: Flow = None,
    limit: Limit = None,
) -> Exit:
    """Cancel live jobs, or flows by their ids; running jobs are asked to stop."""

    def act(batch: Sequence[str]) -> Iterator[Verdict]:
        for verdict in cancelled(session.app.store, batch):
            yield _stopped(session, verdict.id) if verdict.refusal is GONE else verdict

    live = [one for one in JobState if not one.final]
    if queue is not None and queue in letter_queues(session.app.store.queues()):
        live.append(JobState.DEAD)
    filters = (queue, state, task, tenant, since, until, text, error, flow)
    return _each("cancelled", session, chosen(session, ids, filters, live, limit), act, "cancel", _words(ids, filters))


Archive = Annotated[
    Path | None,
    typer.Option("--archive", metavar="DIR", help="Replay jobs of this archive instead of the store's history."),
]
Where = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="Only archived jobs that match this Spark SQL condition."),
]
To = Annotated[str | None, typer.Option("--to", metavar="QUEUE", help="Where copies of archived jobs go.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only count the archived jobs, or list the items that would run again.")
]
WriteId = Annotated[
    str | None, typer.Option("--write-id", metavar="ID", help="A repetition with the same id does nothing.")
]
OfPipeline = Annotated[
    str | None,
    typer.Option("--pipeline", metavar="MODULE:PIPELINE", help="Run items of this pipeline again from a station."),
]
FromStation = Annotated[
    str | None,
    typer.Option("--from", metavar="STATION", help="The station; by default that where each item entered."),
]


@command(cli, "replay", panel=OPERATE)
def replay(
    session: Session,
    ids: Ids = None,
    queue: Queue = None,
    state: States = None,
    task: TaskName = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    text: Contains = None,
    flow: Flow = None,
    limit: Limit = None,
    archive: Archive = None,
    where: Where = None,
    to: To = None,
    dry_run: DryRun = False,
    write_id: WriteId = None,
    pipeline: OfPipeline = None,
    from_: FromStation = None,
) -> Exit:
    """Enqueue copies of finished jobs, from history or from an archive; each copy names its origin.

    stanchion replay --pipeline etl:etl --from raw --state dead
    """
    if pipeline is not None:
        if any((archive, where, to, queue, task, flow)):
            raise InvalidInput("with --pipeline, select items by ids, --state, --tenant, --since, --until and --text")
        of_items = (None, state, None, tenant, since, until, text)
        return _replay_items(session, pipeline, ids, of_items, from_, limit, dry_run=dry_run, write_id=write_id)
    if from_ is not None:
        raise InvalidInput("--from names a station: give --pipeline MODULE:PIPELINE too")
    if archive is not None:
        if ids or any((state, task, tenant, since, until, text, flow, limit)):
            raise InvalidInput("select archived jobs by --where, which covers all these options, and by --queue")
        replay_archived = wings.module("commands", "archive").replay_archived
        return Exit(replay_archived(session, archive, where, queue=queue, to=to, dry_run=dry_run, write_id=write_id))
    if where is not None or to is not None or dry_run or write_id is not None:
        raise InvalidInput(
            "--where, --to, --dry-run and --write-id are for archived jobs: give --archive DIR too; the last two also "
            "for items of a pipeline: give --pipeline MODULE:PIPELINE"
        )

    def act(batch: Sequence[str]) -> Iterator[Verdict]:
        yield from copied(session.app.store, batch, new_ids(len(batch)))

    finished = [one for one in JobState if one.final]
    filters = (queue, state, task, tenant, since, until, text, None, flow)
    found = chosen(session, ids, filters, finished, limit)
    return _each("replayed", session, found, act, "replay", _words(ids, filters))


def _replay_items(
    session: Session,
    target: str,
    ids: list[str] | None,
    filters: tuple[Any, ...],
    station: str | None,
    limit: int | None,
    *,
    dry_run: bool,
    write_id: str | None,
) -> Exit:
    """Run items of a pipeline again from a station. After the last batch, one step enqueues all copies."""
    etl = named_pipeline(session, target)
    plan_of(etl).check()
    session.app = app_of(context_of(etl))
    reruns = plan_of(etl).reruns(station, write_id)
    if reruns.was_published():
        session.out.done("nothing to do: this write was done before", [])
        return Exit.OK

    def act(batch: Sequence[str]) -> Iterator[Verdict]:
        known: set[str] = set()
        for plans in reruns.plan(batch):
            if not dry_run:
                reruns.stage(plans)
            for plan in plans:
                known.add(plan.id)
                if plan.refusal is not None:
                    yield Verdict(plan.id, None, Refusal(plan.refusal, "refused"), items=plan.items)
                elif plan.copy is not None:  # otherwise it runs again as part of another one
                    copy = None if dry_run else plan.copy.id
                    yield Verdict(plan.id, JobState.READY, copy=copy, items=plan.items)
        yield from (Verdict(job_id, None, GONE) for job_id in batch if job_id not in known)

    def published() -> Iterator[list[str]]:
        yield from chosen(session, ids, filters, [], limit) if ids else batches(found(), PAGE)
        if not dry_run:
            reruns.publish()

    def found() -> Iterator[str]:
        wanted = {**search(session, *filters), "limit": limit}
        return plan_of(etl).chosen_ids(station, **{name: value for name, value in wanted.items() if value is not None})

    subject = None if dry_run else f"items of {etl.name}: {_words(ids, filters)}"
    return _each("would replay" if dry_run else "replayed", session, published(), act, "replay", subject, "item")


def chosen(
    session: Session,
    ids: list[str] | None,
    filters: tuple[Any, ...],
    states: list[JobState],
    limit: int | None,
) -> Iterator[list[str]]:
    """Return batches of the given ids, or of the ids that match the filters."""
    filtered = any(filters)
    if ids and (filtered or limit):
        raise InvalidInput("give ids, or options that select jobs, not both")
    if ids:
        refuse_items(context_of(session.app), ids)
        return batches(iter(job_ids(ids)), PAGE)
    if not filtered:
        raise InvalidInput("which jobs? give ids, or options that select them, such as --queue mail")
    wanted = search(session, *filters)
    wanted["state"] = wanted["state"] or states
    return ([job.id for job in page] for page in pages(session.app, wanted, limit))


def _words(ids: list[str] | None, filters: Sequence[object]) -> str:
    """Return which jobs are meant, for the audit log."""
    if ids:
        return f"{len(ids):,} chosen jobs: {', '.join(ids)}"
    return " ".join(str(one) for value in filters if value for one in (value if isinstance(value, list) else [value]))


def _each(
    done: str,
    session: Session,
    jobs: Iterator[list[str]],
    act: Callable[[Sequence[str]], Iterator[Verdict]],
    verb: str,
    subject: str | None,
    noun: str = "job",
) -> Exit:
    """Process the jobs batch by batch and report. `subject`: for the audit log; None for a dry run."""
    out, counts = session.out, [0, 0]
    if subject is not None:
        session.audit(verb, subject)
    with out.progress() as progress:
        bar = progress.add_task(done, total=None, note="")

        def verdicts() -> Iterator[Verdict]:
            for batch in jobs:
                for verdict in act(batch):
                    counts[verdict.ok] += verdict.items
                    if verdict.refusal is not None and counts[False] <= _COMPLAINTS_MAX:
                        out.say(f"{noun} {verdict.id} {verdict.refusal.reason}")
                    yield verdict
                progress.advance(bar, len(batch))

        if out.as_json:
            out.json_list(_json(verdict) for verdict in verdicts())
        else:
            for _ in verdicts():
                pass
    failed, succeeded = counts
    if subject is not None and succeeded:
        session.audit(f"{verb}: finished", subject, succeeded, f"{failed:,} left out" if failed else "")
    if not failed and not succeeded:
        out.say(f"no {noun}s match")
    elif not out.as_json:
        failures = f", {failed:,} not" if failed else ""
        out.line(f"{done}: {succeeded:,} {noun}{'' if succeeded == 1 else 's'}{failures}")
    return Exit.FAILED if failed or not succeeded else Exit.OK


def _json(verdict: Verdict) -> dict[str, object]:
    reason = None if verdict.refusal is None else verdict.refusal.reason
    return {"id": verdict.id, "ok": verdict.ok, "state": verdict.state, "reason": reason, "copy": verdict.copy}


def _stopped(session: Session, flow_id: str) -> Verdict:
    """Cancel a flow, if the id names one."""
    try:
        state = session.app.flow(flow_id).cancel()
    except FlowNotFound:
        return Verdict(flow_id, None, GONE)
    ended = None if state == FlowState.CANCELLED else Refusal(f"is a flow, which is {state} already", "ended")
    return Verdict(flow_id, state, ended)
