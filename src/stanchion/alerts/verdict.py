"""The alerts of a snapshot: all rules, merged by cause, the most urgent first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from stanchion.alerts.records import Action, Alert
from stanchion.alerts.rules.finding import Found, RuleOf
from stanchion.alerts.rules.jobs import attempts, dead_letters, expired_jobs, failed_attempts, run_time, unknown_task
from stanchion.alerts.rules.parts import idle_station, missed_tick, purge, semaphore, stream
from stanchion.alerts.rules.queues import age, no_worker, paused
from stanchion.alerts.rules.store import manager, store
from stanchion.alerts.snapshot import Snapshot
from stanchion.alerts.thresholds import Thresholds
from stanchion.core.service_levels import BANDS

RULES: Sequence[RuleOf] = (
    *(store, manager, no_worker, stream, age, paused, dead_letters, failed_attempts, expired_jobs),
    *(run_time, attempts, unknown_task, idle_station, semaphore, missed_tick, purge),
)
"""The first rule of equal ones heads a merged alert: a cause before what follows from it."""


def alerts_of(seen: Snapshot, limits: Thresholds) -> list[Alert]:
    """Return the alerts, the most urgent first."""
    found = [one for rule in RULES for one in rule(seen, limits)]
    return sorted(merged(found, limits.runbooks), key=_urgency)


def merged(found: Iterable[Found], runbooks: str) -> list[Alert]:
    """Return one alert for each cause: the most urgent one, with the others as its evidence.

    `runbooks`: the page with a section on each rule.
    """
    causes: dict[str, list[Alert]] = {}
    for cause, alert in found:
        causes.setdefault(cause, []).append(alert)
    return [_one(alerts, runbooks) for alerts in causes.values()]


def by_queue(alerts: Iterable[Alert], seen: Snapshot) -> dict[str, Alert]:
    """Return the alert about each queue, or about the stream that reads it, of alerts by their urgency."""
    read = {one.name: one.queue for one in seen.streams}
    found: dict[str, Alert] = {}
    for alert in alerts:
        queue = read.get(alert.subject) if alert.kind == "stream" else alert.subject if alert.kind == "queue" else None
        if queue is not None:
            found.setdefault(queue, alert)
    return found


def _one(alerts: list[Alert], runbooks: str) -> Alert:
    heaviest = min(alerts, key=lambda one: one.level != "now")
    others = [one for one in alerts if one is not heaviest]
    begins = [one.since for one in alerts if one.since is not None]
    bands = [one.band for one in alerts if one.band is not None]
    lines = (*heaviest.evidence, *(line for one in others for line in (one.summary, *one.evidence)))
    actions: dict[str, Action] = {}
    for action in (action for one in (heaviest, *others) for action in one.actions):
        actions.setdefault(action.command or action.text, action)
    return replace(
        heaviest,
        since=min(begins, default=None),
        band=next((band.name for band in BANDS if band.name in bands), None),
        evidence=tuple(dict.fromkeys(lines)),
        actions=tuple(actions.values()),
        error=next((one.error for one in (heaviest, *others) if one.error is not None), None),
        merged=tuple(dict.fromkeys(one.rule for one in others if one.rule != heaviest.rule)),
        runbook=f"{runbooks}#{heaviest.rule}",
    )


_PLACE = {band.name: number for number, band in enumerate(BANDS)}
_NO_BAND = 1.5
"""Alerts without a band are sorted between the urgent bands and the others; the store's before all."""


def _urgency(alert: Alert) -> tuple[bool, float, float, str]:
    place = _NO_BAND if alert.band is None else _PLACE[alert.band]
    return alert.level != "now", -1 if alert.kind == "store" else place, -alert.percent, alert.key
