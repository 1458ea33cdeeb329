"""stanchion alerts: list firing alerts."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Annotated

import typer

from stanchion.alerts.alerts import store_limits, stored_limits
from stanchion.alerts.changes import Change, Changes
from stanchion.alerts.groups import Group, grouped
from stanchion.alerts.owners import Owner, owners_of_alerts, set_owner
from stanchion.alerts.records import SHOWN, Alert, Monitor
from stanchion.alerts.thresholds import Thresholds
from stanchion.alerts.webhook import Webhook
from stanchion.context import context_of
from stanchion.core import environment
from stanchion.core.checks import whole
from stanchion.core.text.durations import duration, spelled
from stanchion.core.text.printable import safe
from stanchion.errors import InvalidInput
from stanchion.jobs.job import JobState
from stanchion.ops.cli.console.given import account, pairs, spacing
from stanchion.ops.cli.console.human import age
from stanchion.ops.cli.console.output import STATE_STYLES, Cell, Column, count_cell
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.words import plural
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.registry import shown_url

alerts_cli = typer.Typer(help="Show firing alerts; exit code 1 if there are any.")
cli.add_typer(alerts_cli, name="alerts", rich_help_panel=LOOK)

_BANDS = [
    Column("QUEUE", shrinks=True, keeps_ends=True),
    Column("BAND"),
    Column("READY", right=True),
    Column("RUNNING", right=True),
    Column("ERRORING", right=True),
    Column("MAX AGE", right=True),
    Column("OF LIMIT", right=True),
]

TOKEN_VARIABLE = environment.WEBHOOK_TOKEN


@command(alerts_cli, group=True)
def alerts(
    session: Session,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", metavar="NAME=VALUE", help="Another limit, such as interactive.max_age=30s. Repeatable."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help=f"Show all, not only the {SHOWN} most urgent.")] = False,
    monitor: Annotated[
        bool, typer.Option("--monitor", help="Show the live jobs by priority band and queue too.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep running; print changes of alerts.")] = False,
    interval: Annotated[str, typer.Option("--interval", "-i", help="With --watch: time between readings.")] = "10s",
    samples: Annotated[int | None, typer.Option(help="With --watch: end after so many readings.")] = None,
    webhook: Annotated[
        str | None,
        typer.Option(metavar="URL", help=f"With --watch: post changes there; {TOKEN_VARIABLE} is its token."),
    ] = None,
) -> Exit:
    """Show firing alerts; exit code 1 if there are any.

    stanchion alerts --watch --webhook https://example.org/hook
    """
    limits = limits_in(limit or ())
    if not watch:
        if webhook is not None:
            raise InvalidInput("--webhook needs --watch, which reports alerts as they begin and end")
        return _once(session, session.app.monitor(limits), every=every, figures=monitor)
    seconds = spacing(interval, "--interval")
    hook = None if webhook is None else Webhook(webhook, shown_url(session.app.url), os.environ.get(TOKEN_VARIABLE))
    left = None if samples is None else whole(samples, "--samples")
    changes = Changes()
    while True:
        seen = session.app.monitor(limits)
        changed = changes.add(seen.alerts, seen.at)
        for change in changed:
            _tell(session, change)
        if hook is not None:
            hook.add(changed)
            hook.deliver()
        left = None if left is None else left - 1
        if left == 0:
            return Exit.FAILED if changes.firing else Exit.OK
        time.sleep(seconds)


QUEUES_SHOWN = 100
"""Queues whose figures are listed."""


@command(alerts_cli, "on-it")
def on_it(
    session: Session,
    subject: Annotated[str, typer.Argument(help="Subject of the alert, such as the name of a queue.")],
    who: Annotated[str | None, typer.Option(help="Your name; default: your account's name.")] = None,
) -> None:
    """Show for 4 h that you are handling an alert, on pages and in other shells. The alert stays visible.

    stanchion alerts on-it payments
    """
    app = session.app
    keys = sorted({one.key for one in app.monitor().alerts if subject in (one.key, one.subject)})
    if not keys:
        raise InvalidInput(f"no alert is about {subject!r}: `stanchion alerts --all` lists them")
    name = account() if who is None else who
    for key in keys:
        session.audit("on it", key)
        set_owner(app.store, key, name, app.store.now())
    session.out.done(f"{name} is on it: {', '.join(keys)}", [{"key": key, "who": name} for key in keys])


@command(alerts_cli, "limits")
def limits(session: Session) -> None:
    """List the limits that are changed for all processes."""
    found = stored_limits(context_of(session.app))
    if session.out.as_json:
        session.out.json(found)
    elif found:
        for name, value in sorted(found.items()):
            session.out.line(f"{name}={value:g}")
    else:
        session.out.say("none is changed: `stanchion alerts set interactive.max_age=30s` changes one")


@command(alerts_cli, "set")
def set_(
    session: Session,
    changes: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...",
            help="interactive.max_age=30s, eventual.max_attempts=20, queue.mail.max_run=10m, no_worker=2m; `none` sets "
            "back.",
        ),
    ],
) -> None:
    """Change limits for all processes: stanchion alerts set interactive.max_age=30s queue.mail.max_age=5m"""
    wanted = {name: None if text == "none" else _limit(name, text) for name, text in pairs(changes, "a limit").items()}
    Thresholds().changed({name: limit for name, limit in wanted.items() if limit is not None})
    session.audit("set limits", "alerts", note=" ".join(changes))
    found = store_limits(context_of(session.app), wanted)
    told = " ".join(f"{name}={value:g}" for name, value in sorted(found.items()))
    session.out.done(f"changed: {told or 'none'}", found)


def limits_in(given: list[str] | tuple[str, ...]) -> dict[str, float]:
    """Return the limits of `name=value` texts. Raises InvalidInput."""
    found = {name: _limit(name, text) for name, text in pairs(given, "--limit").items()}
    Thresholds().changed(found)
    return found


def _limit(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return duration(text, name)


def _once(session: Session, seen: Monitor, *, every: bool, figures: bool) -> Exit:
    out = session.out
    if out.as_json:
        out.json(seen.as_json() if figures else [alert.as_json() for alert in seen.alerts])
    else:
        if figures:
            out.table(_BANDS, _figures(seen, QUEUES_SHOWN))
            if len(seen.queues) > QUEUES_SHOWN:
                out.say(
                    f"the {QUEUES_SHOWN} of {len(seen.queues):,} queues that are nearest to an alert; --json has all"
                )
        some, more = ([Group((one,)) for one in seen.alerts], 0) if every else grouped(seen.alerts)
        now = session.app.store.now() if some and seen.at is not None else 0
        looked_after = owners_of_alerts(session.app.store, now) if now else {}
        for group in some:
            for line in _lines(group, now, looked_after):
                print(safe(line))
        if more:
            out.line(f"and {more:,} more: --all shows them")
        if not seen.alerts:
            jobs = sum(queue.size.total for queue in seen.queues)
            out.line(f"nothing needs a person: {plural(jobs, 'live job')} in {plural(len(seen.queues), 'queue')}")
    return Exit.FAILED if seen.alerts else Exit.OK


def _lines(group: Group, now: int, looked_after: Mapping[str, Owner]) -> list[str]:
    """Format an alert as lines, or the alerts of one rule as one line."""
    first = group.first
    if len(group.alerts) > 1:
        return [f"{first.level.upper():<5} {group.summary}", f"      --all shows each; {first.runbook}"]
    return lines_of(first, now, looked_after.get(first.key))


def lines_of(alert: Alert, now: int = 0, owner: Owner | None = None) -> list[str]:
    """Format an alert as lines. `owner`: the person handling it."""
    since = "" if alert.since is None else f"since {alert.since:%Y-%m-%d %H:%M:%S} UTC, "
    evidence = (f"      {line}" for line in alert.evidence)
    actions = (f"      {one.text}{f': {one.command}' if one.command else ''}" for one in alert.actions)
    runbook = f"      {since}{alert.percent:.0f} % of the limit, {alert.runbook}"
    after = () if owner is None else (f"      {owner.who} is on it for {spelled((now - owner.at) / SECOND)}",)
    return [f"{alert.level.upper():<5} {alert.summary}", *after, *evidence, *actions, runbook]


def _figures(seen: Monitor, most: int) -> list[list[Cell]]:
    """Return the bands of all queues, and of each one, as rows; of more than `most`, those nearest to an alert."""
    queues = seen.queues
    if len(queues) > most:
        queues = tuple(sorted(queues, key=lambda one: (-one.alert_percent, one.queue))[:most])
    return [
        [
            *(name, one.band),
            count_cell(one.ready, STATE_STYLES[JobState.READY]),
            count_cell(one.running, STATE_STYLES[JobState.RUNNING]),
            count_cell(one.erroring, "red"),
            age(one.max_age),
            f"{one.alert_percent:,.0f} %",
        ]
        for name, bands in (("all", seen.bands), *((queue.queue, queue.bands) for queue in queues))
        for one in bands
    ]


def _tell(session: Session, change: Change) -> None:
    if session.out.as_json:
        session.out.json_line(change.as_json())
        return
    word = "FIRES" if change.status == "firing" else "ENDS "
    at = "" if change.at is None else f"{change.at:%Y-%m-%d %H:%M:%S}  "
    print(safe(f"{at}{word}  {change.alert.level:<4}  {change.alert.summary}"), flush=True)
