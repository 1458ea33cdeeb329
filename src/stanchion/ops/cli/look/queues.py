"""stanchion queues, pause, resume."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from stanchion.alerts.reading.parts import read_streams
from stanchion.core.text.durations import written
from stanchion.core.times import iso, moment
from stanchion.errors import InvalidInput
from stanchion.jobs.job import JobState
from stanchion.ops.cli.console.given import account, optional_duration, queue_settings
from stanchion.ops.cli.console.human import age
from stanchion.ops.cli.console.output import STATE_STYLES, Cell, Column, count_cell, size_cells
from stanchion.ops.cli.console.root import LOOK, OPERATE, cli
from stanchion.ops.cli.console.selection import ROWS, Rows, tell_unknown
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.reads.queue_parts import partitions_of, schema_json, schemas_of
from stanchion.ops.reads.queues import QueueFigures, figures
from stanchion.ops.words import plural
from stanchion.queues.queue import Queue
from stanchion.stores.fields.jobs import Kind
from stanchion.stores.fields.queues import SETTABLE, Setting
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import Counts, QueueSettings, Sizes
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.leases.serving import divided_queues, unserved

queues_cli = typer.Typer(help="List queues with their sizes and settings; set, purge and delete them.")
cli.add_typer(queues_cli, name="queues", rich_help_panel=LOOK)

Names = Annotated[list[str], typer.Argument(metavar="QUEUE...", help="Names of queues.")]

_COLUMNS = [
    Column("QUEUE", shrinks=True, keeps_ends=True),
    Column("READY", right=True),
    Column("SCHEDULED", right=True),
    Column("WAITING", right=True, from_width=100),
    Column("RUNNING", right=True),
    Column("DONE", right=True),
    Column("DEAD", right=True),
    Column("OLDEST", right=True),
    Column("SETTINGS", shrinks=True, keeps=12),
]
_SIZED = 5
"""Number of columns up to the numbers of live jobs."""


@command(queues_cli, group=True)
def queues(
    session: Session,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="List the partitions of queues too, each with its own figures.")
    ] = False,
    limit: Rows = ROWS,
) -> Exit:
    """List queues with their sizes and settings; set, purge and delete them."""
    app, out = session.app, session.out
    settings, workers = app.store.queues(), app.store.workers()
    if partitions:
        settings = [one for queue in settings for one in (queue, *_partitions_of(app.store, queue))]
    now = app.store.now()
    lanes, streams = unserved_lanes(app.store, settings, workers, now), read_streams(app.store, workers, now)
    schemas = schemas_of(app.store, settings)
    found = [
        {
            **describe(one),
            "schema": schema_json(schemas.get(one.name)),
            "unserved_lanes": lanes.get(one.name, []),
        }
        for one in figures(app.store, settings, workers, now, streams)
    ]
    if out.as_json or partitions:
        order = {one.name: place for place, one in enumerate(settings)}
        found.sort(key=lambda one: order[one["name"]])
    if out.as_json:
        out.json_list(found)
    elif found:
        items, jobs = ([queue[of]["total"] for queue in found] for of in ("items", "size"))
        rows = [_row(queue) for queue in found]
        out.first(*((_COLUMNS, rows) if items == jobs else _with_items(rows, items)), limit)
    else:
        out.say("no queues yet: the first push creates one")
    return Exit.OK if found else Exit.FAILED


@command(queues_cli, "set", makes_store=True)
def set_(
    session: Session,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue; created if it is new.")],
    settings: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...",
            help=f"{', '.join(one.name for one in SETTABLE)}. Times are such as 30s, 5m or 7d; `none` removes a limit.",
        ),
    ],
) -> None:
    """Store settings of a queue: stanchion queues set mail max_rate=50 history_ttl=30d"""
    handle, values = session.app.queue(queue), queue_settings(settings)
    tell_unknown(session, [handle.name], ": it is made now")
    session.audit("set settings", queue, note=" ".join(settings))
    now = handle.configure(**values)
    session.out.done(f"{queue}: {shown_settings(now) or 'defaults'}", settings_json(now))


_FIELD_COLUMNS = [Column("FIELD"), Column("TYPE"), Column("NULL")]


@command(queues_cli, "schema")
def schema(session: Session, queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")]) -> Exit:
    """Show the schema of a queue: its version, and the fields of payloads."""
    app, out = session.app, session.out
    (handle,) = known_queues(session, [queue])
    found = schemas_of(app.store, app.store.queues([handle.name])).get(handle.name)
    if out.as_json:
        out.json(schema_json(found))
    elif found is None:
        out.say(f"{queue} has no schema: payloads are not checked")
    else:
        out.say(f"{queue}: schema version {found.version}")
        rows = [[one.name, str(one.kind), "yes" if one.nullable else "no"] for one in found.fields]
        out.table(_FIELD_COLUMNS, rows)
    return Exit.FAILED if found is None else Exit.OK


@command(queues_cli, "reset")
def reset(
    session: Session,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Settings, such as max_rate; by default all but `paused`."),
    ] = None,
) -> None:
    """Reset settings to the values declared in code, or else to the defaults."""
    known = known_queues(session, [queue])[0]
    session.audit("reset settings", queue, note=" ".join(settings or ()))
    now = known.reset(*settings or ())
    session.out.done(f"{queue}: {shown_settings(now) or 'defaults'}", settings_json(now))


@command(queues_cli, "purge")
def purge(
    session: Session,
    names: Names,
    older_than: Annotated[
        str | None, typer.Option(help="Minimum age, such as 12h; by default the queue's history_ttl.")
    ] = None,
) -> None:
    """Delete finished jobs from history."""
    seconds = optional_duration(older_than, "--older-than")
    purged = {}
    for queue in known_queues(session, names):
        session.audit("purge", queue.name, note=f"older than {older_than}" if older_than else "")
        purged[queue.name] = queue.purge_history(seconds)
    session.out.done(
        "; ".join(f"{name}: {count:,} jobs purged" for name, count in purged.items()),
        [{"queue": name, "purged": count} for name, count in purged.items()],
    )


@command(queues_cli, "delete")
def delete(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete it although it has live jobs.")] = False,
) -> None:
    """Delete a queue with its jobs, history and counts."""
    check_known(session, [name])
    live = session.app.store.stats([name], ["states"])[name].states.total
    if live and not yes:
        raise InvalidInput(f"queue {name!r} has {live:,} live jobs; add --yes to delete them too")
    session.audit("delete", name, live)
    deleted = session.app.delete_queue(name)
    session.out.done(f"{name}: deleted, with {deleted:,} live jobs", {"queue": name, "deleted": deleted})


@command(cli, "pause", panel=OPERATE)
def pause(
    session: Session,
    names: Names,
    note: Annotated[
        str | None, typer.Option("--note", "-m", help="Why, and until when: for who meets the queue next.")
    ] = None,
) -> None:
    """Stop handing out jobs of queues, in every process; running jobs finish.

    stanchion pause payments --note "the provider is down until 10:00"
    """
    if note is None and sys.stdin.isatty() and not session.out.as_json:
        note = typer.prompt("Why, and until when?", default="", show_default=False)
    for queue in known_queues(session, names):
        session.audit("pause", queue.name, note=note or "")
        queue.pause(note or "", account())
    session.out.done(f"paused: {', '.join(names)}", [{"queue": name, "paused": True} for name in names])


@command(cli, "resume", panel=OPERATE)
def resume(session: Session, names: Names) -> None:
    """Resume paused queues, so workers can reserve their jobs again."""
    for queue in known_queues(session, names):
        session.audit("resume", queue.name)
        queue.resume()
    session.out.done(f"resumed: {', '.join(names)}", [{"queue": name, "paused": False} for name in names])


def known_queues(session: Session, names: list[str]) -> list[Queue]:
    """Return existing queues. Raises InvalidInput for an unknown name."""
    check_known(session, names)
    return [session.app.queue(name) for name in names]


def check_known(session: Session, names: list[str]) -> None:
    """Raise InvalidInput for the name of a queue that does not exist."""
    known = [settings.name for settings in session.app.store.queues()]
    for name in names:
        if name not in known:
            raise InvalidInput(
                f"no queue {name!r} (known: {', '.join(known) or 'none'}); `stanchion queues set` creates one"
            )


def describe(queue: QueueFigures) -> dict[str, Any]:
    """Return the settings and figures of a queue, ready for JSON. `lag`: seconds the oldest due job has waited."""
    return {
        **settings_json(queue.settings),
        "shape": queue.settings.shape,
        "size": queue.sizes._asdict(),
        "items": queue.items._asdict(),
        "dead_letters": queue.letters,
        "counts": queue.totals._asdict(),
        "next_due": None if queue.next_due is None else iso(moment(queue.next_due)),
        "lag": queue.lag or 0.0,
        "trouble": queue.trouble,
        "last_5_min": None if queue.times is None else queue.times.as_json(),
    }


def _partitions_of(store: Store, queue: QueueSettings) -> list[QueueSettings]:
    names = [name for name in partitions_of(store, queue.name) if name != queue.name]
    if not names:
        return []
    stored = {one.name: one for one in store.queues(names)}
    return [stored.get(name, QueueSettings(name)) for name in names]


def _row(queue: dict[str, Any]) -> list[Cell]:
    counts = Counts(**queue["counts"])
    settings = QueueSettings(**{name: queue[name] for name in QueueSettings.__slots__ if name in queue})
    return [
        settings.name,
        *size_cells(Sizes(**queue["size"])),
        count_cell(counts.committed + counts.popped + counts.moved, STATE_STYLES[JobState.DONE]),
        count_cell(counts.buried, STATE_STYLES[JobState.DEAD]),
        age(queue["lag"]) if queue["lag"] else "",
        _shown_state(queue, settings),
    ]


def _with_items(rows: list[list[Cell]], items: Sequence[int]) -> tuple[list[Column], list[list[Cell]]]:
    """Return the columns and rows of the table with the numbers of live items."""
    columns = [*_COLUMNS[:_SIZED], Column("ITEMS", right=True), *_COLUMNS[_SIZED:]]
    return columns, [[*row[:_SIZED], count_cell(one), *row[_SIZED:]] for row, one in zip(rows, items, strict=True)]


def unserved_lanes(
    store: Store, settings: Sequence[QueueSettings], workers: Sequence[WorkerRow], now: int
) -> dict[str, list[tuple[int, int]]]:
    """Return, of the queues that workers divide by lanes, the ranges of lanes that no live worker serves."""
    divided = divided_queues(workers)
    shared = {one.name: one for one in settings if one.name in divided}
    heads = store.stats(shared, ["heads"]) if shared else {}
    in_use = {queue: {head.lane for head in heads[queue].heads} for queue in shared}
    return {queue: unserved(one, in_use[queue], workers, now) for queue, one in shared.items()}


def _shown_state(queue: dict[str, Any], settings: QueueSettings) -> str:
    """Return the queue's trouble, unless the settings say it, and the settings."""
    trouble = "" if queue["paused"] or not queue["trouble"] else f"({queue['trouble']})"
    schema = "" if queue["schema"] is None else f"schema=v{queue['schema']['version']}"
    letters = f"({plural(queue['dead_letters'], 'dead letter')})" if queue["dead_letters"] else ""
    parts = (trouble, letters, shown_settings(settings), schema, _shown_lanes(queue["unserved_lanes"]))
    return " ".join(filter(None, parts))


def _shown_lanes(ranges: Sequence[tuple[int, int]]) -> str:
    texts = (f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)
    return f"(no worker for lanes {', '.join(texts)})" if ranges else ""


_JSON: Final = ("name", "key_partitions", *(one.name for one in SETTABLE))


def _shown(one: Setting, value: Any) -> str:
    if one.kind is Kind.FLAG:
        return one.name
    if one.kind is Kind.REAL:
        return f"{one.name}={written(value) if one.is_time else f'{value:g}'}"
    return f"{one.name}={value}"


def settings_json(settings: QueueSettings) -> dict[str, object]:
    """Return the settings that can be set, ready for JSON."""
    return {name: value for name, value in asdict(settings).items() if name in _JSON}


def shown_settings(settings: QueueSettings) -> str:
    """Return the settings that differ from the defaults."""
    usual = QueueSettings(settings.name)
    set_here = (one for one in SETTABLE if getattr(settings, one.name) != getattr(usual, one.name))
    parts = [
        _shown(one, getattr(settings, one.name))
        for one in set_here
        if not (settings.ordered and one.name == "max_running")
    ]
    known = settings_json(settings)
    if changed := sorted(name for name, value in settings.declared.items() if known.get(name, value) != value):
        parts.append(f"(not as declared: {', '.join(changed)})")
    return " ".join(parts)
