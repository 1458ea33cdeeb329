"""stanchion topics."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from stanchion.core.times import moment
from stanchion.ops.cli.console.given import json_value, past
from stanchion.ops.cli.console.human import age
from stanchion.ops.cli.console.output import STATE_STYLES, Cell, Column, count_cell
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.selection import ROWS, Rows
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.stores.records.jobs import JobState
from stanchion.topics.topic import Lag, Subscription, terms_of
from stanchion.topics.topic import Since as AnySince

topics_cli = typer.Typer(help="List topics, and how far behind each subscriber is; subscribe and unsubscribe.")
cli.add_typer(topics_cli, name="topics", rich_help_panel=LOOK)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="WHEN", help="Past events since: 2h (ago), an ISO 8601 time in UTC, or all."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The subscription.")]

_COLUMNS = [
    Column("TOPIC", shrinks=True, keeps_ends=True),
    Column("SUBSCRIPTION", shrinks=True, keeps_ends=True),
    Column("QUEUE", shrinks=True, keeps_ends=True),
    Column("TASK", shrinks=True, keeps_end=True, from_width=100),
    Column("FILTER", shrinks=True, from_width=100),
    Column("LAG", right=True),
    Column("RUNNING", right=True),
    Column("AGE", right=True),
]


@command(topics_cli, group=True)
def topics(session: Session, limit: Rows = ROWS) -> Exit:
    """List topics, and how far behind each subscriber is; subscribe and unsubscribe."""
    out = session.out
    found = [
        (one, lags[one.name])
        for topic in session.app.topics()
        for lags in [topic.lag()]
        for one in topic.subscriptions()
        if one.name in lags
    ]
    if out.as_json:
        out.json_list(_as_json(one, lag) for one, lag in found)
    elif found:
        out.first(_COLUMNS, [_row(one, lag) for one, lag in found], limit)
    else:
        out.say(
            "no subscriptions: app.topic(name).subscribe(name) in the code, or stanchion topics subscribe, makes one"
        )
    return Exit.OK if found else Exit.FAILED


@command(topics_cli, "subscribe")
def subscribe(
    session: Session,
    topic: Topic,
    name: Name,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Queue of its jobs [default: TOPIC.NAME].")] = None,
    wanted: Annotated[
        str | None, typer.Option("--filter", help='Conditions on the events, as JSON: \'{"payload.kind": "new"}\'.')
    ] = None,
    since: Since = None,
) -> None:
    """Subscribe to a topic: a queue gets each event that is pushed from now on, as a plain payload."""
    its, conditions, begin = session.app.topic(topic), _filter(wanted), _since(session, since)
    session.audit("subscribe", topic, note=_note(name, queue and f"in {queue}", wanted, since and f"since {since}"))
    one = its.subscribe(name, queue=queue, filter=conditions, since=begin)
    session.out.done(f"{topic}: {name} gets its events in {one.queue.name}", _subscription(one))


@command(topics_cli, "catch-up")
def catch_up(session: Session, topic: Topic, name: Name, since: Since = None) -> None:
    """Replay past events to a subscription, once each, if they still exist as a job of another subscription."""
    its, begin = session.app.topic(topic), _since(session, since) or "all"
    its.subscription(name)
    session.audit("catch up", topic, note=_note(name, since and f"since {since}"))
    events = its.catch_up(name, begin)
    session.out.done(f"{topic}: {events:,} past events for {name}", {"topic": topic, "name": name, "events": events})


@command(topics_cli, "unsubscribe")
def unsubscribe(
    session: Session,
    topic: Topic,
    name: Name,
    delete: Annotated[bool, typer.Option("--delete", help="Delete its queue, too, with its jobs and history.")] = False,
) -> None:
    """Remove a subscription. Its queue and jobs stay, unless --delete removes them."""
    its = session.app.topic(topic)
    its.subscription(name)
    session.audit("unsubscribe", topic, note=_note(name, "with its queue" if delete else None))
    its.unsubscribe(name, delete=delete)
    session.out.done(f"{topic}: {name} gets no more events", {"topic": topic, "name": name, "deleted": delete})


def _note(*parts: str | None) -> str:
    """Return the note for the audit log: the subscription and its options."""
    return " ".join(part for part in parts if part)


def _since(session: Session, text: str | None) -> AnySince | None:
    return "all" if text == "all" else past(text, moment(session.app.store.now()), "--since")


def _filter(text: str | None) -> Any:
    return None if text is None else json_value(text, "--filter", '; give such as \'{"payload.kind": "new"}\'')


def _row(one: Subscription, lag: Lag) -> list[Cell]:
    return [
        one.topic,
        one.name,
        terms_of(one).queue,
        one.task or "",
        "" if one.filter is None else json.dumps(one.filter, ensure_ascii=False),
        f"{lag.jobs:,}",
        count_cell(lag.running, STATE_STYLES[JobState.RUNNING]),
        age(lag.age) if lag.age else "",
    ]


def _as_json(one: Subscription, lag: Lag) -> dict[str, object]:
    return {**_subscription(one), "lag": lag._asdict()}


def _subscription(one: Subscription) -> dict[str, object]:
    return {
        "topic": one.topic,
        "name": one.name,
        "queue": terms_of(one).queue,
        "task": one.task,
        "filter": one.filter,
        "options": dict(terms_of(one).options),
    }
